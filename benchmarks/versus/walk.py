"""The functions that one message goes through: `python -m benchmarks.versus.walk send` and `... walk consume`.

A cluster in this process serves a bare connection (`send`) or a push consumer (`consume`). After a warm-up the walk of
one message is recorded: every function of FireArrow that is called from the read that brought the message until its
answer, or until the user's handler, in order, with its depth. What timers do meanwhile is left out where it can be told
apart: of several walks the shortest is shown.
"""

import argparse
import asyncio
import socket
import struct
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import CodeType, FrameType
from typing import NamedTuple
from unittest.mock import patch

import firearrow
from benchmarks.overload.frames import OPAQUE_AT
from benchmarks.versus.contestants import QUEUES, TOPIC
from benchmarks.versus.counted import frames
from firearrow import Consumer, Message
from firearrow.blocking import Producer as BlockingProducer
from firearrow.remoting import turns
from firearrow.testing import Cluster, blocking

WARM_UP = 300
WALKS = 30
SLOWER = 100
ANSWER_BYTES = 1 << 16
HOME = Path(firearrow.__file__).parent


class Step(NamedTuple):
    """A call of a function."""

    depth: int
    file: str
    function: str


class Walk:
    """The calls of one walk."""

    def __init__(self) -> None:
        self.steps: list[Step] = []
        self._depth = 0
        self._names: dict[CodeType, str | None] = {}

    def note(self, frame: FrameType, event: str, _: object) -> None:
        """Take an event of the interpreter."""
        if event == "call":
            file = self._file(frame.f_code)
            if file is not None:
                self.steps.append(Step(self._depth, file, frame.f_code.co_qualname))
            self._depth += 1
        elif event == "return":
            self._depth = max(self._depth - 1, 0)

    def _file(self, code: CodeType) -> str | None:
        if code not in self._names:
            path = Path(code.co_filename)
            ours = path.is_relative_to(HOME)
            self._names[code] = (
                str(path.relative_to(HOME)) if ours else "generated" if code.co_filename.startswith("<gen") else None
            )
        return self._names[code]

    def since_read(self) -> list[Step]:
        """The steps from the last read on."""
        reads = [number for number, step in enumerate(self.steps) if step.function.endswith("data_received")]
        return self.steps[reads[-1] :] if reads else []


@contextmanager
def recorded() -> Iterator[Walk]:
    """Record what is called within the block."""
    walk = Walk()
    sys.setprofile(walk.note)
    try:
        yield walk
    finally:
        sys.setprofile(None)


async def walks_of_sends(warm_up: int = WARM_UP, count: int = WALKS) -> list[list[Step]]:
    """Return the steps of a broker for a send that comes alone, ``count`` times after a warm-up."""
    walks: list[list[Step]] = []
    loop, requests = asyncio.get_running_loop(), frames(1, 128)
    # A recorded walk takes many times as long: a turn has as much more time, or the server would look at its clock.
    with patch.object(turns, "TURN_NS", turns.TURN_NS * SLOWER):
        async with Cluster() as cluster:
            await cluster.create_topic(TOPIC, queues=QUEUES)
            host, _, port = cluster.broker_address().rpartition(":")
            with socket.create_connection((host, int(port))) as connection:
                connection.setblocking(False)
                for number in range(warm_up + count):
                    request = requests[number % len(requests)]
                    struct.pack_into(">i", request, OPAQUE_AT, number)
                    with recorded() as walk:
                        await loop.sock_sendall(connection, request)
                        await loop.sock_recv(connection, ANSWER_BYTES)
                        await asyncio.sleep(0)
                    walks.append(walk.since_read())
    return walks[warm_up:]


async def walks_to_handlers(address: str, send: Callable[[], object]) -> list[list[Step]]:
    """Return the steps of a push consumer for a lone message, until the user's handler has it."""
    walks: list[list[Step]] = []
    handled = asyncio.Event()
    walk = Walk()

    async def handle(_: object) -> None:
        sys.setprofile(None)
        walks.append(walk.since_read())
        handled.set()

    async with Consumer(address, group="walk", topics=TOPIC) as consumer:
        running = asyncio.create_task(consumer.run(handle))
        for _ in range(WARM_UP // 10 + WALKS):
            handled.clear()
            walk = Walk()
            sys.setprofile(walk.note)
            await asyncio.to_thread(send)
            await handled.wait()
        consumer.stop()
        await running
    return walks[WARM_UP // 10 :]


def walks(what: str) -> list[list[Step]]:
    """Several walks of one kind."""
    if what == "send":
        return asyncio.run(walks_of_sends())
    with blocking.Cluster() as cluster, BlockingProducer(cluster.address) as producer:
        cluster.create_topic(TOPIC, queues=QUEUES)
        return asyncio.run(walks_to_handlers(cluster.address, lambda: producer.send(Message(TOPIC, b"walk"))))


def shortest_of(walks: list[list[Step]]) -> list[Step]:
    """Return the walk with the fewest calls."""
    return min(filter(None, walks), key=len)


def files_of(walk: list[Step]) -> int:
    """Return the number of files that a walk goes through."""
    return len({step.file for step in walk})


def main() -> None:
    """Show a walk."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["send", "consume"])
    shortest = shortest_of(walks(parser.parse_args().what))
    for step in shortest:
        print(f"{'  ' * step.depth}{step.function}  {step.file}")
    functions, files = len({step[1:] for step in shortest}), files_of(shortest)
    print(f"\n{len(shortest)} calls of {functions} functions in {files} files")


if __name__ == "__main__":
    main()
