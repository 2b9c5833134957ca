"""The properties of many records as a map column, and single properties as text columns.

The properties of all records are concatenated, each ended by 0x02. Separators are found in one pass over the bytes; in
records of RocketMQ they alternate, 0x01 0x02 0x01 0x02. As in `record.properties`: entries without a key or a value are
left out, the first 0x01 of an entry ends its key, the last of equal keys wins, stamps are not properties, and bytes
that are not UTF-8 read as U+FFFD. Records with stamps in unusual positions or invalid text are rare: their properties
are rewritten one by one behind the buffer.
"""

from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from firearrow.columns.heads import Heads
from firearrow.columns.slices import numbers, parts_of, slices, structures
from firearrow.columns.starts import Bytes, Ints
from firearrow.record.properties import without_stamps
from firearrow.record.stamp import STAMP_KEY, STAMP_SIZE

Bools = npt.NDArray[np.bool_]

_STAMP: Final = np.dtype([("key", "V8"), ("one", "u1"), ("digits", "u1", 10), ("two", "u1")])
_STAMP_WORD: Final = int(np.frombuffer(STAMP_KEY[:8], np.uint64)[0])
_MOST_BITS: Final = 62
_WORD: Final = 8


class Properties:
    """The properties of the records of a buffer."""

    def __init__(self, heads: Heads) -> None:
        self._count = len(heads)
        self._data, begins, ends = _without_ordinary_stamps(heads)
        self._join(begins, ends)
        odd = self._odd_rows()
        if len(odd):
            self._write_anew(begins, ends, odd)
        self._split()

    # -- reading

    def _join(self, begins: Ints, ends: Ints) -> None:
        """Concatenate all properties, each ended by a separator; ``ends`` are their ends in the result."""
        data, full = self._data, ends > begins
        is_open = full & (data[np.where(full, ends - 1, 0)] != 2) if len(ends) else full
        if not is_open.any():
            column = slices(data, begins, ends, pa.binary())
            offsets, self._text = parts_of(column)
        else:
            if int(ends.max()) >= len(data):
                data = np.append(data, np.uint8(0))
            offsets, text = parts_of(slices(data, begins, ends + is_open, pa.binary()))
            self._text = text.copy()
            self._text[offsets[1:][is_open] - 1] = 2
        self._row_ends = offsets[1:]

    def _odd_rows(self) -> Ints:
        """Return the rows whose properties have a stamp in an unusual position, or are not UTF-8."""
        text = self._text
        odd = np.empty(0, np.int64)
        hashes = np.flatnonzero(text[:-1] == STAMP_KEY[7]) if len(text) else odd
        if len(hashes):
            stamps = hashes[text[hashes + 1] == 1]
            odd = np.searchsorted(self._row_ends, stamps, side="right")
        if len(text) and int(text.max()) >= 0x80 and not _is_utf8(text):
            odd = np.concatenate((odd, self._rows_of_broken_text()))
        return np.unique(odd)

    def _rows_of_broken_text(self) -> Ints:
        high = np.searchsorted(self._row_ends, np.flatnonzero(self._text >= 0x80), side="right")
        starts = np.concatenate(([0], self._row_ends[:-1]))
        broken = [row for row in np.unique(high) if not _is_utf8(self._text[starts[row] : self._row_ends[row]])]
        return np.array(broken, np.int64)

    def _write_anew(self, begins: Ints, ends: Ints, odd: Ints) -> None:
        begins, ends = begins.copy(), ends.copy()
        pieces, at = [self._data], len(self._data)
        for row in odd:
            raw = without_stamps(self._data[begins[row] : ends[row]].tobytes())
            clean = raw.decode("utf-8", "replace").encode()
            pieces.append(np.frombuffer(clean, np.uint8))
            begins[row], ends[row] = at, at + len(clean)
            at += len(clean)
        self._data = np.concatenate(pieces)
        self._join(begins, ends)

    # -- taking apart

    def _split(self) -> None:
        """Find the positions of keys and values, and their number up to each row."""
        text = self._text
        separators = np.flatnonzero(text < 3)
        kinds = text[separators]
        if len(kinds) and not kinds.all():
            separators, kinds = separators[kinds > 0], kinds[kinds > 0]
        if len(kinds) % 2 == 0 and (kinds[0::2] == 1).all() and (kinds[1::2] == 2).all():
            key_ends, entry_ends = separators[0::2], separators[1::2]
            key_starts = np.empty_like(entry_ends)
            if len(entry_ends):
                key_starts[0] = 0
                key_starts[1:] = entry_ends[:-1] + 1
            has_key: Bools = np.ones(len(entry_ends), bool)
        else:
            key_starts, key_ends, entry_ends, has_key = _taken_apart(separators, kinds)
        good = has_key & (key_ends > key_starts) & (entry_ends > key_ends + 1)
        if not good.all():
            key_starts, key_ends, entry_ends = key_starts[good], key_ends[good], entry_ends[good]
        self._places(key_starts, key_ends, entry_ends)

    def _places(self, key_starts: Ints, key_ends: Ints, entry_ends: Ints) -> None:
        self._key_starts, self._key_ends, self._entry_ends = key_starts, key_ends, entry_ends
        self._letters: npt.NDArray[np.uint64] | None = None
        self._up_to = np.zeros(self._count + 1, np.int32)
        self._up_to[1:] = np.searchsorted(entry_ends, self._row_ends)

    def _encoded_keys(self) -> pa.DictionaryArray:
        return slices(self._text, self._key_starts, self._key_ends, pa.string()).dictionary_encode()

    # -- columns

    def named(self, name: str) -> pa.Array:
        """Return the values of one property; null where a record does not have it."""
        hits = self._entries_of(name.encode())
        if len(hits) == 0:
            return pa.nulls(self._count, pa.string())
        values = slices(self._text, self._key_ends[hits] + 1, self._entry_ends[hits], pa.string())
        up_to = self._up_to
        if len(hits) == self._count and bool(((hits >= up_to[:-1]) & (hits < up_to[1:])).all()):
            return values  # every record has it exactly once
        chosen = np.full(self._count, -1, np.int32)
        chosen[np.searchsorted(self._up_to, hits, side="right") - 1] = np.arange(len(hits), dtype=np.int32)
        return values.take(pa.array(chosen, mask=chosen < 0))

    def _entries_of(self, key: bytes) -> Ints:
        """Return the entries with a key: compare length and first eight bytes first, then the whole key."""
        starts, text = self._key_starts, self._text
        wanted, kept = int.from_bytes(key[:_WORD].ljust(_WORD, b"\0"), "little"), min(len(key), _WORD)
        mask = (1 << 8 * kept) - 1
        is_it = (self._first_letters & np.uint64(mask)) == np.uint64(wanted)
        hits: Ints = np.flatnonzero(is_it & (self._key_ends - starts == len(key)))
        for place in range(_WORD, len(key)):
            hits = hits[text[starts[hits] + place] == key[place]]
        return hits

    @property
    def _first_letters(self) -> npt.NDArray[np.uint64]:
        """Return the first eight bytes of each key as little-endian numbers; behind short keys other bytes follow."""
        if self._letters is None:
            text = np.concatenate((self._text, np.zeros(_WORD, np.uint8)))
            self._letters = structures(text, self._key_starts, np.dtype(f"V{_WORD}")).view("<u8")
        return self._letters

    def as_map(self) -> pa.Array:
        """Return all properties as a map column."""
        encoded = self._encoded_keys()
        if self._keep_last(encoded):
            encoded = self._encoded_keys()
        keys = encoded.dictionary.take(encoded.indices)
        values = slices(self._text, self._key_ends + 1, self._entry_ends, pa.string())
        return pa.MapArray.from_arrays(numbers(self._up_to, pa.int32()), keys, values)

    def _keep_last(self, encoded: pa.DictionaryArray) -> bool:
        """Keep the last of equal keys of a record; return whether there were any."""
        codes, kinds = encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64), len(encoded.dictionary)
        rows = np.repeat(np.arange(self._count), np.diff(self._up_to))
        if kinds <= _MOST_BITS:
            filled = np.flatnonzero(np.diff(self._up_to))
            if len(filled) == 0:
                return False
            bits, begins = np.int64(1) << codes, self._up_to[:-1][filled]
            if (np.add.reduceat(bits, begins) == np.bitwise_or.reduceat(bits, begins)).all():
                return False
        names = rows * kinds + codes
        _, backwards = np.unique(names[::-1], return_index=True)
        if len(backwards) == len(names):
            return False
        kept = np.sort(len(names) - 1 - backwards)
        self._places(self._key_starts[kept], self._key_ends[kept], self._entry_ends[kept])
        return True


