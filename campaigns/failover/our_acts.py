"""``python -m campaigns.failover.our_acts HOST:PORT ...``: clients that ask a group for everything beside plain sends.

They give messages back, recall, begin and end transactions, commit offsets, and send without waiting, as the acts of
the simulated groups do, and check in the end that every answer holds. Verbs, one JSON object a line: ``prepare`` (one
failover follows), ``finish`` (check; the last).
"""

import asyncio
import random
import sys
from collections import Counter
from typing import Any, Final, NamedTuple

import msgspec

from firearrow.client.doors import system_doors
from firearrow.errors import FireArrowError, RequestRefused
from firearrow.protocol.codes import ResponseCode
from firearrow.runtime.clock import Clock
from firearrow.runtime.network import Address, Network
from judges.conversation import ANSWER
from tests.simulation.broker.acts import ACTS
from tests.simulation.broker.acts.act import Act
from tests.unit.broker.whole import Client

CHECK_S: Final = 600.0
AGAIN_S: Final = 1.0
ELSEWHERE: Final = (ResponseCode.SYSTEM_BUSY, ResponseCode.SLAVE_NOT_AVAILABLE)
"""Answers of a broker that does not lead."""


class Machine(NamedTuple):
    """The machine on which an act runs: this one."""

    network: Network
    clock: Clock


class Machines:
    """The machines of acts: all are this one."""

    def node(self, _name: str) -> Machine:
        """Return this machine."""
        doors = system_doors()
        return Machine(doors.network, doors.clock)


class Group:
    """The group that is asked."""

    def __init__(self, addresses: list[Address]) -> None:
        self.world = Machines()
        self.rng = random.Random()
        self.counts: Counter[str] = Counter()
        self.is_over = False
        self.addresses = addresses

    async def check(self, act: Act) -> str:
        """Return what of an act does not hold at the master; empty where all does."""
        said = ""
        try:
            async with asyncio.timeout(CHECK_S):
                while True:
                    for address in self.addresses:
                        try:
                            await act.check(Client(self.world.node("reader"), address))  # type: ignore[arg-type]
                        except FireArrowError as error:  # a slave, or an election is under way
                            if isinstance(error, RequestRefused) and error.code not in ELSEWHERE:
                                return f"{act.name}: {error}"
                            said = str(error)
                            continue
                        return ""
                    await asyncio.sleep(AGAIN_S)
        except AssertionError as broken:
            return f"{act.name}: {broken}"
        except TimeoutError:
            return f"{act.name}: nobody answers the check: {said}"


async def main() -> None:
    """Run the acts, and answer requests from standard input until the last one."""
    group = Group([Address.parse(text) for text in sys.argv[1:]])
    acts = [act(group) for act in ACTS]  # type: ignore[arg-type]  # the clock and network of the system
    running = [asyncio.create_task(act.run()) for act in acts]
    while line := await asyncio.to_thread(sys.stdin.buffer.readline):
        request = msgspec.json.decode(line)
        answer: dict[str, Any] = {"counts": group.counts}
        match request["verb"]:
            case "prepare":
                slaves = [Address.parse(text) for text in request["slaves"]]
                for act in acts:
                    await act.before_the_last_failover(Address.parse(request["master"]), slaves)
            case "finish":
                group.is_over = True
                await asyncio.gather(*running)
                answer["broken"] = [broken for act in acts if (broken := await group.check(act))]
        sys.stdout.buffer.write(ANSWER + msgspec.json.encode(answer) + b"\n")
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    asyncio.run(main())
