"""Rows of the log again: for views that are behind it, and for putting right what rotted.

A bad record on the way is damage that recovery did not look at: it is reported, and the walk goes on at the next good
one. Others have their turn on the loop before every piece: whoever serves meanwhile asks for small ones.
"""

from asyncio import sleep
from collections.abc import AsyncIterator, Collection
from functools import cache
from typing import Final

from firearrow.model.flags import PREPARED
from firearrow.record.decode import RecordHead
from firearrow.store.consumequeue import ConsumeQueue
from firearrow.store.damage import Damage
from firearrow.store.opening import OpenedLog
from firearrow.store.placement import Placed
from firearrow.store.scan import PIECE_BYTES, Scanner, Stop, TailOf

PIECE_BESIDE_OTHERS: Final = 128 << 10
"""Bytes judged before others get their turn on the loop: some milliseconds of small messages."""


def apart() -> TailOf:
    """Queues of no table, for rows that go to no queue: a topic that was deleted is not made again by a look at it."""
    return cache(ConsumeQueue)


async def rows_again(
    opened: OpenedLog, start: int, end: int, tail_of: TailOf, piece_bytes: int = PIECE_BYTES
) -> AsyncIterator[list[Placed]]:
    """The rows of the good records between two places."""
    async for piece, heads in pieces_again(opened.scanner, opened.damage, start, end, piece_bytes):
        yield [
            (
                tail_of(head.topic, head.queue_id),
                head.physical_offset,
                head.size,
                head.queue_offset,
                head.store_timestamp,
                head.sys_flag,
                piece[head.properties_start : head.end],
            )
            for head in heads
        ]


def begins_anew(queue_offset: int, expected: int, damage: Damage) -> bool:
    """Whether a row of a queue shows that its topic was deleted and made again before it.

    Offset 0 does. A higher one that was there before does only where the log is damaged: the record that began the life
    may be lost. In a whole log it is a place that another program used twice, and then the first record counts.
    """
    return queue_offset < expected and (queue_offset == 0 or len(damage) > 0)


async def last_lives(
    opened: OpenedLog, end: int, queues: Collection[tuple[str, int]], tail_of: TailOf
) -> AsyncIterator[list[Placed]]:
    """The rows below a place that belong to some queues, but for what they held before they were last deleted."""
    start = opened.segments.min_offset
    begins, last = dict.fromkeys(queues, start), dict.fromkeys(queues, -1)
    async for rows in rows_again(opened, start, end, apart()):
        for tail, physical, _, queue_offset, _, sys_flag, _ in rows:
            name = (tail.topic, tail.queue_id)
            if name in begins and not sys_flag & PREPARED:
                if begins_anew(queue_offset, last[name] + 1, opened.damage):
                    begins[name] = physical
                    last[name] = queue_offset
                last[name] = max(last[name], queue_offset)
    async for rows in rows_again(opened, min(begins.values()), end, apart()):
        names = [(row[0].topic, row[0].queue_id) for row in rows]
        alive = [(name, row) for name, row in zip(names, rows, strict=True) if row[1] >= begins.get(name, end)]
        yield [(tail_of(*name), *row[1:]) for name, row in alive]


async def pieces_again(
    scanner: Scanner, damage: Damage, start: int, end: int, piece_bytes: int = PIECE_BYTES
) -> AsyncIterator[tuple[bytes, list[RecordHead]]]:
    """The good records between two places, with the bytes they lie in. ``start`` must be the start of a record."""
    at = start
    while at < end:
        await sleep(0)
        at = damage.next_good(at)
        walked = await scanner.walk(at, end, piece_bytes)
        if walked.heads:
            yield walked.piece, walked.heads
        at = walked.end
        if walked.stop is Stop.BAD and at < scanner.min_offset:
            at = scanner.min_offset  # deleted meanwhile, not damaged
        elif walked.stop in (Stop.BAD, Stop.FOREIGN) and at < end and damage.covers(at) is None:
            following = await scanner.next_good(at, end)
            damage.report(at, end if following is None else following, walked.reason)