def _without_ordinary_stamps(heads: Heads) -> tuple[Bytes, Ints, Ints]:
    """Return the bounds of properties without a stamp as their last entry."""
    data, begins, ends = heads.data, heads.property_starts, heads.ends
    could = np.flatnonzero(ends - begins >= STAMP_SIZE)
    if len(could) == 0:
        return data, begins, ends
    at = ends[could] - STAMP_SIZE
    stamps = structures(data, at, _STAMP)
    words = np.ascontiguousarray(stamps["key"]).view(np.uint64)
    is_stamp = (words == _STAMP_WORD) & (stamps["one"] == 1) & (stamps["two"] == 2)
    if not is_stamp.any():
        return data, begins, ends
    digits = np.ascontiguousarray(stamps["digits"])
    if (digits == 2).any():
        is_stamp &= ~(digits == 2).any(axis=1)
    is_stamp &= (at == begins[could]) | (data[at - 1] == 2)
    if is_stamp.all() and len(could) == len(begins):
        return data, begins, ends - STAMP_SIZE
    shorter = ends.copy()
    shorter[could[is_stamp]] -= STAMP_SIZE
    return data, begins, shorter


def _taken_apart(separators: Ints, kinds: Bytes) -> tuple[Ints, Ints, Ints, Bools]:
    """Split entries if separators do not alternate: an entry ends at 0x02, its key at the first 0x01."""
    entry_ends, ones = separators[kinds == 2], separators[kinds == 1]
    key_starts = np.zeros_like(entry_ends)
    key_starts[1:] = entry_ends[:-1] + 1
    following = np.searchsorted(ones, key_starts)
    padded = np.append(ones, np.int64(1) << 40)
    key_ends = padded[following]
    has_key = key_ends < entry_ends
    return key_starts, np.where(has_key, key_ends, key_starts), entry_ends, has_key


def _is_utf8(text: Bytes) -> bool:
    try:
        text.tobytes().decode()
    except UnicodeDecodeError:
        return False
    return True
