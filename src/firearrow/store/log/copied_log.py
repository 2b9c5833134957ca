"""A commit log that also takes the records of another broker's log, at the same physical offsets.

A copy is appended in whole records and fillers, so that the log ends behind a record at every moment, as recovery
expects: sizes and places are checked before the append. Everything else is checked when the records are dispatched: by
the stamp, which covers every byte, or without one by structure and the CRC of the body. A wrong stamp alone is no
damage: Apache copies stamps into other records. Java: ``CommitLog.appendData``, which checks nothing.
"""

import struct
from functools import lru_cache
from typing import NamedTuple
from zlib import crc32

from firearrow.errors import BadRecord, Overloaded
from firearrow.model.flags import HOST_V6_MASK
from firearrow.record.decode import check_body, peek, size_and_magic
from firearrow.record.layout import (
    BLANK_MAGIC,
    BLANK_SIZE,
    CRC_MASK,
    HEAD_SIZE,
    MAGIC_V1,
    MAGIC_V2,
    SHORT,
    SMALLEST_RECORD,
    Buffer,
)
from firearrow.record.stamp import STAMP_KEY, STAMP_SIZE, stamp_of, stamps_of
from firearrow.store.log.commit_log import CommitLog

_unpack_place = struct.Struct(">iI20xq").unpack_from  # size, magic, place
_unpack_checked = struct.Struct(">iIi16xqi44xi").unpack_from  # size, magic, body CRC, place, sysFlag, body length
_unpack_short = SHORT.unpack_from
_MAGICS = (MAGIC_V1, MAGIC_V2)
_AFTER_KEY = STAMP_SIZE - len(STAMP_KEY)


class WholeRecords(NamedTuple):
    """The whole records at the beginning of some bytes of a log."""

    end: int
    """The end of the records, the filler at the end of the file included."""
    wanted: int
    """The number of bytes needed from ``end`` on for the next record or filler."""


def whole_records(piece: Buffer, start: int, base: int, segment_end: int) -> WholeRecords:
    """Find the end of the whole records of ``piece`` from ``start`` on, up to the end of their log file.

    A record at ``base`` of the log begins at ``start``. Raise `BadRecord` for bytes that are no record of that place.
    """
    at, length, shift = start, len(piece), base - start
    room = segment_end - shift
    while at < room and length - at >= SMALLEST_RECORD:
        size, magic, physical = _unpack_place(piece, at)
        if magic == BLANK_MAGIC:
            break
        if magic not in _MAGICS or not SMALLEST_RECORD <= size <= room - at:
            raise BadRecord(f"{size} bytes at {shift + at} are no record that fits the file", offset=shift + at)
        if physical != shift + at:
            raise BadRecord(f"the record at {shift + at} says that it is at {physical}", offset=shift + at)
        if at + size > length:
            return WholeRecords(at, size)
        at += size
    return _at_filler(piece, at, room, shift)


def check_records(piece: bytes) -> None:
    """Raise `BadRecord` unless the whole records at the beginning of ``piece``, up to a filler, are good."""
    view, at, length = memoryview(piece), 0, len(piece)
    stamped: list[tuple[int, int, bytes]] = []
    while length - at >= SMALLEST_RECORD:
        size, magic, body_crc, _, sys_flag, body_length = _unpack_checked(piece, at)
        after = at + size
        if magic == BLANK_MAGIC or after > length:
            break
        if piece[after - STAMP_SIZE : after - _AFTER_KEY] == STAMP_KEY:
            stamped.append((at, crc32(view[at : after - STAMP_SIZE]), piece[after - STAMP_SIZE : after]))
        elif magic != MAGIC_V1 or sys_flag & HOST_V6_MASK or not _is_sound(piece, at, after, body_crc, body_length):
            check_body(piece, peek(piece, at))
        at = after
    _check_stamps(piece, stamped)


def _check_stamps(piece: bytes, stamped: list[tuple[int, int, bytes]]) -> None:
    """Check records with stamps, each given with its CRC and stamp; a wrong stamp leaves the check of the body."""
    _, crcs, stamps = zip(*stamped, strict=True) if stamped else ((), (), ())
    if b"".join(stamps) != stamps_of(list(crcs)):
        for at, crc, stamp in stamped:
            if stamp != stamp_of(crc):
                check_body(piece, peek(piece, at))


def _at_filler(piece: Buffer, at: int, room: int, shift: int) -> WholeRecords:
    """Return what there is behind the last record: a filler, the beginning of a record, or the end of the file."""
    left = len(piece) - at
    if at == room:
        return WholeRecords(at, 0)
    if left < BLANK_SIZE:
        return WholeRecords(at, BLANK_SIZE)
    size, magic = size_and_magic(piece, at)
    if magic != BLANK_MAGIC:
        return WholeRecords(at, SMALLEST_RECORD)
    if size != room - at:
        raise BadRecord(
            f"the filler at {shift + at} has {size} bytes and {room - at} are left in the file; set "
            "mappedFileSizeCommitLog of this broker to the size of its master's",
            offset=shift + at,
        )
    return WholeRecords(room, 0) if left >= size else WholeRecords(at, size)


def _is_sound(piece: bytes, at: int, after: int, body_crc: int, body_length: int) -> bool:
    """Whether a record of version 1 with IPv4 hosts has the right CRC, and its parts fill it."""
    body = at + HEAD_SIZE
    topic_at = body + body_length
    if not body <= topic_at <= after - 3 or crc32(piece[body:topic_at]) & CRC_MASK != body_crc:
        return False
    properties_at = topic_at + 1 + piece[topic_at]
    if properties_at + 2 > after or not _is_text(piece[topic_at + 1 : properties_at]):
        return False
    return bool(properties_at + 2 + _unpack_short(piece, properties_at)[0] == after)


@lru_cache(4096)
def _is_text(topic: bytes) -> bool:
    try:
        topic.decode()
    except UnicodeDecodeError:
        return False
    return True


class CopiedLog(CommitLog):
    """A commit log that takes appends or, on a slave, copies."""

    __slots__ = ()

    def append_copy(self, records: Buffer) -> None:
        """Append whole records, and fillers, of another broker's log; they lie in one segment, from the tail on.

        Their rows are not dispatched: see `CopyDispatch`.
        """
        self._check_open()
        if self._active is None or self.tail >= self._active.end:
            if self._held_back:
                raise Overloaded("the disk is more than a log file behind with writing; the copy waits")
            self._activate()
        self._pending.append(records)
        self.tail += len(records)
        if (error := self.write_pending()) is not None:
            raise error

    def begin_at(self, offset: int) -> None:
        """Begin an empty log at another offset than 0."""
        self._active = None
        self._limit = self._room = -1
        self.tail = self.handed = self.written = self.flushed = self.opened_at = offset
