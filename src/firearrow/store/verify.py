"""Is this record whole? One judgement for recovery, ``--verify``, every cold read, and for what a scrub doubts. Pure.

A record is good when its structure holds (`record.decode.peek`), it says it lies where it lies, and its checksum is
right. Inside a range that we wrote that is the stamp, which covers every byte; a stamp may only be missing where it
would not have fitted. Elsewhere it is the body's CRC and the head is unprotected. Must accept everything that Java's
``CommitLog.checkMessageAndReturnSize`` accepts of what Apache wrote.
"""

from enum import IntEnum
from typing import Final
from zlib import crc32

from firearrow.errors import BadRecord
from firearrow.record.decode import RecordHead, check_body, peek
from firearrow.record.layout import MAX_PROPERTIES_BYTES, Buffer
from firearrow.record.stamp import STAMP_KEY, STAMP_SIZE, stamp_of

LARGEST_STAMPED_PROPERTIES: Final = MAX_PROPERTIES_BYTES - STAMP_SIZE
"""Properties up to here leave room for the stamp; longer ones are stored without it."""

_FIXED: Final = dict(enumerate(STAMP_KEY)) | {STAMP_SIZE - 1: 2}
_ALIKE: Final = len(_FIXED) // 2


class Protection(IntEnum):
    """What the checksum of a good record covers."""

    WHOLE = 0
    BODY = 1


def judge(buffer: Buffer, start: int, physical: int, *, ours: bool) -> tuple[RecordHead, Protection]:
    """The head of the record at ``start`` and how well it is protected; raise `BadRecord` if it is bad."""
    head = peek(buffer, start)
    if head.physical_offset != physical:
        raise BadRecord(f"it says it lies at {head.physical_offset}, not {physical}", offset=physical)
    if not ours:
        check_body(buffer, head)
        return head, Protection.BODY
    stamp = buffer[head.end - STAMP_SIZE : head.end]
    if stamp == stamp_of(crc32(memoryview(buffer)[start : head.end - STAMP_SIZE])):
        return head, Protection.WHOLE
    if head.end - head.properties_start <= LARGEST_STAMPED_PROPERTIES or resembles_stamp(stamp):
        raise BadRecord("its stamp is wrong", offset=physical)
    check_body(buffer, head)
    return head, Protection.BODY


def resembles_stamp(tail: Buffer) -> bool:
    """Whether 20 bytes are a stamp or what rot made of one: at least half of its fixed bytes are there.

    A record of Apache's ends in something else entirely, unless it copied a stamp of ours.
    """
    return len(tail) == STAMP_SIZE and sum(tail[index] == byte for index, byte in _FIXED.items()) >= _ALIKE


def written_by_another(buffer: Buffer, start: int, physical: int) -> bool:
    """Whether the record is whole by Apache's measure and bears nothing like a stamp: we did not write it."""
    try:
        head, _ = judge(buffer, start, physical, ours=False)
    except BadRecord:
        return False
    # Properties never end with a zero byte: a record of ours that was cut off in its properties does, body and all.
    cut_off = head.end > head.properties_start and buffer[head.end - 1] == 0
    return not cut_off and not resembles_stamp(bytes(buffer[head.end - STAMP_SIZE : head.end]))
