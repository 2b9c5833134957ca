"""The bodies of many records as one column: copied at once, except those that are compressed.

A compressed body is inflated by itself, never past a limit, in the libraries' own C. A check of CRCs costs a step of
Python for each record, so it is an option.
"""

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


class Treatment(Struct, frozen=True):
    """What is done with bodies."""

    check_crc: bool = False
    max_body_bytes: int | None = MAX_BODY_BYTES
    """The most that a compressed body may become; None leaves compressed bodies as they are."""
    keep_bad: bool = False
    """Whether a compressed body that does not inflate is kept as it is, rather than refused."""


class Bodies(Struct, frozen=True):
    """Bodies, and the sysFlags that go with them: without COMPRESSED where a body was inflated."""

    column: pa.Array
    sys_flags: npt.NDArray[np.int32]


def bodies_of(heads: Heads, treatment: Treatment) -> Bodies:
    """Copy, check and inflate the bodies; `BadRecord` for the first that is wrong."""
    if treatment.check_crc:
        _check(heads)
    plain = slices(heads.data, heads.body_starts, heads.body_ends, pa.binary())
    sys_flags = heads.longs("sys_flag").astype(np.int32) if len(heads) else np.empty(0, np.int32)
    packed = np.flatnonzero(sys_flags & COMPRESSED)
    if treatment.max_body_bytes is None or len(packed) == 0:
        return Bodies(plain, sys_flags)
    inflated: list[bytes] = []
    order = np.arange(len(heads))
    for row in packed.tolist():
        body = _inflated(heads, row, int(sys_flags[row]), treatment)
        if body is not None:
            order[row] = len(heads) + len(inflated)
            inflated.append(body)
            sys_flags[row] &= ~COMPRESSED
    column = pa.concat_arrays([plain, pa.array(inflated, pa.binary())]).take(numbers(order, pa.int64()))
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
