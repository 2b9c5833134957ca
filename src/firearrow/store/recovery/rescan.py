"""Reads rows of the log again: for views that are behind the log, and for repairing rotten views.

A bad record on the way is damage that recovery did not check: it is reported, and the walk continues at the next good
record. The walk yields to the loop before every piece, so a store that serves requests meanwhile reads small pieces.
"""

from collections.abc import AsyncIterator, Collection
from functools import cache
from typing import Final

from firearrow.model.flags import PREPARED
from firearrow.record.decode import RecordHead
from firearrow.runtime.turn import breathe
from firearrow.store.placement import Placed
from firearrow.store.queue.consume_queue import ConsumeQueue
from firearrow.store.recovery.damage import Damage
from firearrow.store.recovery.open_log import OpenedLog
from firearrow.store.recovery.scan import PIECE_BYTES, LogScanner, Stop, TailOf, row_of

PIECE_BESIDE_OTHERS: Final = 128 << 10
"""Bytes checked before the walk yields to the loop: a few milliseconds of small messages."""


def apart() -> TailOf:
    """Tails outside of any table, for rows that are dispatched to no queue: a deleted topic is not created again."""
    return cache(ConsumeQueue)


async def rows_again(
    opened: OpenedLog, start: int, end: int, tail_of: TailOf, piece_bytes: int = PIECE_BYTES
) -> AsyncIterator[list[Placed]]:
    """The rows of the good records between two physical offsets."""
    async for piece, heads in pieces_again(opened.scanner, opened.damage, start, end, piece_bytes):
        yield [row_of(piece, head, tail_of) for head in heads]


def begins_anew(queue_offset: int, expected: int, damage: Damage) -> bool:
    """Whether a row shows that its topic was deleted and created again before the row.

    Offset 0 does. A higher offset that the queue has already had does so only in a damaged log, which may have lost the
    record with offset 0. In an undamaged log another program used the offset twice, and the first record counts.
    """
    return queue_offset < expected and (queue_offset == 0 or len(damage) > 0)


async def last_lives(
    opened: OpenedLog, end: int, queues: Collection[tuple[str, int]], tail_of: TailOf
) -> AsyncIterator[list[Placed]]:
    """The rows of these queues below a physical offset, without those from before a queue was last deleted."""
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
    scanner: LogScanner, damage: Damage, start: int, end: int, piece_bytes: int = PIECE_BYTES
) -> AsyncIterator[tuple[bytes, list[RecordHead]]]:
    """The good records between two physical offsets, with their bytes. ``start`` must be the start of a record."""
    at = start
    while at < end:
        await breathe()
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
