"""The cost of access for a send: ``python -m benchmarks.broker.access [messages]``.

Brokers as in ``benchmarks.broker``, 128 bytes a message, 64 at once: without signatures, with signatures that nobody
looks at, with every signature checked, and with users that are remembered for the connection. No two messages of a
round are equal, so no two signatures are. Printed are microseconds of CPU a message, client included.
"""

import asyncio
import gc
import os
import platform
import sys
import time
from statistics import median
from typing import Final

from msgspec.structs import replace

from benchmarks.broker.__main__ import LOOPBACK, MESSAGES, PROPERTIES, QUEUES, Client, Cost
from benchmarks.broker.serving import serving
from campaigns.samples import SEND
from firearrow.access.settings import STATEFUL, AccessConfig
from firearrow.broker.settings.config import BrokerSettings
from firearrow.protocol.auth import Credentials, Signer
from firearrow.protocol.command import Encoding
from firearrow.protocol.serialize import encode_request
from firearrow.runtime.loops import new_loop

DEPTH: Final = 64
REPEATS: Final = 5
SIZE: Final = 128
USER: Final = Credentials("bench", "the-secret-of-bench")
OFF: Final = AccessConfig()
ON: Final = AccessConfig(
    authentication_enabled=True,
    authorization_enabled=True,
    init_authentication_user='{"username":"bench","password":"the-secret-of-bench"}',
)
BASE: Final = "signed, access off"
CASES: Final = (
    ("no signature, access off", OFF, False),
    (BASE, OFF, True),
    ("signed, every one checked", ON, True),
    ("signed, user remembered", replace(ON, authentication_strategy=STATEFUL), True),
)


def frames(*, signed: bool) -> bytes:
    """The sends of a round."""
    sign = Signer(USER)
    parts = []
    for number in range(DEPTH):
        body = f"{number:08}".encode() + b"x" * (SIZE - 8)
        request = replace(SEND, topic="bench", queue_id=number % QUEUES, properties=PROPERTIES)
        extra = sign(request, body) if signed else None
        parts += [encode_request(Encoding.JSON, request, number, body_size=len(body), extra=extra), body]
    return b"".join(parts)


async def measure(access: AccessConfig, data: bytes, messages: int) -> Cost:
    """Send in rounds to a new broker."""
    async with serving(BrokerSettings(access=access)) as (_, port):
        gc.freeze()
        transport, client = await asyncio.get_running_loop().create_connection(Client, LOOPBACK, port)
        spent = []
        for _ in range(messages // DEPTH):
            before = time.process_time()
            await client.exchange(data, DEPTH)
            spent.append((time.process_time() - before) / DEPTH * 1e6)
        transport.close()
    return Cost(sum(spent) / len(spent), min(spent))


async def main(messages: int) -> None:
    """Print the table: every case once in every repeat, and the repeats' median, with the best and the worst."""
    print(f"{platform.platform()}, {os.cpu_count()} cores, Python {platform.python_version()}, {REPEATS} repeats")
    print("                             us a message, median (best to worst)   of signed, access off")
    found: dict[str, list[float]] = {name: [] for name, _, _ in CASES}
    for _ in range(REPEATS):
        for name, access, signed in CASES:
            found[name].append((await measure(access, frames(signed=signed), messages)).mean)
    for name, costs in found.items():
        ratio = median(cost / base for cost, base in zip(costs, found[BASE], strict=True))
        print(f"{name:28} {median(costs):20.1f} ({min(costs):.1f} to {max(costs):.1f}) {ratio:23.2f}", flush=True)


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(main(int(sys.argv[1]) if len(sys.argv) > 1 else MESSAGES))
