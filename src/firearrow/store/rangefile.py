"""The ranges of the log that we wrote, on disk, with the size of its files."""

import msgspec

from firearrow.runtime.disk import Disk
from firearrow.store.paths import RANGES
from firearrow.store.ranges import Ranges
from firearrow.store.sealed import read_sealed, write_sealed


class _Contents(msgspec.Struct):
    segment_bytes: int
    ranges: list[tuple[int, int | None]] = []


class RangeFile:
    """Keeps the table; every change is durable when its method returns."""

    def __init__(self, disk: Disk, ranges: Ranges, segment_bytes: int) -> None:
        self._disk = disk
        self.ranges = ranges
        self.segment_bytes = segment_bytes
        """The size that the log's files had; 0 when that is not recorded."""

    @classmethod
    async def load(cls, disk: Disk) -> "RangeFile":
        """Read the table; empty when there is no file."""
        contents = await read_sealed(disk, RANGES, _Contents)
        return cls(disk, Ranges(contents.ranges), contents.segment_bytes) if contents else cls(disk, Ranges(), 0)

    async def save(self, segment_bytes: int) -> None:
        """Make the table durable as it is."""
        self.segment_bytes = segment_bytes
        await write_sealed(self._disk, RANGES, _Contents(segment_bytes, self.ranges.as_list()))
