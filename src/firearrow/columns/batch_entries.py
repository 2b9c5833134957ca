"""Arrow columns -> messages of a client's batch, all at once; `record.batch.encode_batch` makes them one by one.

Each message becomes an *entry*::

    totalSize 4   magic 4 (0)   bodyCRC 4 (0)   flag 4 (0)   bodyLength 4   body   propertiesLength 2   properties

Its properties are given as columns of *fields*, ``name 0x01 value 0x02`` each, which are concatenated: a column for
each named property, and a column of maps for the others. A null or empty value gives no property, because readers skip
it. As in `record.properties`, a separator inside a name or a value is refused. No Python operation runs for each
message; offsets are 64 bits wide, so that columns may have any size.
"""

from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from firearrow.columns.slices import numbers
from firearrow.columns.starts import Bytes, Ints
from firearrow.errors import IllegalMessage
from firearrow.record.layout import MAX_PROPERTIES_BYTES

Bools = npt.NDArray[np.bool_]

_BINARY: Final = pa.large_binary()
_EMPTY: Final = pa.scalar(b"", _BINARY)
_HEAD: Final = np.dtype([(name, ">i4") for name in ("size", "magic", "crc", "flag", "body")])
_LENGTH: Final = np.dtype(">i2")
_SEPARATORS: Final = 3
"""Bytes below this are 0 and the two separators."""


def as_binary(values: pa.Array) -> pa.Array:
    """Return text or bytes as bytes with 64-bit offsets, without copying the data."""
    return values.cast(_BINARY)


def of_width(raw: bytes, width: int) -> pa.Array:
    """Return values of one length, stored one after the other, as a column."""
    return _column(np.arange(0, len(raw) + 1, width, dtype=np.int64), pa.py_buffer(raw))


def sizes_of(values: pa.Array) -> Ints:
    """Return the length of each value; 0 for null."""
    sizes: Ints = pc.fill_null(pc.binary_length(values), 0).to_numpy(zero_copy_only=False).astype(np.int64)
    return sizes


def offsets_of(values: pa.Array) -> Ints:
    """Return the start of each value of a column with 64-bit offsets, and the end of the last."""
    if len(values) == 0:
        return np.zeros(1, np.int64)
    read: Ints = np.frombuffer(values.buffers()[1], np.int64, len(values) + 1, 8 * values.offset)
    return read


def fields(name: str, values: pa.Array) -> pa.Array:
    """Return a property of this name for each value."""
    raw = as_binary(values)
    is_given = sizes_of(raw) > 0
    found = join_columns(f"{name}\x01", raw, "\x02")
    if not is_given.all():
        found = pc.if_else(pa.array(is_given), found, _EMPTY)
    if _count_low(found) != 2 * int(np.count_nonzero(is_given)):
        raise _forged(name)
    return found


class MapFields:
    """The properties in a column of maps from text to text."""

    def __init__(self, maps: pa.Array) -> None:
        offsets: Ints = maps.offsets.to_numpy().astype(np.int64)
        first, last = int(offsets[0]), int(offsets[-1])
        self._rows_count = len(maps)
        self._rows = np.repeat(np.arange(len(maps)), np.diff(offsets))
        self._names = as_binary(maps.keys[first:last])
        self._values = as_binary(maps.items[first:last])
        is_there = maps.is_valid().to_numpy(zero_copy_only=False)
        self._is_kept: Bools = is_there[self._rows] & (sizes_of(self._values) > 0)

    def leave_out(self, names: Sequence[str], rows: Bools | None = None) -> None:
        """Remove properties of these names, in these rows or in all."""
        is_named = self._is_named(names)
        self._is_kept &= ~is_named if rows is None else ~(is_named & rows[self._rows])

    def values_of(self, name: str) -> pa.Array | None:
        """Return the values of one property as a column; None if no row has it."""
        at = np.flatnonzero(self._is_named([name]) & self._is_kept)
        if len(at) == 0:
            return None
        found = np.full(self._rows_count, -1, np.int64)
        found[self._rows[at]] = at
        return self._values.take(pa.array(found, mask=found < 0))

    def fields(self) -> pa.Array:
        """Return the properties of each row."""
        kept = pa.array(np.flatnonzero(self._is_kept))
        entries = join_columns(self._names.take(kept), "\x01", self._values.take(kept), "\x02")
        if _count_low(entries) != 2 * len(entries):
            raise _forged(_first_forged(entries))
        counts = np.bincount(self._rows[self._is_kept], minlength=self._rows_count)
        ends = np.concatenate((np.zeros(1, np.int64), np.cumsum(counts)))
        return _column(offsets_of(entries)[ends], entries.buffers()[2])

    def _is_named(self, names: Sequence[str]) -> Bools:
        wanted = pa.array([name.encode() for name in names], _BINARY)
        found: Bools = pc.is_in(self._names, value_set=wanted).to_numpy(zero_copy_only=False)
        return found


