"""The index file that takes new keys: its slots and its newest entries are in memory.

Slots are updated at random, so they are kept in one array (20 MB for five million) and written page by page at a flush;
new entries wait in memory until then. On disk the file changes only inside `flush`, so after a crash it is as old as
the checkpoint or one flush newer. A flush may fail or be cancelled at any step: a page counts as clean when it is
written, and written ranges are kept until their checksums are durable.

Invariant: ``slots[hash % len(slots)]`` is the newest entry of its chain, and the chain leads to ever smaller numbers.
"""

import struct
from array import array
from collections.abc import Iterable, Sequence
from itertools import chain, repeat
from sys import byteorder
from typing import Final

from firearrow.runtime.disk.door import File
from firearrow.runtime.turn import Pace
from firearrow.store.index.layout import (
    ENTRY,
    ENTRY_BYTES,
    FIRST_ENTRY,
    HEADER_BYTES,
    LARGEST_INT,
    SLOT_BYTES,
    Header,
    IndexEntry,
    Shape,
    decode_entry,
)

PAGE_BYTES: Final = 4096
WRITTEN_AT_ONCE: Final = 1 << 18
"""Bytes of slots or entries written before the work yields to the loop."""
_SLOTS_A_PAGE: Final = PAGE_BYTES // SLOT_BYTES
_PAGE_SHIFT: Final = _SLOTS_A_PAGE.bit_length() - 1
_OLDEST_MS: Final = LARGEST_INT * 1000

KeyPlace = tuple[int, int, int]
"""The unsigned hash of the key (before `key_hash.absolute`), physical offset, store time."""


