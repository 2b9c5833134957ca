"""Whether a record is good: the check for recovery, ``--verify``, cold reads and the scrub. Pure.

Cold reads of stamped records go by columns first (`store.read.stamped_records`), which passes nothing that fails here.

A record is good when its structure is valid (`record.decode.peek`), it states its own physical offset, and its checksum
is right. Inside a stamped range the checksum is the stamp, which covers every byte; a stamp may be missing only where
the properties left no room for it. Elsewhere the checksum is the body's CRC, and the head is unprotected: there a
record is torn if its properties are zero from the beginning of a disk's sector on, as a loss of power leaves them. Must
accept every other record of Apache's that Java's ``CommitLog.checkMessageAndReturnSize`` accepts.
"""

from enum import IntEnum
from typing import Final
from zlib import crc32

from firearrow.errors import BadRecord
from firearrow.record.decode import RecordHead, check_body, peek
from firearrow.record.layout import MAX_PROPERTIES_BYTES, Buffer
from firearrow.record.stamp import STAMP_KEY, STAMP_SIZE, stamp_of

SECTOR: Final = 512
"""A disk writes a sector whole or not at all. Files of the log begin with a sector."""
LARGEST_STAMPED_PROPERTIES: Final = MAX_PROPERTIES_BYTES - STAMP_SIZE
"""Properties of up to this many bytes leave room for the stamp; records with longer ones are stored without it."""

_FIXED: Final = dict(enumerate(STAMP_KEY)) | {STAMP_SIZE - 1: 2}
_ALIKE: Final = len(_FIXED) // 2


class Protection(IntEnum):
    """The bytes that the checksum of a good record covers."""

    WHOLE = 0
    BODY = 1


def judge(buffer: Buffer, start: int, physical: int, *, ours: bool) -> tuple[RecordHead, Protection]:
    """Return the head and the protection of the record at ``start``; raise `BadRecord` if the record is bad."""
    head = peek(buffer, start)
    if head.physical_offset != physical:
        raise BadRecord(f"its physical offset field is {head.physical_offset}, not {physical}", offset=physical)
    if not ours:
        check_body(buffer, head)
        if _is_torn(buffer, head, start - physical):
            raise BadRecord("its properties end with zeros: the end of the record was not written", offset=physical)
        return head, Protection.BODY
    stamp = buffer[head.end - STAMP_SIZE : head.end]
    if stamp == stamp_of(crc32(memoryview(buffer)[start : head.end - STAMP_SIZE])):
        return head, Protection.WHOLE
    if head.end - head.properties_start <= LARGEST_STAMPED_PROPERTIES or resembles_stamp(stamp):
        raise BadRecord("its stamp is wrong", offset=physical)
    check_body(buffer, head)
    return head, Protection.BODY


def _is_torn(buffer: Buffer, head: RecordHead, shift: int) -> bool:
    """Whether the last sector of the properties is zero; ``shift`` leads from physical offsets to the buffer."""
    sector = (head.end - 1 - shift) // SECTOR * SECTOR + shift
    return head.end > head.properties_start and not any(buffer[max(sector, head.properties_start) : head.end])


def resembles_stamp(tail: Buffer) -> bool:
    """Whether 20 bytes are a stamp or a rotten stamp: at least half of the fixed bytes are right.

    A record of Apache's ends with entirely different bytes, unless Apache copied a stamp of ours.
    """
    return len(tail) == STAMP_SIZE and sum(tail[index] == byte for index, byte in _FIXED.items()) >= _ALIKE


def written_by_another(buffer: Buffer, start: int, physical: int) -> bool:
    """Whether the record is good by Apache's checks and has nothing like a stamp: then we did not write it."""
    try:
        head, _ = judge(buffer, start, physical, ours=False)
    except BadRecord:
        return False
    # Properties never end with a zero byte, but those of a torn record of ours do, whose body may be right.
    cut_off = head.end > head.properties_start and buffer[head.end - 1] == 0
    return not cut_off and not resembles_stamp(bytes(buffer[head.end - STAMP_SIZE : head.end]))
