"""Puts queue entries right that do not lead to their record.

The entries before and after a wrong one say between which places of the log its record must lie. That part of the log
is read again: an entry whose record is there is written anew, one whose record is gone or rotten becomes a filler, so
that readers pass over it. Bad records met on the way are reported as damage.
"""

import logging
from typing import Final

from firearrow.model.flags import enters_queue
from firearrow.record.decode import RecordHead
from firearrow.store.consumequeue import ENTRY, FILLER, ConsumeQueue, is_filler
from firearrow.store.dispatch import code_of
from firearrow.store.opening import OpenedLog
from firearrow.store.pacing import Pace
from firearrow.store.queueload import names_its_record
from firearrow.store.queues import SLICE, Queues
from firearrow.store.rescan import PIECE_BESIDE_OTHERS, begins_anew, pieces_again

LOOKED_AT: Final = 10_000
"""Entries looked at on either side for one that is right, before the log is read from its start, or to its end."""

logger = logging.getLogger(__name__)


class Repair:
    """Makes queue entries again from the log."""

    def __init__(self, opened: OpenedLog, queues: Queues, delays: tuple[int, ...]) -> None:
        self._opened = opened
        self._queues = queues
        self._delays = delays

    async def entry(self, queue: ConsumeQueue, offset: int, log_end: int) -> None:
        """Make the entry at ``offset``, and wrong ones around it, right."""
        low, start = await self._right_before(queue, offset)
        high, end = await self._right_after(queue, offset, log_end)
        wanted = range(low, high)
        found = await self._entries_between(queue, wanted, start, end)
        pace = Pace(SLICE)
        for number in wanted:
            self._queues.rewrite(queue, number, found.get(number, FILLER))
            await pace.did()
        counts = {"first": low, "found": len(found), "missing": len(wanted) - len(found)}
        names = {"topic": queue.topic, "queue_id": queue.queue_id, **counts}
        logger.warning("queue entries were made again from the log", extra=names)

    async def _right_before(self, queue: ConsumeQueue, offset: int) -> tuple[int, int]:
        """The entry after the last right one before ``offset``, and where that one's record ends."""
        segments = self._opened.segments
        pace = Pace(SLICE)
        for number in range(offset - 1, max(queue.start, offset - LOOKED_AT) - 1, -1):
            await pace.did()
            physical, size, _ = self._queues.entry(queue, number)
            right = not is_filler(size) and await names_its_record(segments, queue, number, physical, size)
            if right and physical >= segments.min_offset:
                return number + 1, physical + size
        return offset, segments.min_offset

    async def _right_after(self, queue: ConsumeQueue, offset: int, log_end: int) -> tuple[int, int]:
        """The first right entry after ``offset``, and where its record begins."""
        segments = self._opened.segments
        pace = Pace(SLICE)
        for number in range(offset + 1, min(queue.max_offset, offset + LOOKED_AT)):
            await pace.did()
            physical, size, _ = self._queues.entry(queue, number)
            if not is_filler(size) and await names_its_record(segments, queue, number, physical, size):
                return number, physical
        return min(queue.max_offset, offset + LOOKED_AT), log_end

    async def _entries_between(self, queue: ConsumeQueue, wanted: range, start: int, end: int) -> dict[int, bytes]:
        """Entries of a queue's records between two places, without those of its topic before it was last deleted."""
        opened = self._opened
        found: dict[int, bytes] = {}
        following = 0
        async for piece, heads in pieces_again(opened.scanner, opened.damage, start, end, PIECE_BESIDE_OTHERS):
            for head in heads:
                if head.queue_id == queue.queue_id and head.topic == queue.topic and enters_queue(head.sys_flag):
                    if begins_anew(head.queue_offset, following, opened.damage):
                        found.clear()
                        following = 0
                    if head.queue_offset in wanted:
                        found.setdefault(head.queue_offset, entry_of(piece, head, self._delays))
                    following = max(following, head.queue_offset + 1)
        return found


def entry_of(buffer: bytes, head: RecordHead, delays: tuple[int, ...]) -> bytes:
    """The queue entry of a record."""
    code = code_of(head.topic, head.properties(buffer), head.store_timestamp, delays)
    return ENTRY.pack(head.physical_offset, head.size, code)