class ActiveIndex:
    """The newest index file."""

    def __init__(self, name: str, shape: Shape, file: File, header: Header, slots: "array[int] | None" = None) -> None:
        self.name = name
        self.shape = shape
        self.file = file
        self.begin_ms, self.end_ms = header.begin_ms, header.end_ms
        self.begin_physical, self.end_physical = header.begin_physical, header.end_physical
        self.slots_used = header.slots_used
        self.count = header.next_number
        self.written = header.next_number
        """Entries below this number are in the file."""
        self.slots = slots if slots is not None else empty_slots(shape)
        self.unsummed: dict[tuple[int, int], None] = {}
        """Written byte ranges whose checksums are not durable yet."""
        self._waiting = bytearray()
        self._dirty = bytearray(shape.slots // _SLOTS_A_PAGE + 1)

    @property
    def header(self) -> Header:
        """The header of the file."""
        return Header(
            self.begin_ms, self.end_ms, self.begin_physical, self.end_physical, self.slots_used, max(self.count, 1)
        )

    @property
    def room(self) -> int:
        """The number of further keys that fit."""
        return self.shape.entries - self.count

    def put(self, keys: Sequence[KeyPlace]) -> None:
        """Add keys, in the order of the log; there must be `room` for them."""
        if self.count <= FIRST_ENTRY:
            _, self.begin_physical, self.begin_ms = keys[0]
        slots, dirty, begin_ms = self.slots, self._dirty, self.begin_ms
        size = len(slots)
        number, used = self.count, self.slots_used
        fields: list[int] = []
        for unsigned, physical, store_ms in keys:
            key_hash = unsigned if unsigned <= LARGEST_INT else -unsigned & LARGEST_INT
            slot = key_hash % size
            before = slots[slot]
            if not before:
                used += 1
            slots[slot] = number
            dirty[slot >> _PAGE_SHIFT] = 1
            age_ms = store_ms - begin_ms
            fields += (key_hash, physical, age_ms // 1000 if 0 <= age_ms < _OLDEST_MS else 0, before)
            number += 1
        self._waiting += struct.pack(">" + "iqii" * len(keys), *fields)
        self.count, self.slots_used = number, used
        _, self.end_physical, self.end_ms = keys[-1]

    def put_columns(self, columns: Sequence[Sequence[int]], places: Sequence[int], store_ms: int) -> None:
        """As `put`, for consecutive messages with one store time. Each column has a hash of every message."""
        if self.count <= FIRST_ENTRY:
            self.begin_physical, self.begin_ms = places[0], store_ms
        slots, dirty = self.slots, self._dirty
        keys, size, number = len(columns), len(self.slots), self.count
        hashes = [0] * (keys * len(places))
        for column, values in enumerate(columns):
            hashes[column::keys] = values
        hashes = [unsigned if unsigned <= LARGEST_INT else -unsigned & LARGEST_INT for unsigned in hashes]
        before: list[int] = []
        add = before.append
        for slot in [key_hash % size for key_hash in hashes]:
            add(slots[slot])
            slots[slot] = number
            dirty[slot >> _PAGE_SHIFT] = 1
            number += 1
        age_ms = store_ms - self.begin_ms
        seconds = age_ms // 1000 if 0 <= age_ms < _OLDEST_MS else 0
        physicals = places if keys == 1 else chain.from_iterable(zip(*repeat(places, keys), strict=True))
        self._waiting += b"".join(map(ENTRY.pack, hashes, physicals, repeat(seconds), before))
        self.count = number
        self.slots_used += before.count(0)
        self.end_physical, self.end_ms = places[-1], store_ms

    @property
    def waiting_bytes(self) -> int:
        """Bytes of entries that are not in the file yet."""
        return len(self._waiting)

    # ---- reading

    def newest_of(self, slot: int) -> int:
        """The newest entry of a chain; 0 when it is empty."""
        return self.slots[slot]

    def waiting_entry(self, number: int) -> IndexEntry:
        """An entry that is not in the file yet."""
        at = (number - self.written) * ENTRY_BYTES
        return decode_entry(bytes(self._waiting[at : at + ENTRY_BYTES]))

    # ---- flushing

    async def write_out(self, *, rests: bool = True) -> None:
        """Write entries, slots, then the header. They are not durable yet. Rests for others, unless at a start."""
        changed = self.unsummed
        header, waiting = self.header, self._waiting
        start = self.shape.entry_position(self.written)
        pace = Pace(WRITTEN_AT_ONCE, rests=rests)
        for at in range(0, len(waiting), WRITTEN_AT_ONCE):
            piece = bytes(waiting[at : at + WRITTEN_AT_ONCE])
            changed[start + at, start + at + len(piece)] = None
            self.file.write_at(start + at, [piece])
            await pace.did(len(piece))
        for first, last in self._dirty_runs():
            changed[self.shape.slot_position(first), self.shape.slot_position(last)] = None
            self._write_slots(first, last)
            await pace.did((last - first) * SLOT_BYTES)
        changed[0, HEADER_BYTES] = None
        self.file.write_at(0, [header.encode()])
        written = header.next_number - self.written
        del self._waiting[: written * ENTRY_BYTES]
        self.written = header.next_number

    def write_all_slots(self) -> None:
        """Make the next `write_out` write every slot, changed or not."""
        self._dirty = bytearray(b"\x01" * len(self._dirty))

    def _dirty_runs(self) -> Iterable[tuple[int, int]]:
        """Ranges of slots on changed pages; `_write_slots` must write each before the next is taken."""
        pages = self._dirty
        most = WRITTEN_AT_ONCE // PAGE_BYTES
        at = pages.find(1)
        while at >= 0:
            end = at
            while end < len(pages) and pages[end] and end - at < most:
                end += 1
            yield at * _SLOTS_A_PAGE, min(end * _SLOTS_A_PAGE, self.shape.slots)
            at = pages.find(1, end)

    def _write_slots(self, first: int, last: int) -> None:
        self.file.write_at(self.shape.slot_position(first), [big_endian(self.slots[first:last])])
        first_page, end_page = first // _SLOTS_A_PAGE, -(-last // _SLOTS_A_PAGE)
        self._dirty[first_page:end_page] = bytes(end_page - first_page)


def big_endian(numbers: "array[int]") -> bytes:
    """The numbers of an array as big-endian bytes."""
    if byteorder == "little":
        numbers.byteswap()
    return numbers.tobytes()


def from_big_endian(data: bytes) -> "array[int]":
    """The numbers in the bytes of a file."""
    numbers = array("i", data)
    if byteorder == "little":
        numbers.byteswap()
    return numbers


def empty_slots(shape: Shape) -> "array[int]":
    """Slots of a file without entries."""
    return array("i", bytes(shape.slots * SLOT_BYTES))


def link(entries: bytes, first: int, slots: "array[int]") -> tuple[int, list[tuple[int, bytes]]]:
    """Link entries ``first``, ``first + 1``, ... into empty slots.

    Return how many slots are in use, and corrected copies of the entries whose link was wrong.
    """
    size = len(slots)
    used = 0
    wrong: list[tuple[int, bytes]] = []
    for number, (key_hash, physical, seconds, before) in enumerate(ENTRY.iter_unpack(entries), first):
        slot = (key_hash & LARGEST_INT) % size
        expected = slots[slot]
        if not expected:
            used += 1
        if before != expected:
            wrong.append((number, ENTRY.pack(key_hash, physical, seconds, expected)))
        slots[slot] = number
    return used, wrong
