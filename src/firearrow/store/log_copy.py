"""The copy of another broker's log, taken as bytes come: the same records at the same physical offsets.

Bytes may come in any pieces. Whole records are appended at once; the beginning of a record waits in memory for its
rest, so that the log never ends inside a record. A copy into an empty directory may begin at any log file of the
master's; the new beginning is durable before the first record is appended.

A topic that was deleted at the master and created again begins at offset 0 again: its queue is emptied here first, as
recovery does. Records are checked as recovery checks them; stamps are not, because the master may be Apache's.
"""

from firearrow.errors import OffsetNotStored
from firearrow.model.flags import PREPARED
from firearrow.store.log.copied_log import WholeRecords, whole_records
from firearrow.store.placement import WRITTEN, Level, Placed
from firearrow.store.queue.consume_queue import ConsumeQueue
from firearrow.store.recovery.scan import row_of
from firearrow.store.running_log import RunningLog
from firearrow.store.views.views import Views


class LogCopy:
    """Appends the bytes of another log to a store."""

    def __init__(self, running: RunningLog, views: Views, *, dispatches_at: Level) -> None:
        self._running = running
        self._log = running.log
        self._segment_bytes = running.opened.segments.size
        self._views = views
        self._dispatches_at = dispatches_at
        self._rest = bytearray()
        self._wanted = 0

    @property
    def end(self) -> int:
        """The end of the copied log: the offset behind its last whole record."""
        return self._log.tail

    def interrupted(self) -> None:
        """Forget the beginning of a record: the next bytes begin at `end`."""
        self._rest.clear()
        self._wanted = 0

    async def take(self, offset: int, data: bytes | bytearray | memoryview) -> None:
        """Append bytes that lie at ``offset`` of the other log."""
        if offset and not self._log.tail and not self._rest:
            await self._begin_at(offset)
        expected = self._log.tail + len(self._rest)
        if offset != expected:
            raise OffsetNotStored(f"the master sent the log from {offset} on, and the copy goes on at {expected}")
        self._rest += data
        while len(self._rest) >= max(self._wanted, 1):
            base = self._log.tail
            piece = bytes(self._rest)
            found = whole_records(piece, base, base - base % self._segment_bytes + self._segment_bytes)
            self._wanted = found.wanted
            if found.end:
                await self._append(piece[: found.end], found)
                del self._rest[: found.end]

    async def _append(self, piece: bytes, found: WholeRecords) -> None:
        queues = self._views.queues
        start, rows = 0, list[Placed]()
        following: dict[ConsumeQueue, int] = {}  # the next offsets of queues that have rows in this piece
        for head in found.heads:
            queue = queues.tail_of(head.topic, head.queue_id)
            if not head.sys_flag & PREPARED:
                if head.queue_offset == 0 < following.get(queue, queue.next_offset):
                    await self._append_rows(piece[start : head.start], rows)
                    start, rows = head.start, []
                    await self._empty(queue)
                    queue = queues.tail_of(head.topic, head.queue_id)
                following[queue] = head.queue_offset + 1
            rows.append(row_of(piece, head, queues.tail_of))
        await self._append_rows(piece[start:], rows)

    async def _append_rows(self, records: bytes, rows: list[Placed]) -> None:
        if records:
            # A disk that writes later must not be more than a log file behind.
            await self._log.reached(self._log.handed, WRITTEN)
            self._log.append_copy(records, rows)

    async def _empty(self, queue: ConsumeQueue) -> None:
        """Empty the queue of a topic that was deleted and created again."""
        await self._log.reached(self._log.tail, self._dispatches_at)
        await self._views.begin_anew(queue)

    async def _begin_at(self, offset: int) -> None:
        if offset % self._segment_bytes:
            raise OffsetNotStored(
                f"the master's log begins at {offset}, which is no multiple of the {self._segment_bytes} bytes of a "
                "log file here; set mappedFileSizeCommitLog to the master's size and start with an empty directory"
            )
        await self._running.begin_at(offset)
        self._views.dispatch.position = offset
