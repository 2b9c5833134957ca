"""A store directory, looked at from outside: ours or Apache's, open or closed. Nothing is written and no lock is taken.

For tools and for whoever reads the files in bulk. Beside a running writer everything seen was true a moment ago: the
log ends where the next record is not whole yet, and a file may be deleted under one's hands, which reads as missing.
The sizes of files are taken from the files.
"""

from collections.abc import AsyncIterator
from itertools import pairwise
from typing import Final, NamedTuple

from msgspec import Struct

from firearrow.errors import FileMissing
from firearrow.record.decode import RecordHead, size_and_magic
from firearrow.record.layout import BLANK_SIZE
from firearrow.runtime.disk import Disk
from firearrow.store.checkpoint import Checkpoint, read_checkpoint
from firearrow.store.consumequeue import ENTRY, ENTRY_BYTES, queue_directory
from firearrow.store.indexfile import HEADER_BYTES, Header, decode_header
from firearrow.store.paths import (
    ABORT,
    COMMIT_LOG,
    CONSUME_QUEUE,
    FLUSH_SLOT,
    INDEX,
    RANGES,
    log_path,
    segment_start,
)
from firearrow.store.rangefile import RangeFile
from firearrow.store.ranges import Ranges
from firearrow.store.scan import Scanner, Stop, Walked
from firearrow.store.segments import Segments
from firearrow.store.sidecar import FlushSlot, newest_slot

_SMALLEST_LOG: Final = 4096


class LogFileSeen(Struct, frozen=True):
    """A file of the log."""

    start: int
    size: int
    modified_ms: int


class QueueSeen(Struct, frozen=True):
    """A queue by its files."""

    topic: str
    queue_id: int
    start: int
    """First entry of the oldest file."""
    end: int
    """The entry after the last."""
    files: int
    file_bytes: int


class IndexSeen(NamedTuple):
    """An index file by its header."""

    name: str
    size: int
    header: Header


class Piece(NamedTuple):
    """Records that lie one after the other in one read, or what is there instead."""

    data: bytes
    heads: list[RecordHead]
    end: int
    """Where in the log the next piece begins."""
    bad: str
    """What is wrong where the records end; empty when nothing is."""
    bad_from: int


