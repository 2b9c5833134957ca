"""The byte format of a journal: the changes of a table since its file was last written whole. Pure.

A record, big-endian; every record is written twice in a row, so that one rotten bit loses nothing::

    0 magic 4 "FAJ1"   12 kind 1     17 CRC-32 of the payload 4   25 payload
    4 number 8         13 length 4   21 CRC-32 of 0..20 4

Numbers count up from one. There are two kinds of records: *changes*, lines in the table's own format, and an *edition*:
the size and checksum of a whole file that holds every change up to a record number. A file that matches no edition of
the journal was written by another program, and the journal is not applied to it.

`read_journal` takes time linear in the bytes and raises nothing, whatever the bytes are.
"""

import struct
from collections.abc import Sequence
from typing import Final, NamedTuple
from zlib import crc32

import msgspec

CHANGES: Final = 0
EDITION: Final = 1

_MAGIC: Final = b"FAJ1"
_HEAD = struct.Struct(">4sQBII")
_CRC = struct.Struct(">I")
_HEAD_BYTES: Final = _HEAD.size + _CRC.size


class Edition(msgspec.Struct, frozen=True):
    """The size and checksum of a whole file."""

    size: int
    crc: int
    holds: int = 0
    """The number of the last record whose changes the file holds."""

    def is_of(self, data: bytes) -> bool:
        """Whether ``data`` is the file of this edition."""
        return len(data) == self.size and crc32(data) == self.crc


class JournalRecord(NamedTuple):
    """One decoded record."""

    number: int
    kind: int
    payload: bytes


class DecodedJournal(NamedTuple):
    """A decoded journal."""

    editions: tuple[Edition, ...] = ()
    changes: tuple[tuple[int, tuple[bytes, ...]], ...] = ()
    """The lines of every record of changes, with the number of the record."""
    lost: int = 0
    """The number of records before the last that cannot be read: both copies have rotted."""

    def edition_of(self, data: bytes) -> Edition | None:
        """Return the newest edition that matches ``data``; None when no edition does."""
        return next((one for one in reversed(self.editions) if one.is_of(data)), None)

    def since(self, edition: Edition) -> list[bytes]:
        """Return the lines that an edition does not hold, in order."""
        return [line for number, lines in self.changes if number > edition.holds for line in lines]


def encode_record(number: int, kind: int, payload: bytes) -> bytes:
    """Encode a record and its copy."""
    head = _HEAD.pack(_MAGIC, number, kind, len(payload), crc32(payload))
    return b"".join((head, _CRC.pack(crc32(head)), payload)) * 2


def encode_changes(number: int, lines: Sequence[bytes]) -> bytes:
    """Encode a record of lines; no line holds a line feed."""
    return encode_record(number, CHANGES, b"\n".join(lines))


def encode_edition(number: int, edition: Edition) -> bytes:
    """Encode the record of an edition."""
    return encode_record(number, EDITION, msgspec.json.encode(edition))


def read_journal(data: bytes) -> DecodedJournal:
    """Decode every readable record; a torn end is not counted as lost, because it was never reported as durable."""
    records = _records(data)
    editions, changes = [], []
    for record in records.values():
        if record.kind == EDITION:
            edition = _edition(record.payload)
            if edition is not None:
                editions.append(edition)
        else:
            changes.append((record.number, tuple(record.payload.split(b"\n"))))
    lost = max(records) - len(records) if records else 0
    return DecodedJournal(tuple(editions), tuple(changes), lost)


def _records(data: bytes) -> dict[int, JournalRecord]:
    """Return every intact record once, in the order of the numbers."""
    found: dict[int, JournalRecord] = {}
    at = data.find(_MAGIC)
    while at >= 0:
        record = _record_at(data, at)
        if record is None:
            at = data.find(_MAGIC, at + 1)
        else:
            found.setdefault(record.number, record)  # a second record of that number is the copy
            at = data.find(_MAGIC, at + _HEAD_BYTES + len(record.payload))
    return dict(sorted(found.items()))


def _record_at(data: bytes, at: int) -> JournalRecord | None:
    head = data[at : at + _HEAD.size]
    seal = data[at + _HEAD.size : at + _HEAD_BYTES]
    if len(seal) < _CRC.size or _CRC.unpack(seal)[0] != crc32(head):
        return None
    _, number, kind, length, crc = _HEAD.unpack(head)
    payload = data[at + _HEAD_BYTES : at + _HEAD_BYTES + length]
    if len(payload) < length or crc32(payload) != crc or kind not in (CHANGES, EDITION) or number == 0:
        return None
    return JournalRecord(number, kind, payload)


def _edition(payload: bytes) -> Edition | None:
    try:
        return msgspec.json.decode(payload, type=Edition)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
