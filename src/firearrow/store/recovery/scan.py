"""Walks the records of the log in order, and finds the next good record after a bad one.

The start of a segment is always the start of a record, and so is every offset that was ever flushed. Records are read
in large pieces, and a piece is checked in memory. Nothing here writes.
"""

import struct
from collections.abc import AsyncIterator, Callable
from enum import Enum
from typing import Final, NamedTuple, TypeAlias
from zlib import crc32

from firearrow.errors import BadRecord
from firearrow.record.decode import RecordHead, peek, size_and_magic
from firearrow.record.layout import BLANK_MAGIC, BLANK_SIZE, MAGIC_V1, MAGIC_V2, SIZE_AND_MAGIC, SMALLEST_RECORD
from firearrow.record.stamp import STAMP_SIZE, stamp_of, stamps_of
from firearrow.store.log.segments import Segment, Segments
from firearrow.store.placement import Placed, QueueTail
from firearrow.store.recovery.verify import judge, written_by_another
from firearrow.store.sidecars.stamped_ranges import Ranges

PIECE_BYTES: Final = 4 << 20
_MAGICS: Final = tuple(magic.to_bytes(4, "big") for magic in (MAGIC_V1, MAGIC_V2, BLANK_MAGIC))
_PHYSICAL_AT: Final = 28
_unpack_size_and_magic = SIZE_AND_MAGIC.unpack_from
_unpack_size_and_place = struct.Struct(f">i{_PHYSICAL_AT - 4}xq").unpack_from

TailOf: TypeAlias = Callable[[str, int], QueueTail]


class Stop(Enum):
    """The reason why a walk ended where it did."""

    MORE = "there may be more"
    SEGMENT_END = "the segment is full"
    BAD = "the next record is bad"
    FOREIGN = "the next record lies in our range and is another program's"


class WalkResult(NamedTuple):
    """Good records in one piece of the log, and why the walk stopped after them."""

    piece: bytes
    base: int
    """Physical offset of the piece's first byte."""
    heads: list[RecordHead]
    end: int
    """Physical offset after the last good record; after the filler when the segment is full."""
    stop: Stop
    reason: str = ""


