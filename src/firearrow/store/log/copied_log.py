"""A commit log that also takes the records of another broker's log, at the same physical offsets.

A copy is appended in whole records and fillers, so that the log ends behind a record at every moment, as recovery
expects. The rows are dispatched as those of an append. Java: ``CommitLog.appendData``.
"""

from typing import NamedTuple

from firearrow.errors import BadRecord, Overloaded
from firearrow.model.flags import PREPARED
from firearrow.record.decode import RecordHead, check_body, peek, size_and_magic
from firearrow.record.layout import BLANK_MAGIC, BLANK_SIZE, SMALLEST_RECORD
from firearrow.store.log.commit_log import CommitLog
from firearrow.store.placement import Placed


class WholeRecords(NamedTuple):
    """The whole records at the beginning of some bytes of a log."""

    heads: list[RecordHead]
    end: int
    """How many bytes they have, the filler at the end of the file included."""
    wanted: int
    """How many bytes are needed from ``end`` on for the next record or filler."""


def whole_records(piece: bytes, base: int, segment_end: int) -> WholeRecords:
    """Return the whole records of ``piece``, which begins with a record at ``base``, up to the end of its log file.

    Raise `BadRecord` for bytes that are no record of that place.
    """
    heads: list[RecordHead] = []
    at, length, room = 0, len(piece), segment_end - base
    while at < room:
        if length - at < BLANK_SIZE:
            return WholeRecords(heads, at, BLANK_SIZE)
        size, magic = size_and_magic(piece, at)
        if magic == BLANK_MAGIC:
            if size != room - at:
                raise BadRecord(
                    f"the filler at {base + at} has {size} bytes and {room - at} are left in the file; set "
                    "mappedFileSizeCommitLog of this broker to the size of its master's",
                    offset=base + at,
                )
            return WholeRecords(heads, room, 0) if length >= room else WholeRecords(heads, at, size)
        if not SMALLEST_RECORD <= size <= room - at:
            raise BadRecord(f"a record of {size} bytes at {base + at} does not fit the file", offset=base + at)
        if size > length - at:
            return WholeRecords(heads, at, size)
        head = peek(piece, at)
        if head.physical_offset != base + at:
            raise BadRecord(f"the record at {base + at} says that it is at {head.physical_offset}", offset=base + at)
        check_body(piece, head)
        heads.append(head)
        at += size
    return WholeRecords(heads, at, 0)


class CopiedLog(CommitLog):
    """A commit log that takes appends or, on a slave, copies."""

    __slots__ = ()

    def append_copy(self, records: bytes, rows: list[Placed]) -> None:
        """Append whole records, and fillers, of another broker's log; they lie in one segment, from the tail on."""
        self._check_open()
        if self._active is None or self.tail >= self._active.end:
            if self._held_back:
                raise Overloaded("the disk is more than a log file behind with writing; the copy waits")
            self._activate()
        self._pending.append(records)
        self.tail += len(records)
        for tail, _, _, queue_offset, store_ms, sys_flag, _ in rows:
            if not sys_flag & PREPARED:
                tail.next_offset = queue_offset + 1
            self._store_ms = max(self._store_ms, store_ms)
        self._fresh += rows
        if (error := self.write_pending()) is not None:
            raise error

    def begin_at(self, offset: int) -> None:
        """Begin an empty log at another offset than 0."""
        self._active = None
        self._limit = self._room = -1
        self.tail = self.handed = self.written = self.flushed = self.opened_at = offset
