"""Checksums of the log, block by block, in files of our own: many old records are checked with one pass.

After a restart every record is checked before it is handed out, which costs several times what reading does. For every
whole block of 64 KiB of a log file there may be a CRC-32 in ``firearrow/sums/<name of the file>``, four bytes each,
big-endian, 0 where there is none. It is made when this process wrote the block and the block is synced, or when the
scrub has just checked every record in it.

A checksum vouches for bytes that have it, and for nothing else: they are, bit for bit, the bytes that were written. One
that is missing, torn, rotten or older than its block does not fit, and the records are checked one by one. So the files
are never synced, and anyone may delete them.
"""

import asyncio
import logging
from array import array
from collections import OrderedDict
from typing import Final
from zlib import crc32

from firearrow.errors import DiskError
from firearrow.runtime.disk.door import Disk
from firearrow.runtime.turn import Pace
from firearrow.store.log.commit_log import CommitLog
from firearrow.store.log.segments import Segment, Segments
from firearrow.store.paths import BLOCK_SUMS, segment_name, segment_start

BLOCK_BYTES: Final = 64 << 10
SUM_EVERY_S: Final = 1.0
FILES_KEPT: Final = 16
"""Log files whose checksums are kept in memory, about 80 KB each."""
_BLOCKS_AT_ONCE: Final = 8
_SUM_BYTES: Final = 4

logger = logging.getLogger(__name__)


class FileSums:
    """The checksums of one log file, and which of its blocks had theirs when this process read them."""

    __slots__ = ("are_good", "sums")

    def __init__(self, sums: "array[int]") -> None:
        self.sums = sums
        self.are_good = bytearray(len(sums))


class BlockSums:
    """Makes checksums of blocks, and vouches for blocks that have theirs."""

    def __init__(self, disk: Disk, segments: Segments, log: CommitLog) -> None:
        self.vouched = 0
        """Number of blocks that were found to have their checksums."""
        self._disk = disk
        self._segments = segments
        self._log = log
        self._blocks = -(-segments.size // BLOCK_BYTES)
        self._position = log.opened_at  # what this process wrote behind it has no checksums yet
        self._checked = (0, 0)  # what the scrub has checked without a gap
        self._oldest = -1
        self._files: OrderedDict[int, FileSums] = OrderedDict()

    # ---- making them

    async def run(self) -> None:
        """Sum up new blocks every second, until cancelled."""
        while True:
            await asyncio.sleep(SUM_EVERY_S)
            try:
                await self.sum_up()
            except DiskError as error:
                _tell(error)

    async def sum_up(self) -> None:
        """Make the checksums of whole blocks that were written by this process and are synced."""
        if self._oldest != self._segments.min_offset:
            await self._drop_old()
        begin, end = max(self._position, self._segments.min_offset), self._whole(self._log.flushed)
        if begin < end:
            await self._sum(begin, end)
            self._position = end

    async def were_checked(self, first: int, end: int) -> None:
        """Make the checksums of whole blocks whose records have just been checked."""
        begin = self._checked[0] if self._checked[1] == first else first
        stop = self._whole(end)
        self._checked = (max(begin, stop), end)
        if begin < stop:
            try:
                await self._sum(begin, stop)
            except DiskError as error:
                _tell(error)

    def _whole(self, offset: int) -> int:
        """Return the start of the block that holds an offset: all blocks before it are whole."""
        in_segment = offset % self._segments.size
        return offset - in_segment % BLOCK_BYTES

    async def _sum(self, first: int, end: int) -> None:
        while first < end:
            segment = self._segments.at(first)
            until = min(end, first - first % self._segments.size + self._segments.size)
            if segment is not None:
                await self._sum_segment(segment, first, until)
            first = until

    async def _sum_segment(self, segment: Segment, first: int, end: int) -> None:
        blocks = range(-(-(first - segment.start) // BLOCK_BYTES), (end - segment.start) // BLOCK_BYTES)
        known, pace = await self._of(segment), Pace(_BLOCKS_AT_ONCE, rests=True)
        made = array("I")
        for block in blocks:
            made.append(crc32(await segment.file.read(block * BLOCK_BYTES, BLOCK_BYTES)))
            await pace.did()
        if made == known.sums[blocks.start : blocks.stop]:
            return
        known.sums[blocks.start : blocks.stop] = made
        self._disk.make_directory(BLOCK_SUMS)
        file = self._disk.open(_path(segment), create=True)
        try:
            file.write_at(blocks.start * _SUM_BYTES, [b"".join([each.to_bytes(_SUM_BYTES) for each in made])])
        finally:
            file.close()

    async def _drop_old(self) -> None:
        """Delete the checksums of log files that are gone."""
        if self._disk.exists(BLOCK_SUMS):
            for name in await self._disk.list(BLOCK_SUMS):
                start = segment_start(name)
                if start is not None and start < self._segments.min_offset:
                    self._files.pop(start, None)
                    await self._disk.unlink(f"{BLOCK_SUMS}/{name}")
        self._oldest = self._segments.min_offset

    # ---- trusting them

    async def vouch(self, first: int, end: int) -> bool:
        """Whether every block that holds a part of these bytes of one log file has its checksum, or had it before."""
        segment = self._segments.at(first)
        if segment is None or not first < end <= segment.end:
            return False
        known, pace = await self._of(segment), Pace(_BLOCKS_AT_ONCE)
        for block in _blocks_of(segment, first, end):
            if known.are_good[block]:
                continue
            data = await segment.file.read(block * BLOCK_BYTES, BLOCK_BYTES) if known.sums[block] else b""
            if len(data) != BLOCK_BYTES or crc32(data) != known.sums[block]:
                return False
            known.are_good[block] = 1
            self.vouched += 1
            await pace.did()
        return True

    def forget(self, first: int, end: int) -> None:
        """Forget that blocks had their checksums: they have left the page cache, and may have rotted since."""
        segment = self._segments.at(first)
        known = None if segment is None else self._files.get(segment.start)
        if segment is not None and known is not None:
            for block in _blocks_of(segment, first, min(end, segment.end)):
                known.are_good[block] = 0

    async def _of(self, segment: Segment) -> FileSums:
        known = self._files.get(segment.start)
        if known is None:
            try:
                data = await self._disk.read_whole(_path(segment))
            except DiskError:
                data = b""
            data = data[: self._blocks * _SUM_BYTES].ljust(self._blocks * _SUM_BYTES, b"\0")
            sums = [int.from_bytes(data[at : at + _SUM_BYTES]) for at in range(0, len(data), _SUM_BYTES)]
            known = self._files.setdefault(segment.start, FileSums(array("I", sums)))
        self._files.move_to_end(segment.start)
        while len(self._files) > FILES_KEPT:
            self._files.popitem(last=False)
        return known


def _tell(error: DiskError) -> None:
    logger.warning("checksums of the log could not be written: %s", error, extra={"reason": str(error)})


def _path(segment: Segment) -> str:
    return f"{BLOCK_SUMS}/{segment_name(segment.start)}"


def _blocks_of(segment: Segment, first: int, end: int) -> range:
    return range((first - segment.start) // BLOCK_BYTES, -(-(end - segment.start) // BLOCK_BYTES))
