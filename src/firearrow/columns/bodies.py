"""The bodies of many records as one column: copied at once, except compressed ones.

Compressed bodies are inflated one by one in C, never past a limit. Checking CRCs costs a Python operation for each
record, so it is an option.
"""

from collections.abc import Iterator, Mapping
from zlib import crc32

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from msgspec import Struct

from firearrow.columns.heads import Heads
from firearrow.columns.slices import numbers, slices
from firearrow.errors import BadBody, BadRecord
from firearrow.model.flags import COMPRESSED
from firearrow.record.compression import decompress
from firearrow.record.decode import MAX_BODY_BYTES
from firearrow.record.layout import CRC_MASK

Flags = npt.NDArray[np.int32]


class Treatment(Struct, frozen=True):
    """The options for reading bodies."""

    check_crc: bool = False
    max_body_bytes: int | None = MAX_BODY_BYTES
    """Largest inflated body in bytes; None leaves compressed bodies as they are."""
    keep_bad: bool = False
    """Whether a compressed body that does not inflate is kept as stored instead of refused."""
    batch_bytes: int = 32 << 20
    """Most bytes of inflated bodies in one batch of columns, unless a single body has more."""


class Bodies(Struct, frozen=True):
    """Bodies and their sysFlags, without COMPRESSED where a body was inflated."""

    column: pa.Array
    sys_flags: Flags


def bodies_of(heads: Heads, treatment: Treatment) -> Bodies:
    """Copy, check and inflate the bodies; raise `BadRecord` for the first bad one."""
    if treatment.check_crc:
        _check(heads)
    sys_flags = _sys_flags(heads)
    packed = {row: _inflated(heads, row, int(sys_flags[row]), treatment) for row in _packed(sys_flags, treatment)}
    return _put_together(heads, sys_flags, packed)


def parts_of(heads: Heads, treatment: Treatment) -> Iterator[tuple[Heads, Bodies]]:
    """Yield records with their bodies, cut into parts that fit one batch."""
    if treatment.check_crc:
        _check(heads)
    sys_flags = _sys_flags(heads)
    packed: dict[int, bytes | None] = {}
    begin = size = 0
    for row in _packed(sys_flags, treatment):
        body = _inflated(heads, row, int(sys_flags[row]), treatment)
        taken = len(body or b"")
        if packed and size + taken > treatment.batch_bytes:
            yield _part(heads, sys_flags, begin, row, packed)
            begin, size, packed = row, 0, {}
        packed[row] = body
        size += taken
    yield _part(heads, sys_flags, begin, len(heads), packed)


def _part(
    heads: Heads, sys_flags: Flags, begin: int, end: int, packed: Mapping[int, bytes | None]
) -> tuple[Heads, Bodies]:
    some = heads if end - begin == len(heads) else Heads(heads.data, heads.starts[begin:end])
    return some, _put_together(some, sys_flags[begin:end], {row - begin: body for row, body in packed.items()})


def _sys_flags(heads: Heads) -> Flags:
    return heads.longs("sys_flag").astype(np.int32) if len(heads) else np.empty(0, np.int32)


def _packed(sys_flags: Flags, treatment: Treatment) -> list[int]:
    """Return the records whose bodies are to be inflated."""
    found: list[int] = [] if treatment.max_body_bytes is None else np.flatnonzero(sys_flags & COMPRESSED).tolist()
    return found


def _put_together(heads: Heads, sys_flags: Flags, packed: Mapping[int, bytes | None]) -> Bodies:
    plain = slices(heads.data, heads.body_starts, heads.body_ends, pa.binary())
    inflated = {row: body for row, body in packed.items() if body is not None}
    if not inflated:
        return Bodies(plain, sys_flags)
    rows = list(inflated)
    order = np.arange(len(heads))
    order[rows] = len(heads) + np.arange(len(rows))
    sys_flags[rows] &= ~COMPRESSED
    column = pa.concat_arrays([plain, pa.array(inflated.values(), pa.binary())]).take(numbers(order, pa.int64()))
    return Bodies(column, sys_flags)


def _inflated(heads: Heads, row: int, sys_flag: int, treatment: Treatment) -> bytes | None:
    raw = heads.data[heads.body_starts[row] : heads.body_ends[row]].tobytes()
    try:
        return decompress(raw, sys_flag, treatment.max_body_bytes or 0)
    except BadBody as wrong:
        if treatment.keep_bad:
            return None
        start = int(heads.starts[row])
        raise BadRecord(f"its body does not decompress: {wrong}", offset=start) from wrong


def _check(heads: Heads) -> None:
    raw, expected = heads.data.data, heads.longs("body_crc")
    ends = heads.body_ends.tolist()
    found = [crc32(raw[start:end]) for start, end in zip(heads.body_starts.tolist(), ends, strict=True)]
    wrong = (np.array(found, np.int64) & CRC_MASK) != expected
    if wrong.any():
        row = int(wrong.argmax())
        reason = f"its body has CRC {found[row] & CRC_MASK}, not {expected[row]}"
        raise BadRecord(reason, offset=int(heads.starts[row]))
