"""A read-only view of a store directory, ours or Apache's, open or closed. Nothing is written and no lock is taken.

For tools and for reading the files in bulk. Beside a running broker the view is a moment old: the log ends where the
next record is incomplete, and a file may be deleted during a read, which then reports it as missing. The sizes of files
are taken from the files.

Reading in bulk, as Spark's readers do. Opening and listing are coroutines; the rest are plain functions that block on
the device::

    disk = RealDisk(directory, read_only=True)
    view = asyncio.run(StoreView.open(disk))
    files = asyncio.run(view.log_files())               # start, size and time of every file of the log
    topics = asyncio.run(view.topics())
    for queue in asyncio.run(view.queues(topic)):       # start, end (see `QueueFileView`)
        begin = max(view.first_kept(queue), view.offset_by_time(queue, begin_ms))
        entries = view.entry_bytes(queue, begin, count) # count x 20 bytes: physical offset 8, size 4, tag code 8
        records = view.log_bytes(physical, length)      # raw log, up to the end of one file
        in_file = view.first_at(queue, file.start)      # the first message of a queue in or behind a file of the log

An entry of size `FILLER_SIZE` stands for no message. The last entries of a store that crashed may lead to zeros or to
another record: compare the record's size, queue number and both offsets with the entry. A running store of ours writes
its entries every few seconds, so its queues end a little before its log. Behind the last record the log is zeros to the
end of the file; a full file ends with a filler (``BLANK_MAGIC``). `OffsetNotStored` means that a file was deleted while
it was read: retention deletes the oldest first, so call `refresh` and begin at `first_kept` again.
"""

from collections.abc import AsyncIterator
from itertools import pairwise
from typing import Final, NamedTuple

from msgspec import Struct

from firearrow.errors import FileMissing, OffsetNotStored
from firearrow.record.decode import RecordHead, size_and_magic
from firearrow.record.layout import BLANK_SIZE
from firearrow.runtime.disk.door import Disk
from firearrow.store.index.layout import HEADER_BYTES, Header, decode_header
from firearrow.store.inspection.queues import (
    QueueFileView,
    entry_bytes,
    first_at,
    names_in,
    next_message,
    queues_of,
    starts_in,
)
from firearrow.store.log.probe import PROBED_BYTES, probe_bytes
from firearrow.store.log.segments import Segments
from firearrow.store.paths import ABORT, COMMIT_LOG, CONSUME_QUEUE, FLUSH_SLOT, INDEX, RANGES, log_path
from firearrow.store.queue.consume_queue import ENTRY, ENTRY_BYTES, FILLER_SIZE
from firearrow.store.recovery.scan import LogScanner, Stop, WalkResult
from firearrow.store.sidecars.range_file import RangeFile
from firearrow.store.sidecars.sidecar import FlushSlot, newest_slot
from firearrow.store.sidecars.stamped_ranges import Ranges
from firearrow.store.views.checkpoint import Checkpoint, read_checkpoint

__all__ = ["FILLER_SIZE", "IndexFileView", "LogFileView", "QueueFileView", "RecordRun", "StoreView"]

_SMALLEST_LOG: Final = 4096


class LogFileView(Struct, frozen=True):
    """A file of the log."""

    start: int
    size: int
    modified_ms: int


class IndexFileView(NamedTuple):
    """An index file by its header."""

    name: str
    size: int
    header: Header


class RecordRun(NamedTuple):
    """Consecutive records of one read, and what is wrong behind them."""

    data: bytes
    heads: list[RecordHead]
    end: int
    """The physical offset of the next piece."""
    bad: str
    """The fault at the end of the records; empty without one."""
    bad_from: int


