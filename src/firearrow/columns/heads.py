"""The heads of many records at once: fixed fields as arrays, and the positions of the parts. See `record.layout`.

Every length is checked against the buffer, as in `record.decode.peek`; the first record that fails is passed to that
function, so that it is refused with the same text. Three of the four layouts (with IPv6 hosts) are rare; heads are
gathered by layout and merged.
"""

from typing import Final

import numpy as np
import numpy.typing as npt

from firearrow.columns.slices import structures
from firearrow.columns.starts import Bytes, Ints
from firearrow.errors import BadRecord, BrokenInvariant
from firearrow.model.flags import BORN_HOST_V6, HOST_V6_MASK, STORE_HOST_V6
from firearrow.record.decode import peek
from firearrow.record.layout import HEAD_SIZE, MAGIC_V1, MAGIC_V2, MAX_TOPIC_BYTES_V1, SMALLEST_RECORD, V6_EXTRA

_BEFORE_HOSTS: Final = (
    ("size", ">i4"), ("magic", ">u4"), ("body_crc", ">i4"), ("queue_id", ">i4"), ("flag", ">i4"),
    ("queue_offset", ">i8"), ("physical_offset", ">i8"), ("sys_flag", ">i4"), ("born_timestamp", ">i8"),
)  # fmt: skip
_AFTER_HOSTS: Final = (("reconsume_times", ">i4"), ("prepared_transaction_offset", ">i8"), ("body_length", ">i4"))


def _layout(sys_flag: int) -> np.dtype[np.void]:
    born = "V20" if sys_flag & BORN_HOST_V6 else "V8"
    store = "V20" if sys_flag & STORE_HOST_V6 else "V8"
    hosts = (("born_host", born), ("store_timestamp", ">i8"), ("store_host", store))
    return np.dtype([*_BEFORE_HOSTS, *hosts, *_AFTER_HOSTS])


LAYOUTS: Final = {bits: _layout(bits) for bits in (0, BORN_HOST_V6, STORE_HOST_V6, HOST_V6_MASK)}

Head = npt.NDArray[np.void]


class Heads:
    """The records of a buffer by their heads.

    ``rows_of`` has, for each layout that occurs, the numbers of its records and their heads.
    """

    def __init__(self, data: Bytes, starts: Ints) -> None:
        self.data = data
        self.starts = starts
        self.rows_of: dict[int, tuple[Ints | None, Head]] = {}
        self._read()
        self._find_parts()

    def __len__(self) -> int:
        return len(self.starts)

    def field(self, name: str, kind: npt.DTypeLike) -> npt.NDArray[np.generic]:
        """Return a fixed field of all records, in the machine's byte order."""
        if len(self.rows_of) == 1:
            return next(iter(self.rows_of.values()))[1][name].astype(kind)
        whole = np.empty(len(self.starts), kind)
        for rows, heads in self.rows_of.values():
            whole[rows] = heads[name]
        return whole

    def longs(self, name: str) -> Ints:
        """Return a fixed field of all records as 64-bit numbers."""
        return self.field(name, np.int64).view(np.int64)

    def _read(self) -> None:
        data, starts = self.data, self.starts
        if len(starts) == 0:
            return
        if int(starts.min()) < 0 or int(starts.max()) + SMALLEST_RECORD > len(data):
            self._refuse((starts < 0) | (starts + SMALLEST_RECORD > len(data)))
        plain = structures(data, starts, LAYOUTS[0])
        layouts = plain["sys_flag"] & HOST_V6_MASK
        if not layouts.any():
            self.rows_of[0] = (None, plain)
            return
        for bits, layout in LAYOUTS.items():
            rows = np.flatnonzero(layouts == bits)
            if len(rows):
                self._refuse_at(starts, rows, starts[rows] + SMALLEST_RECORD + layout.itemsize - HEAD_SIZE > len(data))
                self.rows_of[bits] = (rows, structures(data, starts[rows], layout))

    def _find_parts(self) -> None:
        """Find the positions of body, topic and properties of each record."""
        data, starts = self.data, self.starts
        size = self.longs("size") if len(starts) else starts
        self.ends = ends = starts + size
        if len(starts) == 0:
            self.body_starts = self.body_ends = self.topic_starts = self.topic_ends = self.property_starts = starts
            return
        bad = (size < SMALLEST_RECORD) | (ends > len(data))
        sys_flag = self.longs("sys_flag")
        extra: Ints | int = 0
        if len(self.rows_of) > 1 or 0 not in self.rows_of:
            extra = V6_EXTRA * (((sys_flag & BORN_HOST_V6) != 0).astype(np.int64) + ((sys_flag & STORE_HOST_V6) != 0))
            bad |= starts + SMALLEST_RECORD + extra > ends
        length = self.longs("body_length")
        self.body_starts = body_starts = starts + HEAD_SIZE + extra
        self.body_ends = topic_at = body_starts + length
        bad |= (length < 0) | (topic_at + 3 > ends)
        topic_at = np.where(bad, 0, topic_at)
        is_long, topic_length, more_bad = self._topic_lengths(topic_at)
        bad |= more_bad
        self.topic_starts = topic_starts = topic_at + 1 + is_long
        self.topic_ends = properties_at = topic_starts + topic_length
        bad |= properties_at + 2 > ends
        properties_at = np.where(bad, 0, properties_at)
        length = (data[properties_at].astype(np.int64) << 8) | data[properties_at + 1]
        self.property_starts = properties_at + 2
        bad |= (length >= 0x8000) | (properties_at + 2 + length != ends)
        self._refuse(bad)

    def _topic_lengths(self, topic_at: Ints) -> tuple[Ints, Ints, npt.NDArray[np.bool_]]:
        magic = self.longs("magic")
        length = self.data[topic_at].astype(np.int64)
        is_long = magic == MAGIC_V2
        if not is_long.any():
            return is_long.astype(np.int64), length, (magic != MAGIC_V1) | (length > MAX_TOPIC_BYTES_V1)
        bad = (~is_long & (length > MAX_TOPIC_BYTES_V1)) | ((magic != MAGIC_V1) & ~is_long)
        length = np.where(is_long, (length << 8) | self.data[topic_at + 1], length)
        return is_long.astype(np.int64), length, bad | (length >= 0x8000)

    def _refuse_at(self, starts: Ints, rows: Ints, bad: npt.NDArray[np.bool_]) -> None:
        if bad.any():
            everywhere = np.zeros(len(starts), bool)
            everywhere[rows[bad]] = True
            self._refuse(everywhere)

    def _refuse(self, bad: npt.NDArray[np.bool_]) -> None:
        if bad.any():
            refuse(self.data, self.starts[bad])


def refuse(data: Bytes, starts: Ints) -> None:
    """Raise the record decoder's error for the first bad one of some records."""
    for start in starts.tolist():
        if not 0 <= start <= len(data):
            raise BadRecord(f"the buffer of {len(data)} bytes does not hold that place", offset=start)
        peek(data.data, start)
    raise BrokenInvariant(f"a record is refused as a row of a column and taken by itself; starts: {starts[:10]}")
