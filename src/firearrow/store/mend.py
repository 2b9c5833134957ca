"""Mends bad ranges of the log with the bytes of another replica, whose log is the same byte for byte.

The bad bytes are in quarantine before anything is overwritten. The new bytes are checked as recovery checks records,
written in place and synced; only then is the range taken off the table of damage. After a crash on the way the range is
bad as before, and is mended again. Queue entries that became fillers because the record was bad lead to it again.
"""

import logging

from firearrow.errors import BadRecord
from firearrow.model.flags import enters_queue
from firearrow.record.decode import RecordHead
from firearrow.store.log.commit_log import CommitLog
from firearrow.store.queue.consume_queue import is_filler
from firearrow.store.queue.table import Queues
from firearrow.store.recovery.damage import BadRange
from firearrow.store.recovery.open_log import OpenedLog
from firearrow.store.recovery.verify import judge
from firearrow.store.views.repair import entry_of

log = logging.getLogger(__name__)


class Mend:
    """Puts good bytes in the place of bad ones."""

    def __init__(self, commit_log: CommitLog, opened: OpenedLog, queues: Queues, delays: tuple[int, ...]) -> None:
        self._log = commit_log
        self._opened = opened
        self._queues = queues
        self._delays = delays

    def bad(self) -> list[BadRange]:
        """The bad ranges that can be mended: durable, and in a file that is there."""
        segments, flushed = self._opened.segments, self._log.flushed
        found = [bad for bad in self._opened.damage.as_list() if bad.kind == "damage" and bad.end <= flushed]
        return [bad for bad in found if (segment := segments.at(bad.start)) is not None and bad.end <= segment.end]

    async def put_back(self, bad: BadRange, data: bytes) -> None:
        """Write the records of a bad range, durably; raise `BadRecord` when they are not its records."""
        heads = self._checked(bad, data)
        opened = self._opened
        await opened.damage.keep(opened.segments)
        # A torn write above the durable flush slot would count as the end of the log after a loss of power.
        await opened.slot.sync()
        segment = opened.segments.at(bad.start)
        if segment is None:
            return  # deleted meanwhile
        segment.file.write_at(bad.start - segment.start, [data])
        await segment.file.sync()
        await opened.damage.mended(bad)
        for head in heads:
            self._enter(data, head)
        extra = {"start": bad.start, "end": bad.end, "records": len(heads)}
        log.warning("mended the log from %d to %d with bytes of another replica", bad.start, bad.end, extra=extra)

    def _checked(self, bad: BadRange, data: bytes) -> list[RecordHead]:
        heads, at, covers = list[RecordHead](), 0, self._opened.ranges.ranges.covers
        while at < len(data):
            head, _ = judge(data, at, bad.start + at, ours=covers(bad.start + at))
            heads.append(head)
            at = head.end
        if at != bad.end - bad.start:
            raise BadRecord(f"{at} bytes do not fill the range of {bad.end - bad.start}", offset=bad.start)
        return heads

    def _enter(self, data: bytes, head: RecordHead) -> None:
        """Make the entry of a mended record again, where a filler stands."""
        queue, offset = self._queues.find(head.topic, head.queue_id), head.queue_offset
        if queue is None or not enters_queue(head.sys_flag) or not queue.start <= offset < queue.max_offset:
            return
        if is_filler(self._queues.entry(queue, offset)[1]):
            self._queues.writer.rewrite(queue, offset, entry_of(data, head, self._delays))
