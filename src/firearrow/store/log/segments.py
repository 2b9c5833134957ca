"""The fixed-size files of the commit log, found by offset.

Every segment starts at a multiple of the size and has exactly that size on disk, with zeros where nothing was written:
Apache refuses to start on any other length. A segment in the middle may be missing because a file was lost: that range
is damage, and the segments after it stay. Segments after the last record are spare and all zeros.

Invariant: `Segment.named` is False until both directories were synced after the file got its name; no byte of the
segment counts as durable before. Java: ``MappedFileQueue``.
"""

from collections.abc import Iterator
from itertools import pairwise

from firearrow.errors import SettingsError
from firearrow.runtime.disk.door import Disk, File
from firearrow.store.config import DEFAULT_SEGMENT_BYTES, SMALLEST_SEGMENT_BYTES
from firearrow.store.paths import COMMIT_LOG, OURS, log_path, segment_start


class Segment:
    """One file of the log."""

    __slots__ = ("end", "file", "named", "start", "unsynced")

    def __init__(self, start: int, end: int, file: File, *, named: bool) -> None:
        self.start = start
        self.end = end
        self.file = file
        self.named = named
        self.unsynced = False

    def __repr__(self) -> str:
        return f"Segment({self.start}..{self.end})"


class Segments:
    """All files of the log."""

    def __init__(self, disk: Disk, size: int) -> None:
        if not SMALLEST_SEGMENT_BYTES <= size < 1 << 31:
            raise SettingsError(
                f"a commit log file of {size} bytes is not possible; use {SMALLEST_SEGMENT_BYTES} to 2 GiB"
            )
        self.disk = disk
        self.size = size
        self.min_offset = 0
        """The start of the oldest segment; 0 when there is none."""
        self._by_start: dict[int, Segment] = {}

    def __iter__(self) -> Iterator[Segment]:
        """The segments in order."""
        return iter([self._by_start[start] for start in sorted(self._by_start)])

    def __len__(self) -> int:
        return len(self._by_start)

    def at(self, physical: int) -> Segment | None:
        """The segment that holds an offset; None when it is missing."""
        return self._by_start.get(physical - physical % self.size)

    @property
    def max_offset(self) -> int:
        """The end of the newest segment, spare ones included; 0 when there is none."""
        return max(self._by_start, default=-self.size) + self.size

    def add(self, start: int, file: File, *, named: bool) -> Segment:
        """Add a file that exists and has its full size."""
        segment = Segment(start, start + self.size, file, named=named)
        if not self._by_start or start < self.min_offset:
            self.min_offset = start
        self._by_start[start] = segment
        return segment

    def create(self, start: int) -> Segment:
        """Create a sparse segment. Its name is not durable yet."""
        file = self.disk.open(log_path(start), create=True)
        try:
            file.truncate(self.size)
        except BaseException:
            file.close()
            raise
        return self.add(start, file, named=False)

    def give_up(self, segment: Segment) -> None:
        """Drop a segment whose file another program deleted."""
        del self._by_start[segment.start]
        self.min_offset = min(self._by_start, default=0)
        segment.file.close()

    async def remove(self, segment: Segment) -> None:
        """Delete a segment; it stays when its file cannot be deleted. The caller syncs the directory."""
        await self.disk.unlink(log_path(segment.start))
        self.give_up(segment)

    def close(self) -> None:
        """Close every file."""
        for segment in self._by_start.values():
            segment.file.close()
        self._by_start.clear()
        self.min_offset = 0


async def sync_names(disk: Disk) -> None:
    """Make the names of all segments durable: a rename needs a sync of both directories."""
    await disk.sync_directory(COMMIT_LOG)
    await disk.sync_directory(OURS)


async def load_segments(disk: Disk, configured: int, recorded: int = 0) -> Segments:
    """Open the existing files. ``recorded`` is the size in our own sidecar, 0 when there is none.

    A file that is too short lost its length in a power loss; it is extended, and the missing bytes read as zeros.
    """
    found = {}
    for name in await disk.list(COMMIT_LOG):
        start = segment_start(name)
        if start is not None and not (status := disk.status(log_path(start))).is_directory:
            found[start] = status.size
    segments = Segments(disk, _size(found, configured, recorded))
    for start, size in sorted(found.items()):
        file = disk.open(log_path(start))
        segment = segments.add(start, file, named=False)
        if size < segments.size:
            file.truncate(segments.size)
            segment.unsynced = True
    return segments


def _size(found: dict[int, int], configured: int, recorded: int) -> int:
    size = configured or recorded or _inferred(found) or DEFAULT_SEGMENT_BYTES
    for start, length in found.items():
        if start % size or length > size:
            raise SettingsError(
                f"{log_path(start)} has {length} bytes and cannot be part of a log with files of {size} bytes; "
                f"set mappedFileSizeCommitLog to the size that the store was made with, or leave it out"
            )
    return size


def _inferred(found: dict[int, int]) -> int:
    starts = sorted(found)
    gaps = [after - before for before, after in pairwise(starts)]
    return min(gaps) if gaps else max(found.values(), default=0)
