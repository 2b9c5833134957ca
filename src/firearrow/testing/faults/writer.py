"""The program that makes promises: ``python -m firearrow.testing.faults.writer DIR [--flush SYNC_FLUSH] ...``.

It opens the store of a directory, appends the messages of a recipe one after the other (single and in batches, several
topics and queues), and prints an acknowledgement of each on standard output only after the store has said that it
reached its level. Lines that start with ``#`` tell what else happened.
"""

import argparse
import asyncio
import os
import sys
import time
from collections import deque
from collections.abc import Callable
from zlib import crc32

from firearrow.errors import DiskError, DiskFull
from firearrow.store.placement import Appended
from firearrow.testing.faults.acks import Ack
from firearrow.testing.faults.recipe import Recipe, Sent
from firearrow.testing.faults.session import Options, Session

Say = Callable[[str], None]


def say_to(descriptor: int) -> Say:
    """Write whole lines to a descriptor, at once."""

    def say(text: str) -> None:
        os.write(descriptor, text.encode())

    return say


class Writer:
    """Appends the messages of a recipe to one session."""

    def __init__(self, session: Session, recipe: Recipe, say: Say, *, inflight: int = 1) -> None:
        self._session = session
        self._recipe = recipe
        self._say = say
        self._inflight = inflight
        self._open: deque[tuple[list[Sent], list[Appended]]] = deque()
        self.refused = 0

    async def write(self, first: int, count: int) -> int:
        """Append messages from a number on; return the number after the last. Stops when the store is fenced."""
        number = first
        while number < first + count:
            step = self._recipe.step_of(number)
            messages = [self._recipe.message(each) for each in step if each >= number]
            try:
                self._open.append((messages, self._session.append([message.draft() for message in messages])))
                while len(self._open) >= self._inflight:
                    await self._acknowledge()
            except DiskFull as error:
                await self._full(error)
            number = step.stop
        while self._open:
            await self._acknowledge()
        return number

    async def _acknowledge(self) -> None:
        messages, places = self._open.popleft()
        await self._session.reached(places[-1].end)
        level = self._session.options.level.name
        ticks, flushed = time.monotonic_ns(), self._session.log.flushed
        lines = []
        for message, place in zip(messages, places, strict=True):
            where = (place.physical_offset, place.end - place.physical_offset, message.topic, message.queue_id)
            ack = Ack(
                message.number,
                *where,
                place.queue_offset,
                place.store_timestamp,
                level,
                ticks,
                crc32(message.body),
                flushed,
            )
            lines.append(ack.line())
        self._say("".join(lines))

    async def _full(self, error: DiskFull) -> None:
        self.refused += 1
        self._open.clear()
        self._say(f"# refused: {error}\n")
        await asyncio.sleep(0)


async def live(options: Options, recipe: Recipe, say: Say, *, first: int, count: int, inflight: int, lives: int) -> int:
    """Open, write and close, several times over; return the number after the last message."""
    number = first
    for life in range(lives):
        try:
            session = await Session.open(options)
        except (DiskError, OSError) as error:
            say(f"# not opened: {type(error).__name__}: {error}\n")
            return number
        say(f"# open {session.log.tail}\n")
        share = count // lives if life < lives - 1 else count - count // lives * (lives - 1)
        try:
            number = await Writer(session, recipe, say, inflight=inflight).write(number, share)
        except DiskError as error:
            say(f"# fenced: {type(error).__name__}: {error}\n")
            await session.abandon()
            return number
        await session.close()
        say(f"# closed {session.log.tail}\n")
    return number


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description="append messages and print what the store promises")
    parser.add_argument("directory")
    parser.add_argument("--flush", choices=("SYNC_FLUSH", "ASYNC_FLUSH"), default="SYNC_FLUSH")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--first", type=int, default=0, help="number of the first message")
    parser.add_argument("--count", type=int, default=100, help="messages")
    parser.add_argument("--lives", type=int, default=1, help="times that the store is opened and closed")
    parser.add_argument("--inflight", type=int, default=1, help="sends outstanding at once")
    parser.add_argument("--segment-bytes", type=int, default=65_536)
    parser.add_argument("--boot-id", default="boot-0", help="the boot that the store shall believe in")
    parser.add_argument("--route", choices=("auto", "inline", "process", "thread"), default="auto")
    given = parser.parse_args()
    options = Options(
        root=given.directory,
        flush=given.flush,
        segment_bytes=given.segment_bytes,
        boot_id=given.boot_id,
        route=given.route,
    )
    work = live(
        options,
        Recipe(given.seed),
        say_to(sys.stdout.fileno()),
        first=given.first,
        count=given.count,
        inflight=given.inflight,
        lives=given.lives,
    )
    asyncio.run(work)


if __name__ == "__main__":
    main()