class LogScanner:
    """Reads the records in the files of the log."""

    def __init__(self, segments: Segments, ranges: Ranges) -> None:
        self._segments = segments
        self._ranges = ranges

    async def walk(self, start: int, end: int | None = None, piece_bytes: int = PIECE_BYTES) -> WalkResult:
        """The good records from ``start`` on: at least one unless the first is bad, at most a piece of them."""
        segment = self._segments.at(start)
        if segment is None:
            return WalkResult(b"", start, [], start, Stop.BAD, "the file is missing")
        limit = segment.end if end is None else min(end, segment.end)
        piece = await segment.file.read(start - segment.start, min(piece_bytes, limit - start))
        walked = self._walk_piece(piece, start, segment)
        if walked.heads or walked.stop is not Stop.MORE:
            return walked
        size = size_and_magic(piece)[0] if len(piece) >= BLANK_SIZE else 0
        if not len(piece) < size <= limit - start:
            return walked._replace(stop=Stop.BAD, reason=f"its size {size} is more than the {limit - start} left")
        if self._is_gone(segment):
            return walked._replace(stop=Stop.BAD, reason="the file is missing")
        return self._walk_piece(await segment.file.read(start - segment.start, size), start, segment)

    @property
    def min_offset(self) -> int:
        """The start of the oldest file."""
        return self._segments.min_offset

    def _is_gone(self, segment: Segment) -> bool:
        """Whether a file was deleted during an await."""
        return self._segments.at(segment.start) is not segment

    def _walk_piece(self, piece: bytes, base: int, segment: Segment) -> WalkResult:
        heads: list[RecordHead] = []
        at, length = 0, len(piece)
        view = memoryview(piece)
        ours, ours_until = self._ranges.owner(base)
        while at + BLANK_SIZE <= length:
            size, magic = _unpack_size_and_magic(piece, at)
            physical = base + at
            if physical >= ours_until:
                ours, ours_until = self._ranges.owner(physical)
            if magic == BLANK_MAGIC and size == segment.end - physical:
                return WalkResult(piece, base, heads, segment.end, Stop.SEGMENT_END)
            if size > length - at and size <= segment.end - physical:
                break
            try:
                head = peek(piece, at)
                covered = head.end - STAMP_SIZE
                # `judge` inlined for a good record of ours, which nearly every record is.
                if (
                    not ours
                    or head.physical_offset != physical
                    or piece[covered : head.end] != stamp_of(crc32(view[at:covered]))
                ):
                    head, _ = judge(piece, at, physical, ours=ours)
            except BadRecord as bad:
                foreign = ours and written_by_another(piece, at, physical)
                return WalkResult(piece, base, heads, physical, Stop.FOREIGN if foreign else Stop.BAD, str(bad))
            heads.append(head)
            at = head.end
        return WalkResult(piece, base, heads, base + at, Stop.MORE)

    async def untouched(self, start: int, end: int, piece_bytes: int) -> int:
        """The end of the records from ``start`` on whose stamps are right.

        ``start`` itself when the first stamp is missing or wrong: then `walk` must check. A right stamp covers every
        byte of a record, so nothing else is checked.
        """
        segment = self._segments.at(start)
        ours, ours_until = self._ranges.owner(start)
        if segment is None or not ours:
            return start
        limit = min(end, segment.end, ours_until)
        piece = await segment.file.read(start - segment.start, min(piece_bytes, limit - start))
        view, length, at = memoryview(piece), len(piece), 0
        crcs: list[int] = []
        stamps: list[bytes] = []
        while at + SMALLEST_RECORD <= length:
            size, physical = _unpack_size_and_place(piece, at)
            after = at + size
            if not SMALLEST_RECORD <= size <= length - at or physical != start + at:
                break
            crcs.append(crc32(view[at : after - STAMP_SIZE]))
            stamps.append(piece[after - STAMP_SIZE : after])
            at = after
        return start + at if b"".join(stamps) == stamps_of(crcs) else start

    async def is_good(self, physical: int) -> bool:
        """Whether a good record, or the filler of a segment, starts at this offset."""
        segment = self._segments.at(physical)
        if segment is None or physical + BLANK_SIZE > segment.end:
            return False
        size, magic = size_and_magic((await segment.file.read(physical - segment.start, BLANK_SIZE)).ljust(8, b"\0"))
        left = segment.end - physical
        if magic == BLANK_MAGIC or not SMALLEST_RECORD <= size <= left:
            return magic == BLANK_MAGIC and size == left
        if self._is_gone(segment):
            return False
        try:
            record = await segment.file.read(physical - segment.start, size)
            judge(record, 0, physical, ours=self._ranges.covers(physical))
        except BadRecord:
            return False
        return True

    async def next_good(self, bad: int, limit: int) -> int | None:
        """Return the offset of the first good record after the bad one at ``bad`` and below ``limit``, or None."""
        segment = self._segments.at(bad)
        if segment is not None:
            found = await self._by_its_size(segment, bad, limit) or await self._by_magic(segment, bad, limit)
            if found is not None:
                return found
        start = bad - bad % self._segments.size + self._segments.size
        while start < limit:
            if self._segments.at(start) is not None:
                if await self.is_good(start):
                    return start
                found = await self.next_good(start, min(limit, start + self._segments.size))
                if found is not None:
                    return found
            start += self._segments.size
        return None

    async def _by_its_size(self, segment: Segment, bad: int, limit: int) -> int | None:
        size = size_and_magic((await segment.file.read(bad - segment.start, BLANK_SIZE)).ljust(BLANK_SIZE, b"\0"))[0]
        after = bad + size
        if size >= SMALLEST_RECORD and after < min(limit, segment.end) and await self.is_good(after):
            return after
        return None

    async def _by_magic(self, segment: Segment, bad: int, limit: int) -> int | None:
        end = min(limit, segment.end)
        base = bad + 1
        while base < end and not self._is_gone(segment):
            base = max(base, segment.start + segment.file.next_data(base - segment.start) - SMALLEST_RECORD)
            piece = await segment.file.read(base - segment.start, PIECE_BYTES)
            for at in _magic_places(piece):
                physical = base + at
                if physical < end and _may_start_here(piece, at, physical, segment) and await self.is_good(physical):
                    return physical
            # Pieces overlap by a head, so that a head at the end of this piece is complete in the next.
            base += max(len(piece) - SMALLEST_RECORD, 1) if len(piece) == PIECE_BYTES else PIECE_BYTES
        return None

    async def rows(
        self, start: int, end: int, tail_of: TailOf, skip: Callable[[int], int]
    ) -> AsyncIterator[list[Placed]]:
        """The rows of the records in a part of the log. ``skip`` returns where to continue after a bad record."""
        at = start
        while at < end:
            walked = await self.walk(at, end)
            if walked.heads:
                yield [row_of(walked.piece, head, tail_of) for head in walked.heads]
            at = walked.end
            if walked.stop in (Stop.BAD, Stop.FOREIGN) and at < end:
                at = max(skip(at), at + 1)


def row_of(piece: bytes, head: RecordHead, tail_of: TailOf) -> Placed:
    """The row of a record in a piece of the log."""
    return (
        tail_of(head.topic, head.queue_id),
        head.physical_offset,
        head.size,
        head.queue_offset,
        head.store_timestamp,
        head.sys_flag,
        piece[head.properties_start : head.end],
    )


def _magic_places(piece: bytes) -> list[int]:
    """The positions where records may start, in order: four bytes before every magic."""
    places = []
    for magic in _MAGICS:
        found = piece.find(magic, 4)
        while found >= 0:
            places.append(found - 4)
            found = piece.find(magic, found + 1)
    return sorted(places)


def _may_start_here(piece: bytes, at: int, physical: int, segment: Segment) -> bool:
    size, magic = size_and_magic(piece, at)
    if magic == BLANK_MAGIC:
        return size == segment.end - physical
    stated = piece[at + _PHYSICAL_AT : at + _PHYSICAL_AT + 8]
    return size >= SMALLEST_RECORD and (len(stated) < 8 or int.from_bytes(stated, "big") == physical)
