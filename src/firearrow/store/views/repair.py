"""Repairs queue entries that do not lead to their record.

The right entries before and after a wrong one bound the part of the log where its record must lie. That part is read
again: an entry whose record is found is written again, an entry whose record is missing or rotten becomes a filler, so
that readers skip it. Bad records on the way are reported as damage.
"""

import logging
from typing import Final

from firearrow.model.flags import enters_queue
from firearrow.record.decode import RecordHead
from firearrow.runtime.turn import Pace
from firearrow.store.dispatch import code_of
from firearrow.store.queue.consume_queue import ENTRY, FILLER, ConsumeQueue, is_filler
from firearrow.store.queue.table import Queues
from firearrow.store.queue.writer import SLICE
from firearrow.store.recovery.open_log import OpenedLog
from firearrow.store.recovery.rescan import PIECE_BESIDE_OTHERS, begins_anew, pieces_again
from firearrow.store.views.queue_load import names_its_record

LOOKED_AT: Final = 10_000
"""Entries checked on either side for a right one; if there is none, the log is read from its start, or to its end."""

logger = logging.getLogger(__name__)


class Repair:
    """Writes queue entries again from the log."""

    def __init__(self, opened: OpenedLog, queues: Queues, delays: tuple[int, ...]) -> None:
        self._opened = opened
        self._queues = queues
        self._delays = delays

    async def entry(self, queue: ConsumeQueue, offset: int, log_end: int) -> None:
        """Repair the entry at ``offset``, and wrong entries around it."""
        low, start = await self._right_before(queue, offset)
        high, end = await self._right_after(queue, offset, log_end)
        wanted = range(low, high)
        found = await self._entries_between(queue, wanted, start, end)
        pace = Pace(SLICE)
        for number in wanted:
            self._queues.writer.rewrite(queue, number, found.get(number, FILLER))
            await pace.did()
        counts = {"first": low, "found": len(found), "missing": len(wanted) - len(found)}
        names = {"topic": queue.topic, "queue_id": queue.queue_id, **counts}
        logger.warning("queue entries were repaired from the log", extra=names)

    async def _right_before(self, queue: ConsumeQueue, offset: int) -> tuple[int, int]:
        """The number after the last right entry before ``offset``, and the end of that entry's record."""
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
        """The first right entry after ``offset``, and the start of its record."""
        segments = self._opened.segments
        pace = Pace(SLICE)
        for number in range(offset + 1, min(queue.max_offset, offset + LOOKED_AT)):
            await pace.did()
            physical, size, _ = self._queues.entry(queue, number)
            if not is_filler(size) and await names_its_record(segments, queue, number, physical, size):
                return number, physical
        return min(queue.max_offset, offset + LOOKED_AT), log_end

    async def _entries_between(self, queue: ConsumeQueue, wanted: range, start: int, end: int) -> dict[int, bytes]:
        """Entries for a queue's records between two physical offsets, without those from before its last deletion."""
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
