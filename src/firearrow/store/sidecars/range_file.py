"""The file of the stamped ranges, with the size of the log's files."""

import msgspec

from firearrow.runtime.disk.door import Disk
from firearrow.store.paths import RANGES
from firearrow.store.sidecars.copies import read_copies
from firearrow.store.sidecars.sealed_json import read_sealed, write_sealed
from firearrow.store.sidecars.stamped_ranges import Ranges


class _RangeContents(msgspec.Struct):
    segment_bytes: int
    ranges: list[tuple[int, int | None]] = []


class RangeFile:
    """The table of stamped ranges on disk; a change is durable when `save` returns."""

    def __init__(self, disk: Disk, ranges: Ranges, segment_bytes: int) -> None:
        self._disk = disk
        self.ranges = ranges
        self.segment_bytes = segment_bytes
        """The size of the log's files; 0 when it is not recorded."""
        self._saved: tuple[int, list[tuple[int, int | None]]] | None = None

    @classmethod
    async def load(cls, disk: Disk) -> "RangeFile":
        """Read the table; empty when there is no file."""
        contents = await read_sealed(disk, RANGES, _RangeContents)
        if contents is None:
            return cls(disk, Ranges(), 0)
        file = cls(disk, Ranges(contents.ranges), contents.segment_bytes)
        (first, second), _ = await read_copies(disk, (RANGES, f"{RANGES}.bak"))
        if first == second:  # else one is damaged or older, and the next save writes both
            file._saved = contents.segment_bytes, contents.ranges
        return file

    async def save(self, segment_bytes: int) -> None:
        """Write the table, durably, unless it is on disk as it is: a start needs no room then."""
        self.segment_bytes = segment_bytes
        saved = segment_bytes, self.ranges.as_list()
        if saved != self._saved:
            await write_sealed(self._disk, RANGES, _RangeContents(*saved))
            self._saved = saved
