"""The bytes of a key index file.

::

    header 40: begin time 8, end time 8, begin physical 8, end physical 8, slots used 4, count 4
    slots:     number of the newest entry of each chain, 4 bytes each; 0 ends
    entries:   key hash 4, physical offset 8, seconds since the begin time 4, number of the entry before in the chain 4

Entry 0 is never used, so the count, here ``next_number``, is one more than the number of entries. The hash is the
absolute value of the hash of ``topic#key``; its slot is the hash modulo the number of slots. The file is sparse and has
its full length from the start. Java: ``IndexFile``, ``IndexHeader``.
"""

import struct
from typing import Final, NamedTuple

HEADER = struct.Struct(">qqqqii")
HEADER_BYTES: Final = HEADER.size
SLOT_BYTES: Final = 4
ENTRY = struct.Struct(">iqii")
ENTRY_BYTES: Final = ENTRY.size
FIRST_ENTRY: Final = 1
LARGEST_INT: Final = 0x7FFFFFFF


class Shape(NamedTuple):
    """The number of slots and entries of index files."""

    slots: int
    entries: int

    @property
    def file_bytes(self) -> int:
        """The length of a file."""
        return self.entries_start + self.entries * ENTRY_BYTES

    @property
    def entries_start(self) -> int:
        """The position of entry 0."""
        return HEADER_BYTES + self.slots * SLOT_BYTES

    def slot_position(self, slot: int) -> int:
        """The position of a slot."""
        return HEADER_BYTES + slot * SLOT_BYTES

    def entry_position(self, number: int) -> int:
        """The position of an entry."""
        return HEADER_BYTES + self.slots * SLOT_BYTES + number * ENTRY_BYTES


class Header(NamedTuple):
    """The header of an index file."""

    begin_ms: int = 0
    end_ms: int = 0
    begin_physical: int = 0
    end_physical: int = 0
    slots_used: int = 0
    next_number: int = FIRST_ENTRY

    def encode(self) -> bytes:
        """The 40 bytes."""
        return HEADER.pack(*self)


def decode_header(data: bytes) -> Header:
    """The header in the first bytes of a file; an empty header when there are too few bytes."""
    if len(data) < HEADER_BYTES:
        return Header()
    header = Header(*HEADER.unpack_from(data))
    return header if header.next_number >= FIRST_ENTRY else header._replace(next_number=FIRST_ENTRY)


class IndexEntry(NamedTuple):
    """One key of one message."""

    key_hash: int
    physical: int
    seconds: int
    before: int


def decode_entry(data: bytes) -> IndexEntry:
    """The entry in 20 bytes."""
    return IndexEntry(*ENTRY.unpack(data))


def name_after(last: str, now: str) -> str:
    """The name of a new file: the time, or a name behind ``last`` if the time would sort before it."""
    if now > last:
        return now
    return f"{int(last) + 1:017d}" if last.isdigit() else f"{last}1"
