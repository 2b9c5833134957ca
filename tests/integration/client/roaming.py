"""The client's half of a partition test, run on a machine of its own: ``python -m ... NAME_SERVER TOPIC``.

It reads words from its input: ``goes-on WHAT`` answers when sends and deliveries succeed again, ``end`` ends it. Each
is answered with one line.
"""

import asyncio
import sys

from tests.interop.client.disturbed import Disturbed


async def main(names: str, topic: str) -> None:
    """Work until told to end."""
    async with Disturbed(names, topic) as both:
        print("ready", flush=True)
        while (line := (await asyncio.to_thread(sys.stdin.readline)).strip()) != "end":
            await both.goes_on(line.removeprefix("goes-on "))
            print("on", flush=True)
    delays = ",".join(f"{name}={delay:.3f}" for name, delay in both.delays.items())
    print(f"{len(both.acknowledged)};{len(both.lost())};{delays};{both}", flush=True)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:3]))
