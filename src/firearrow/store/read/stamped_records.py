"""Checks the records of one cold read by columns, with functions in C. Pure.

After a restart every record is checked before it is handed out; record by record (`recovery.verify.judge`) that costs
several times what reading does. A record with a right stamp is, byte for byte, what this store wrote, so its structure
needs no check: it must only be the record of its entry. Whatever is unusual, a record without a stamp, an IPv6 host,
anything wrong, makes the answer False, and the reader checks record by record.
"""

import struct
from collections.abc import Sequence
from itertools import accumulate, repeat
from typing import Final
from zlib import crc32

from firearrow.model.flags import HOST_V6_MASK
from firearrow.record.layout import HEAD_SIZE, topic_field
from firearrow.record.stamp import STAMP_SIZE, stamps_of
from firearrow.store.dispatch import code_of
from firearrow.store.property_fields import SEPARATOR, TAGS_MARK
from firearrow.store.queue.consume_queue import SCHEDULE_TOPIC

_layout: Final = struct.Struct(">4xI28xi44xi").unpack_from
"""Reads the layout of a record from its head: magic, sysFlag, length of the body."""


def are_right(
    data: bytes, topic: str, sizes: Sequence[int], codes: Sequence[int], *, are_vouched: bool = False
) -> bool:
    """Whether records that lie one behind the other have right stamps, this topic, and these tag codes.

    Stamps are not looked at if the bytes ``are_vouched`` for by the checksums of their blocks (`log.block_sums`).
    Entries of delayed messages hold a time instead of a tag code: they are left to the check record by record.
    """
    if topic == SCHEDULE_TOPIC:
        return False
    ends = list(accumulate(sizes))
    places = [0, *ends[:-1]]
    stamps = [end - STAMP_SIZE for end in ends]
    if not are_vouched and not _have_right_stamps(data, places, stamps, ends):
        return False
    magic, name = topic_field(topic)
    magics, flags, lengths = zip(*map(_layout, repeat(data), places), strict=True)
    if set(magics) != {magic} or any(flag & HOST_V6_MASK for flag in set(flags)):
        return False
    names = [place + HEAD_SIZE + length for place, length in zip(places, lengths, strict=True)]
    if {data[at : at + len(name)] for at in names} != {name}:
        return False
    behind = len(name) + 2
    return _have_codes(data, topic, [at + behind for at in names], stamps, codes)


def _have_right_stamps(data: bytes, places: list[int], stamps: list[int], ends: list[int]) -> bool:
    view = memoryview(data)
    expected = stamps_of([crc32(view[place:stamp]) for place, stamp in zip(places, stamps, strict=True)])
    return b"".join([view[stamp:end] for stamp, end in zip(stamps, ends, strict=True)]) == expected


def _have_codes(data: bytes, topic: str, starts: list[int], stamps: list[int], codes: Sequence[int]) -> bool:
    """Whether the tag codes of entries are those of the properties, which lie between ``starts`` and ``stamps``."""
    marks = list(map(data.rfind, repeat(TAGS_MARK), starts, stamps))
    if max(marks) < 0:
        return not any(codes)
    known: dict[bytes, int] = {}
    behinds = map(data.find, repeat(b"\x02"), marks, stamps)
    for mark, behind, start, stamp, code in zip(marks, behinds, starts, stamps, codes, strict=True):
        is_plain = 0 <= mark < behind and (mark == start or data[mark - 1] == SEPARATOR)
        tag = data[mark:behind] if is_plain else b""
        found = known.get(tag)
        if found is None:
            found = code_of(topic, data[start : stamp + STAMP_SIZE], 0, ()) if mark >= 0 else 0
            if len(tag) > len(TAGS_MARK) and tag.count(b"\x01") == 1:
                known[tag] = found
        if found != code:
            return False
    return True
