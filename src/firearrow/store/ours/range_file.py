"""The file of the stamped ranges, with the size of the log's files."""

import msgspec

from firearrow.runtime.disk.door import Disk
from firearrow.store.ours.sealed_json import read_sealed, write_sealed
from firearrow.store.ours.stamped_ranges import Ranges
from firearrow.store.paths import RANGES


class _Contents(msgspec.Struct):
    segment_bytes: int
    ranges: list[tuple[int, int | None]] = []


class RangeFile:
    """The table of stamped ranges on disk; a change is durable when `save` returns."""

    def __init__(self, disk: Disk, ranges: Ranges, segment_bytes: int) -> None:
        self._disk = disk
        self.ranges = ranges
        self.segment_bytes = segment_bytes
        """The size of the log's files; 0 when it is not recorded."""

    @classmethod
    async def load(cls, disk: Disk) -> "RangeFile":
        """Read the table; empty when there is no file."""
        contents = await read_sealed(disk, RANGES, _Contents)
        return cls(disk, Ranges(contents.ranges), contents.segment_bytes) if contents else cls(disk, Ranges(), 0)

    async def save(self, segment_bytes: int) -> None:
        """Write the table, durably."""
        self.segment_bytes = segment_bytes
        await write_sealed(self._disk, RANGES, _Contents(segment_bytes, self.ranges.as_list()))