class StoreView:
    """The log, queues, index and checkpoint of a directory, read-only."""

    def __init__(self, disk: Disk, segments: Segments, ranges: Ranges, slot: FlushSlot | None) -> None:
        self.disk = disk
        self.segments = segments
        self.ranges = ranges
        """The parts of the log that we wrote; empty in a store of Apache's."""
        self.slot = slot
        self.scanner = LogScanner(segments, ranges)

    @classmethod
    async def open(cls, disk: Disk) -> "StoreView":
        """Open the view of a directory."""
        found = [await _log_file(disk, start) for start in await starts_in(disk, COMMIT_LOG)]
        there = [file for file in found if file is not None]
        recorded = await RangeFile.load(disk) if disk.exists(RANGES) else RangeFile(disk, Ranges(), 0)
        segments = Segments(disk, max(recorded.segment_bytes or _inferred(there), _SMALLEST_LOG))
        view = cls(disk, segments, recorded.ranges, await _slot(disk))
        view._take({file.start for file in there})
        return view

    async def refresh(self) -> None:
        """List the directory again: add new files of the log, drop deleted ones."""
        self._take(set(await starts_in(self.disk, COMMIT_LOG)))
        self.slot = await _slot(self.disk)

    def _take(self, starts: set[int]) -> None:
        for segment in self.segments:
            if segment.start not in starts:
                self.segments.give_up(segment)
        for start in sorted(starts):
            if self.segments.at(start) is None:
                try:
                    self.segments.add(start, self.disk.open(log_path(start)), named=True)
                except FileMissing:
                    continue  # deleted since its name was listed

    def close(self) -> None:
        """Close every file."""
        self.segments.close()

    # ---- the log

    async def log_files(self) -> list[LogFileView]:
        """The files of the log, oldest first."""
        found = [await _log_file(self.disk, segment.start) for segment in self.segments]
        return [file for file in found if file is not None]

    async def log_end(self) -> int:
        """The end of the log: behind the last complete record."""
        at = self._last_known_start()
        while True:
            walked = await self._walk(at)
            at = walked.end
            if walked.stop is Stop.BAD:
                following = await self.scanner.next_good(at, self.segments.max_offset)
                if following is None:
                    return at
                at = following

    async def _walk(self, at: int, end: int | None = None) -> WalkResult:
        """As `LogScanner.walk`; if another program wrote in our last range, that range is ended there."""
        walked = await self.scanner.walk(at, end)
        if walked.stop is Stop.FOREIGN:
            self.ranges.finish(walked.end)
            return walked._replace(stop=Stop.MORE)
        return walked

    def _last_known_start(self) -> int:
        """The start of a record as near to the end as is known without reading the log."""
        starts = [segment.start for segment in self.segments if _holds_records(segment.file.read_at(0, BLANK_SIZE))]
        last = starts[-1] if starts else self.segments.min_offset
        flushed = self.slot.flushed if self.slot is not None else 0
        return flushed if self.segments.at(flushed) is not None and flushed > last else last

    async def pieces(self, start: int, end: int) -> AsyncIterator[RecordRun]:
        """The records between two physical offsets, in checked pieces; bad parts are reported and skipped."""
        at = max(start, self.segments.min_offset)
        while at < end:
            walked = await self._walk(at, end)
            bad = ""
            at = walked.end
            if walked.stop is Stop.BAD and at < end:
                following = await self.scanner.next_good(at, end)
                bad = walked.reason
                at = end if following is None else following
            yield RecordRun(walked.piece, walked.heads, at, bad, walked.end)

    def log_bytes(self, physical: int, length: int) -> bytes:
        """The log's bytes from a place on: ``length`` of them, fewer at the end of a file."""
        segment = self.segments.at(physical) if physical >= 0 else None
        if segment is not None:
            try:
                return segment.file.read_at(physical - segment.start, min(length, segment.end - physical))
            except FileMissing:
                self.segments.give_up(segment)
        raise OffsetNotStored(
            f"{log_path(physical - physical % self.segments.size)}, which held {physical}, is not there; "
            f"the log begins at {self.segments.min_offset}"
        )

    # ---- queues, index and checkpoint

    async def topics(self) -> list[str]:
        """The topics that have queues."""
        return await names_in(self.disk, CONSUME_QUEUE)

    async def queues(self, topic: str) -> list[QueueFileView]:
        """The queues of a topic."""
        return await queues_of(self.disk, topic)

    def entry_bytes(self, queue: QueueFileView, offset: int, count: int) -> bytes:
        """The entries of a queue from ``offset`` on as they lie in its files, 20 bytes each."""
        return entry_bytes(self.disk, queue, offset, count)

    async def entries(self, queue: QueueFileView, offset: int, count: int) -> list[tuple[int, int, int]]:
        """Entries of a queue: physical offset, size, tag code; fewer than asked for at the end of a file."""
        count = min(count, queue.file_bytes // ENTRY_BYTES - offset % (queue.file_bytes // ENTRY_BYTES))
        try:
            data = entry_bytes(self.disk, queue, offset, count)
        except OffsetNotStored:
            return []
        return [(physical, size, code) for physical, size, code in ENTRY.iter_unpack(data)]

    def first_at(self, queue: QueueFileView, physical: int) -> int:
        """The first message of a queue at or above a physical offset; the queue's end when there is none."""
        return first_at(self.disk, queue, physical)

    def first_kept(self, queue: QueueFileView) -> int:
        """The oldest message of a queue that the log still has; the queue's end when it has none of them."""
        return first_at(self.disk, queue, self.segments.min_offset)

    def offset_by_time(self, queue: QueueFileView, time_ms: int) -> int:
        """The first message of a queue that was stored at a time or later; the queue's end when there is none."""
        low, high = self.first_kept(queue), queue.end
        while low < high:
            middle = (low + high) // 2
            offset, stored_ms = self._next_time(queue, middle, high)
            if stored_ms is None or stored_ms >= time_ms:
                high = middle
            else:
                low = offset + 1
        found = next_message(self.disk, queue, low)
        return queue.end if found is None else found.offset

    def _next_time(self, queue: QueueFileView, offset: int, end: int) -> tuple[int, int | None]:
        """The first entry from ``offset`` on that leads to its record, and the record's store time."""
        while (message := next_message(self.disk, queue, offset)) is not None and message.offset < end:
            try:
                stated = probe_bytes(self.log_bytes(message.physical, PROBED_BYTES), message.physical, message.size)
            except OffsetNotStored:
                stated = None
            if stated is not None and stated[:3] == (message.size, queue.queue_id, message.offset):
                return message.offset, stated.store_ms
            offset = message.offset + 1
        return end, None

    async def index_files(self) -> list[IndexFileView]:
        """The index files, oldest first."""
        found = []
        for name in await names_in(self.disk, INDEX):
            path = f"{INDEX}/{name}"
            try:
                file = self.disk.open(path)
            except FileMissing:
                continue
            found.append(IndexFileView(name, file.size, decode_header(await file.read(0, HEADER_BYTES))))
            file.close()
        return found

    async def checkpoint(self) -> Checkpoint:
        """Apache's checkpoint."""
        return (await read_checkpoint(self.disk))[0]

    @property
    def in_use(self) -> bool:
        """Whether a program has the store open, or died with it open."""
        return self.disk.exists(ABORT)


def _holds_records(start: bytes) -> bool:
    return len(start) == BLANK_SIZE and size_and_magic(start)[0] > 0


async def _slot(disk: Disk) -> FlushSlot | None:
    try:
        return newest_slot(await disk.read_whole(FLUSH_SLOT))
    except FileMissing:
        return None


async def _log_file(disk: Disk, start: int) -> LogFileView | None:
    try:
        status = disk.status(log_path(start))
    except FileMissing:
        return None
    return LogFileView(start, status.size, status.modified_ms)


def _inferred(files: list[LogFileView]) -> int:
    gaps = [after.start - before.start for before, after in pairwise(files)]
    return min(gaps) if gaps else max((file.size for file in files), default=0)
