"""The program that makes promises: ``python -m campaigns.faults.writer DIR [--flush SYNC_FLUSH] ...``.

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
from typing import Final
from zlib import crc32

from campaigns.faults.acks import Ack
from campaigns.faults.recipe import Recipe, Sent
from campaigns.faults.session import DISPATCH_MS, NEVER_MS, Options, Session
from campaigns.faults.timeline import WatchedChoice, beat
from firearrow.errors import DiskError, DiskFull
from firearrow.runtime.disk.sync_choice import SyncPlace
from firearrow.store.placement import AppendPosition

SETTLES: Final = 9
"""After so many messages queues and index are flushed, where the store does not do so by itself."""
COMMITS: Final = 20
"""After so many messages the offsets of a group are written down."""
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
        self._open: deque[tuple[list[Sent], list[AppendPosition]]] = deque()

    async def write(self, first: int, count: int) -> int:
        """Append messages from a number on; return the number after the last. Raises when the store is fenced."""
        number = first
        while number < first + count:
            step = self._recipe.step_of(number)
            messages = [self._recipe.message(each) for each in step if each >= number]
            try:
                places = self._session.append([message.draft() for message in messages])
            except DiskFull as error:
                await self._full(messages, error)
            else:
                self._open.append((messages, places))
            await self._acknowledge(self._inflight)
            number = step.stop
            if not self._session.options.quiet:
                await self._settle_and_commit(number)
        await self._acknowledge(1)
        return number

    async def _settle_and_commit(self, number: int) -> None:
        if self._session.options.dispatch_ms == NEVER_MS and number % SETTLES == 0:
            await self._session.settle()
        if number % COMMITS == 0:
            await self._commit()

    async def _commit(self) -> None:
        try:
            await self._session.commit()
        except DiskFull as error:
            # As in a broker: what could not be written down waits for space, and nobody was told otherwise.
            self._say(f"# offsets wait: {error}\n")

    async def _acknowledge(self, at_most: int) -> None:
        """Wait until fewer than so many sends are outstanding."""
        while len(self._open) >= at_most:
            messages, places = self._open.popleft()
            try:
                await self._session.reached(places[-1].end)
            except DiskFull as error:
                await self._full(messages, error)
            else:
                self._promise(messages, places)

    def _promise(self, messages: list[Sent], places: list[AppendPosition]) -> None:
        level = self._session.options.level.name
        ticks, flushed = time.monotonic_ns(), self._session.log.flushed
        lines = []
        for message, place in zip(messages, places, strict=True):
            where = (place.physical_offset, place.end - place.physical_offset, message.topic, message.queue_id)
            crc = crc32(message.body)
            self._session.read_to[message.topic, message.queue_id] = place.queue_offset + 1
            ack = Ack(message.number, *where, place.queue_offset, place.store_timestamp, level, ticks, crc, flushed)
            lines.append(ack.line())
        self._say("".join(lines))

    async def _full(self, messages: list[Sent], error: DiskFull) -> None:
        numbers = " ".join(str(message.number) for message in messages)
        self._say(f"# refused {numbers}\n# because {error}\n")
        # The log takes appends again once it has made the taking back durable.
        await asyncio.sleep(self._session.options.interval_ms / 1000 if self._session.log.wants_flush else 0)


async def live(options: Options, recipe: Recipe, say: Say, *, first: int, count: int, inflight: int, lives: int) -> int:
    """Open, write and close, several times over; return the number after the last message."""
    number = first
    for life in range(lives):
        share = count // lives if life < lives - 1 else count - count // lives * (lives - 1)
        try:
            number = await _live_once(options, recipe, say, number, share, inflight)
        except (DiskError, OSError) as error:
            say(f"# ended: {type(error).__name__}: {error}\n")
            break
    return number


async def _live_once(options: Options, recipe: Recipe, say: Say, first: int, count: int, inflight: int) -> int:
    session = await Session.open(options, WatchedChoice(SyncPlace(options.route), say) if options.watched else None)
    say(f"# open {session.log.tail}\n")
    beating = asyncio.create_task(beat(session.log, say)) if options.watched else None
    try:
        number = await Writer(session, recipe, say, inflight=inflight).write(first, count)
    except BaseException:
        await session.abandon()
        raise
    finally:
        if beating is not None:
            beating.cancel()
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
    parser.add_argument(
        "--settled", action="store_true", help="flush queues and index after some messages, not after some time"
    )
    given = parser.parse_args()
    options = Options(
        root=given.directory,
        dispatch_ms=NEVER_MS if given.settled else DISPATCH_MS,
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