def entries_of(bodies: pa.Array, properties: Sequence[pa.Array]) -> pa.Array:
    """Return the entries of messages with these bodies (not null) and the properties in columns of fields."""
    body_sizes = sizes_of(bodies)
    property_sizes = sum((sizes_of(each) for each in properties), np.zeros(len(bodies), np.int64))
    if len(bodies) and int(property_sizes.max()) > MAX_PROPERTIES_BYTES:
        largest = int(property_sizes.max())
        raise IllegalMessage(f"the properties take {largest} bytes, more than the {MAX_PROPERTIES_BYTES} allowed")
    heads = np.zeros(len(bodies), _HEAD)
    heads["size"] = _HEAD.itemsize + _LENGTH.itemsize + body_sizes + property_sizes
    heads["body"] = body_sizes
    lengths = property_sizes.astype(_LENGTH)
    return join_columns(
        of_width(heads.tobytes(), _HEAD.itemsize), bodies, of_width(lengths.tobytes(), _LENGTH.itemsize), *properties
    )


def texts_of(values: Ints) -> pa.Array:
    """Return numbers as decimal digits."""
    return as_binary(numbers(values, pa.int64()).cast(pa.string()))


def _constant(text: str) -> pa.Scalar:
    return pa.scalar(text.encode(), _BINARY)


def join_columns(*parts: pa.Array | str) -> pa.Array:
    """Concatenate the values of columns, and texts that are the same in all rows, row by row."""
    return pc.binary_join_element_wise(*[_constant(each) if isinstance(each, str) else each for each in parts], _EMPTY)


def _column(offsets: Ints, data: pa.Buffer | None) -> pa.Array:
    return pa.Array.from_buffers(_BINARY, len(offsets) - 1, [None, pa.py_buffer(offsets), data or pa.py_buffer(b"")])


def _low_places(values: pa.Array) -> Ints:
    """Return the positions of bytes 0, 1 and 2 in a column."""
    offsets, data = offsets_of(values), values.buffers()[2]
    if data is None or offsets[0] == offsets[-1]:
        return np.empty(0, np.int64)
    raw: Bytes = np.frombuffer(data, np.uint8)[offsets[0] : offsets[-1]]
    return np.flatnonzero(raw < _SEPARATORS)


def _count_low(values: pa.Array) -> int:
    return len(_low_places(values))


def _first_forged(entries: pa.Array) -> str:
    offsets = offsets_of(entries)
    rows = np.searchsorted(offsets, _low_places(entries) + offsets[0], side="right") - 1
    row = int(np.flatnonzero(np.bincount(rows) != 2)[0])
    return str(entries[row].as_py().partition(b"\x01")[0].decode("utf-8", "replace"))


def _forged(name: str) -> IllegalMessage:
    return IllegalMessage(
        f"property {name!r} holds a character 0, 1 or 2, which RocketMQ cannot store; encode it first"
    )
