"""Probing: reads the head of a record at an untrusted physical offset, to see whether it is the expected record.

The offset comes from a queue entry, an index entry or a client, and any of them may be wrong. So the bytes there must
have a record's magic, state the same physical offset, and fit their file.
"""

import struct
from typing import Final, NamedTuple

from firearrow.model.flags import BORN_HOST_V6
from firearrow.record.layout import MAGIC_V1, MAGIC_V2, SMALLEST_RECORD, V6_EXTRA
from firearrow.store.log.segments import Segments

_FIELDS = struct.Struct(">iI4xi4xqqi8x")
_STORE_MS = struct.Struct(">q")
_STORE_MS_AT: Final = 56
PROBED_BYTES: Final = _STORE_MS_AT + V6_EXTRA + 8


class ProbedHead(NamedTuple):
    """Fields of a record's head; no checksum was verified."""

    size: int
    queue_id: int
    queue_offset: int
    sys_flag: int
    store_ms: int


def probe_bytes(data: bytes, physical: int, room: int) -> ProbedHead | None:
    """The head at the start of ``data``; None when it cannot be that of a record of at most ``room`` bytes there."""
    if len(data) < PROBED_BYTES:
        return None
    size, magic, queue_id, queue_offset, stated, sys_flag = _FIELDS.unpack_from(data)
    if magic not in (MAGIC_V1, MAGIC_V2) or stated != physical or not SMALLEST_RECORD <= size <= room:
        return None
    at = _STORE_MS_AT + (V6_EXTRA if sys_flag & BORN_HOST_V6 else 0)
    return ProbedHead(size, queue_id, queue_offset, sys_flag, _STORE_MS.unpack_from(data, at)[0])


async def probe(segments: Segments, physical: int) -> ProbedHead | None:
    """The head of the record at a physical offset; None when there is no record."""
    segment = segments.at(physical) if physical >= 0 else None
    if segment is None:
        return None
    data = await segment.file.read(physical - segment.start, PROBED_BYTES)
    return probe_bytes(data, physical, segment.end - physical)
