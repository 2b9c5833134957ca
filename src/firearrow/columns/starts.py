"""Finds the starts of records in a buffer of concatenated records.

A record begins with its size, so the next record is found from this one. Sizes often repeat: if the first eight bytes
(size and magic) occur again one size further on, that is the next record, and numpy compares thousands of such
positions at once. Where sizes keep changing a plain loop is faster, so after short runs the search uses that for a
while.
"""

import struct
from typing import Final

import numpy as np
import numpy.typing as npt

from firearrow.errors import BadRecord
from firearrow.record.layout import BLANK_MAGIC, BLANK_SIZE, SMALLEST_RECORD

Ints = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.uint8]

_FIRST_LOOK: Final = 16
_LONGEST_LOOK: Final = 1 << 16
_SHORT_RUN: Final = 6
_PLAIN_STEPS: Final = 200
_unpack = struct.Struct(">iI").unpack_from


def record_starts(data: Bytes, *, blanks: bool = False) -> Ints:
    """Return the starts of the records in a buffer; raise `BadRecord` where one does not fit.

    With ``blanks`` the filler at the end of a log file is skipped.
    """
    end, at, look = len(data), 0, _FIRST_LOOK
    raw = data.data
    found: list[Ints] = []
    while at < end:
        size, magic = _size_at(raw, at, end)
        if blanks and magic == BLANK_MAGIC:
            at += max(size, BLANK_SIZE)
            continue
        _check(size, at, end)
        count = _run(data, at, size, min((end - at) // size, look))
        found.append(np.arange(at, at + count * size, size, dtype=np.int64))
        at += count * size
        if count == look:
            look = min(look * 4, _LONGEST_LOOK)
        elif count < _SHORT_RUN:
            look = _FIRST_LOOK
            some, at = _steps(raw, at, end, blanks=blanks)
            found.append(some)
    return np.concatenate(found) if found else np.empty(0, np.int64)


def _size_at(raw: memoryview, at: int, end: int) -> tuple[int, int]:
    if end - at < BLANK_SIZE:
        raise BadRecord(f"{end - at} bytes are left, fewer than the {SMALLEST_RECORD} of any record", offset=at)
    size, magic = _unpack(raw, at)
    return size, magic


def _check(size: int, at: int, end: int) -> None:
    left = end - at
    if left < SMALLEST_RECORD:
        raise BadRecord(f"{left} bytes are left, fewer than the {SMALLEST_RECORD} of any record", offset=at)
    if not SMALLEST_RECORD <= size <= left:
        raise BadRecord(f"its size {size} is not between {SMALLEST_RECORD} and the {left} left", offset=at)


def _run(data: Bytes, at: int, size: int, most: int) -> int:
    """Return how many records from ``at`` on have the same size and magic as the first."""
    heads: npt.NDArray[np.uint64] = np.ndarray((most,), np.uint64, data, at, (size,))
    differs = heads != heads[0]
    first = int(differs.argmax())
    return first or most


def _steps(raw: memoryview, at: int, end: int, *, blanks: bool) -> tuple[Ints, int]:
    """Find some records one by one; stop before a position that is not a valid record."""
    found: list[int] = []
    last = end - SMALLEST_RECORD
    for _ in range(_PLAIN_STEPS):
        if at > last:
            break
        size, magic = _unpack(raw, at)
        if not SMALLEST_RECORD <= size <= end - at or (blanks and magic == BLANK_MAGIC):
            break
        found.append(at)
        at += size
    return np.array(found, np.int64), at
