"""Parts of a buffer as an Arrow column, without a step of Python for each.

One Arrow array over the whole buffer has the offsets ``[start0, end0, start1, end1, ...]``: every second value is one
that was asked for, what lies between them fills the others. Taking every second copies exactly the wanted bytes, in
C++. Offsets are 32 bits wide: a buffer must be smaller than 2 GiB.
"""

from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from firearrow.columns.starts import Bytes, Ints
from firearrow.errors import SettingsError

MAX_BUFFER_BYTES: Final = (1 << 31) - 1


def slices(data: Bytes, starts: Ints, ends: Ints, kind: pa.DataType) -> pa.Array:
    """The parts ``[start, end)`` of a buffer. Nothing checks that text is UTF-8."""
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
    """The same for parts that are not in the order of the buffer: an order in which they are, and back."""
    order = np.argsort(starts, kind="stable")
    ordered_starts, ordered_ends = starts[order], ends[order]
    if bool((ordered_starts[1:] < ordered_ends[:-1]).any()):
        parts = [data[start:end].tobytes() for start, end in zip(starts.tolist(), ends.tolist(), strict=True)]
        return pa.array(parts, pa.binary()).view(kind)
    back = np.empty(len(order), np.int64)
    back[order] = np.arange(len(order))
    return slices(data, ordered_starts, ordered_ends, kind).take(numbers(back, pa.int64()))


def structures(data: Bytes, places: Ints, kind: np.dtype[np.void]) -> npt.NDArray[np.void]:
    """What lies at some places of a buffer, copied; each of them must have as many bytes there as ``kind`` is long."""
    size = kind.itemsize
    anywhere: npt.NDArray[np.void] = np.ndarray((len(data) - size + 1,), f"V{size}", data, 0, (1,))
    return anywhere[places].view(kind)


def numbers(values: npt.NDArray[np.generic], kind: pa.DataType) -> pa.Array:
    """Numbers as a column, not copied."""
    return pa.Array.from_buffers(kind, len(values), [None, pa.py_buffer(np.ascontiguousarray(values))])


def text_of_width(letters: Bytes, width: int) -> pa.Array:
    """ASCII texts of one length that lie one after the other."""
    count = len(letters) // width
    offsets = np.arange(0, (count + 1) * width, width, dtype=np.int32)
    return pa.Array.from_buffers(pa.string(), count, [None, pa.py_buffer(offsets), pa.py_buffer(letters)])


def parts_of(column: pa.Array) -> tuple[npt.NDArray[np.int32], Bytes]:
    """The offsets and the bytes of a binary or text column that begins at 0."""
    count = len(column)
    if count == 0:
        return np.zeros(1, np.int32), np.empty(0, np.uint8)
    _, offsets, values = column.buffers()
    read: npt.NDArray[np.int32] = np.frombuffer(offsets, np.int32, count + 1)
    return read, np.frombuffer(values, np.uint8, int(read[-1])) if values is not None else np.empty(0, np.uint8)


def check_size(data: Bytes) -> None:
    """Raise unless a buffer is small enough."""
    if len(data) > MAX_BUFFER_BYTES:
        raise SettingsError(f"{len(data)} bytes of records at once are too many for Arrow; decode them in parts")
