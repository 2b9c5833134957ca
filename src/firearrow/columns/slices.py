"""Parts of a buffer as an Arrow column, without a Python operation for each.

One Arrow array over the whole buffer has the offsets ``[start0, end0, start1, end1, ...]``: every second value is a
wanted part, the others are the gaps between them. Taking every second value copies exactly the wanted bytes, in C++.
Offsets are 32 bits wide, so a buffer must be smaller than 2 GiB.
"""

from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from firearrow.columns.starts import Bytes, Ints
from firearrow.errors import SettingsError

MAX_BUFFER_BYTES: Final = (1 << 31) - 1


def slices(data: Bytes, starts: Ints, ends: Ints, kind: pa.DataType) -> pa.Array:
    """Return the parts ``[start, end)`` of a buffer. Text is not checked to be UTF-8."""
    count = len(starts)
    if count == 0:
        return pa.array([], kind)
    if bool((starts[1:] < ends[:-1]).any()):
        return _slices_anyhow(data, starts, ends, kind)
    offsets = np.empty(2 * count, np.int32)
    offsets[0::2] = starts
    offsets[1::2] = ends
    whole = pa.Array.from_buffers(kind, 2 * count - 1, [None, pa.py_buffer(offsets), pa.py_buffer(data)])
    return whole.take(pa.array(np.arange(0, 2 * count - 1, 2, dtype=np.int32)))


def _slices_anyhow(data: Bytes, starts: Ints, ends: Ints, kind: pa.DataType) -> pa.Array:
    """Return parts that are not in the order of the buffer: sort them, take them, and restore their order."""
    order = np.argsort(starts, kind="stable")
    ordered_starts, ordered_ends = starts[order], ends[order]
    if bool((ordered_starts[1:] < ordered_ends[:-1]).any()):
        parts = [data[start:end].tobytes() for start, end in zip(starts.tolist(), ends.tolist(), strict=True)]
        return pa.array(parts, pa.binary()).view(kind)
    back = np.empty(len(order), np.int64)
    back[order] = np.arange(len(order))
    return slices(data, ordered_starts, ordered_ends, kind).take(numbers(back, pa.int64()))


def structures(data: Bytes, places: Ints, kind: np.dtype[np.void]) -> npt.NDArray[np.void]:
    """Copy the structures at some positions of a buffer; each must lie within the buffer."""
    size = kind.itemsize
    anywhere: npt.NDArray[np.void] = np.ndarray((len(data) - size + 1,), f"V{size}", data, 0, (1,))
    return anywhere[places].view(kind)


def numbers(values: npt.NDArray[np.generic], kind: pa.DataType) -> pa.Array:
    """Return numbers as a column, without a copy."""
    return pa.Array.from_buffers(kind, len(values), [None, pa.py_buffer(np.ascontiguousarray(values))])


def text_of_width(letters: Bytes, width: int) -> pa.Array:
    """Return ASCII texts of one length, stored one after the other, as a column."""
    count = len(letters) // width
    offsets = np.arange(0, (count + 1) * width, width, dtype=np.int32)
    return pa.Array.from_buffers(pa.string(), count, [None, pa.py_buffer(offsets), pa.py_buffer(letters)])


def parts_of(column: pa.Array) -> tuple[npt.NDArray[np.int32], Bytes]:
    """Return the offsets and the bytes of a binary or text column that begins at 0."""
    count = len(column)
    if count == 0:
        return np.zeros(1, np.int32), np.empty(0, np.uint8)
    _, offsets, values = column.buffers()
    read: npt.NDArray[np.int32] = np.frombuffer(offsets, np.int32, count + 1)
    return read, np.frombuffer(values, np.uint8, int(read[-1])) if values is not None else np.empty(0, np.uint8)


def check_size(data: Bytes) -> None:
    """Raise ``SettingsError`` if a buffer is too large."""
    if len(data) > MAX_BUFFER_BYTES:
        raise SettingsError(f"{len(data)} bytes of records at once are too many for Arrow; decode them in parts")
