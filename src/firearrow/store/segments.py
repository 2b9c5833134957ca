"""The fixed-size files of the commit log, found by offset.

Every segment starts at a multiple of the size and is exactly that long on disk, zeros where nothing was written: Apache
refuses to start on any other length. A segment may be missing in the middle when somebody lost a file; what lay there
is damage, not a reason to lose what lies after it. The names ahead of the last record are spare segments, all zeros.

Invariant: `Segment.named` is False until both directories were synced after the file got its name; nothing in the
segment counts as durable before. Java: ``MappedFileQueue``.
"""

from collections.abc import Iterator
from itertools import pairwise

from firearrow.errors import SettingsError
from firearrow.runtime.disk import Disk, File
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
        """Where the oldest segment starts; 0 when there is none."""
        self._by_start: dict[int, Segment] = {}

    def __iter__(self) -> Iterator[Segment]:
        """The segments in order."""
        return iter([self._by_start[start] for start in sorted(self._by_start)])

    def __len__(self) -> int:
        return len(self._by_start)

    def at(self, physical: int) -> Segment | None:
        """The segment that holds an offset, if it is there."""
        return self._by_start.get(physical - physical % self.size)

    @property
    def max_offset(self) -> int:
        """Where the newest segment ends, spare ones included; 0 when there is none."""
        return max(self._by_start, default=-self.size) + self.size

    def add(self, start: int, file: File, *, named: bool) -> Segment:
        """Take a file that is in its place and has its size."""
        segment = Segment(start, start + self.size, file, named=named)
        if not self._by_start or start < self.min_offset:
            self.min_offset = start
        self._by_start[start] = segment
        return segment

    def create(self, start: int) -> Segment:
        """Make a segment in its place, sparse. Its name is not durable yet."""
        file = self.disk.open(log_path(start), create=True)
        try:
            file.truncate(self.size)
        except BaseException:
            file.close()
            raise
        segment = self.add(start, file, named=False)
        segment.unsynced = True
        return segment

    def give_up(self, segment: Segment) -> None:
        """Forget a segment whose file somebody else deleted."""
        del self._by_start[segment.start]
        self.min_offset = min(self._by_start, default=0)
        segment.file.close()

    async def remove(self, segment: Segment) -> None:
        """Delete a segment. The caller syncs the directory."""
        self.give_up(segment)
        await self.disk.unlink(log_path(segment.start))

    def close(self) -> None:
        """Give up every file."""
        for segment in self._by_start.values():
            segment.file.close()
        self._by_start.clear()
        self.min_offset = 0


async def sync_names(disk: Disk) -> None:
    """Make the names of all segments durable: a rename into the log is, once both directories are synced."""
    await disk.sync_directory(COMMIT_LOG)
    await disk.sync_directory(OURS)


async def load_segments(disk: Disk, configured: int, recorded: int = 0) -> Segments:
    """Open the files that are there. ``recorded`` is the size that our own sidecar remembers, 0 when there is none.

    A file that is too short lost its length with the power; it gets it back, and what is missing reads as zeros.
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