class StoreView:
    """What can be seen of a directory."""

    def __init__(self, disk: Disk, segments: Segments, ranges: Ranges, slot: FlushSlot | None) -> None:
        self.disk = disk
        self.segments = segments
        self.ranges = ranges
        """The parts of the log that we wrote; empty in a store of Apache's."""
        self.slot = slot
        self.scanner = Scanner(segments, ranges)

    @classmethod
    async def open(cls, disk: Disk) -> "StoreView":
        """Look at a directory."""
        found = [await _log_file(disk, start) for start in await _starts(disk, COMMIT_LOG)]
        there = [file for file in found if file is not None]
        recorded = await RangeFile.load(disk) if disk.exists(RANGES) else RangeFile(disk, Ranges(), 0)
        segments = Segments(disk, max(recorded.segment_bytes or _inferred(there), _SMALLEST_LOG))
        for file in there:
            segments.add(file.start, disk.open(log_path(file.start)), named=True)
        return cls(disk, segments, recorded.ranges, await _slot(disk))

    def close(self) -> None:
        """Give up every file."""
        self.segments.close()

    # ---- the log

    async def log_files(self) -> list[LogFileSeen]:
        """The files of the log, oldest first."""
        found = [await _log_file(self.disk, segment.start) for segment in self.segments]
        return [file for file in found if file is not None]

    async def log_end(self) -> int:
        """Where the log ends: behind the last record that is whole."""
        at = self._last_known_start()
        while True:
            walked = await self._walk(at)
            at = walked.end
            if walked.stop is Stop.BAD:
                following = await self.scanner.next_good(at, self.segments.max_offset)
                if following is None:
                    return at
                at = following

    async def _walk(self, at: int, end: int | None = None) -> Walked:
        """What `Scanner.walk` finds; where another program wrote on, what we called ours ends."""
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

    async def pieces(self, start: int, end: int) -> AsyncIterator[Piece]:
        """The records between two places, in pieces, each checked; bad parts are said and passed over."""
        at = max(start, self.segments.min_offset)
        while at < end:
            walked = await self._walk(at, end)
            bad = ""
            at = walked.end
            if walked.stop is Stop.BAD and at < end:
                following = await self.scanner.next_good(at, end)
                bad = walked.reason
                at = end if following is None else following
            yield Piece(walked.piece, walked.heads, at, bad, walked.end)

    # ---- what is built behind it

    async def topics(self) -> list[str]:
        """The topics that have queues."""
        return await _names(self.disk, CONSUME_QUEUE)

    async def queues(self, topic: str) -> list[QueueSeen]:
        """The queues of a topic."""
        found = []
        for name in sorted(await _names(self.disk, f"{CONSUME_QUEUE}/{topic}"), key=lambda name: (len(name), name)):
            if name.isascii() and name.isdigit():
                queue = await self._queue(topic, int(name))
                if queue is not None:
                    found.append(queue)
        return found

    async def _queue(self, topic: str, queue_id: int) -> QueueSeen | None:
        directory = queue_directory(topic, queue_id)
        starts = await _starts(self.disk, directory)
        if not starts:
            return None
        file_bytes = self.disk.status(f"{directory}/{starts[0]:020d}").size
        for start in reversed(starts):
            count = self._entries_in(f"{directory}/{start:020d}")
            if count or start == starts[0]:
                end = start // ENTRY_BYTES + count
                return QueueSeen(topic, queue_id, starts[0] // ENTRY_BYTES, end, len(starts), file_bytes)
        return None

    def _entries_in(self, path: str) -> int:
        try:
            file = self.disk.open(path)
        except FileMissing:
            return 0
        low, high = 0, file.size // ENTRY_BYTES
        while low < high:
            middle = (low + high) // 2
            _, size, _ = ENTRY.unpack(file.read_at(middle * ENTRY_BYTES, ENTRY_BYTES))
            if size > 0:
                low = middle + 1
            else:
                high = middle
        file.close()
        return low

    async def entries(self, queue: QueueSeen, offset: int, count: int) -> list[tuple[int, int, int]]:
        """Entries of a queue: physical offset, size, tag code; fewer than asked for at the end of a file."""
        per_file = queue.file_bytes // ENTRY_BYTES
        first = offset - offset % per_file
        count = min(count, queue.end - offset, first + per_file - offset)
        try:
            file = self.disk.open(f"{queue_directory(queue.topic, queue.queue_id)}/{first * ENTRY_BYTES:020d}")
        except FileMissing:
            return []
        data = await file.read((offset - first) * ENTRY_BYTES, max(count, 0) * ENTRY_BYTES)
        file.close()
        return [(physical, size, code) for physical, size, code in ENTRY.iter_unpack(data)]

    async def index_files(self) -> list[IndexSeen]:
        """The index files, oldest first."""
        found = []
        for name in await _names(self.disk, INDEX):
            path = f"{INDEX}/{name}"
            try:
                file = self.disk.open(path)
            except FileMissing:
                continue
            found.append(IndexSeen(name, file.size, decode_header(await file.read(0, HEADER_BYTES))))
            file.close()
        return found

    async def checkpoint(self) -> Checkpoint:
        """What the checkpoint says."""
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


async def _names(disk: Disk, path: str) -> list[str]:
    try:
        return await disk.list(path) if disk.status(path).is_directory else []
    except FileMissing:
        return []


async def _starts(disk: Disk, path: str) -> list[int]:
    return [start for name in await _names(disk, path) if (start := segment_start(name)) is not None]


async def _log_file(disk: Disk, start: int) -> LogFileSeen | None:
    try:
        status = disk.status(log_path(start))
    except FileMissing:
        return None
    return LogFileSeen(start, status.size, status.modified_ms)


def _inferred(files: list[LogFileSeen]) -> int:
    gaps = [after.start - before.start for before, after in pairwise(files)]
    return min(gaps) if gaps else max((file.size for file in files), default=0)
