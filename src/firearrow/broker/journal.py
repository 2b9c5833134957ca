"""The bytes of a journal: what changed in a table since its file was last written whole. Pure.

A record, big-endian; every record is written twice in a row, so that one rotten bit costs nothing::

    0 magic 4 "FAJ1"   12 kind 1     17 CRC-32 of the payload 4   25 payload
    4 number 8         13 length 4   21 CRC-32 of 0..20 4

Numbers count up from one. Two kinds: *changes*, lines of the table's own making, and an *edition*: a whole file, known
by its size and checksum, that holds every change up to a number. A file that is no edition of the journal was written
by somebody else, and the journal does not belong to it.

Whatever the bytes are, `read_journal` takes work in proportion to them, and raises nothing.
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
    """A whole file as it was written."""

    size: int
    crc: int
    holds: int = 0
    """The number of the last record whose changes are in it."""

    def is_of(self, data: bytes) -> bool:
        """Whether these bytes are the edition."""
        return len(data) == self.size and crc32(data) == self.crc


class Record(NamedTuple):
    """One record, read."""

    number: int
    kind: int
    payload: bytes


class Journal(NamedTuple):
    """What a journal says."""

    editions: tuple[Edition, ...] = ()
    changes: tuple[tuple[int, tuple[bytes, ...]], ...] = ()
    """Lines, with the number of their record."""
    lost: int = 0
    """How many records before the last cannot be read: rot took both copies."""

    def edition_of(self, data: bytes) -> Edition | None:
        """The newest edition that these bytes are."""
        return next((one for one in reversed(self.editions) if one.is_of(data)), None)

    def since(self, edition: Edition) -> list[bytes]:
        """The lines that are not in an edition, in order."""
        return [line for number, lines in self.changes if number > edition.holds for line in lines]


def encode_record(number: int, kind: int, payload: bytes) -> bytes:
    """A record and its copy."""
    head = _HEAD.pack(_MAGIC, number, kind, len(payload), crc32(payload))
    return b"".join((head, _CRC.pack(crc32(head)), payload)) * 2


def encode_changes(number: int, lines: Sequence[bytes]) -> bytes:
    """A record of lines, none of which holds a line feed."""
    return encode_record(number, CHANGES, b"\n".join(lines))


def encode_edition(number: int, edition: Edition) -> bytes:
    """A record of a whole file."""
    return encode_record(number, EDITION, msgspec.json.encode(edition))


def read_journal(data: bytes) -> Journal:
    """What can be read; a torn end is no loss, for nobody was told that it is durable."""
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
    return Journal(tuple(editions), tuple(changes), lost)


def _records(data: bytes) -> dict[int, Record]:
    """Every record that is whole, once, in the order of their numbers."""
    found: dict[int, Record] = {}
    at = data.find(_MAGIC)
    while at >= 0:
        record = _record_at(data, at)
        if record is None:
            at = data.find(_MAGIC, at + 1)
        else:
            found.setdefault(record.number, record)  # the second time it is the copy
            at = data.find(_MAGIC, at + _HEAD_BYTES + len(record.payload))
    return dict(sorted(found.items()))


def _record_at(data: bytes, at: int) -> Record | None:
    head = data[at : at + _HEAD.size]
    seal = data[at + _HEAD.size : at + _HEAD_BYTES]
    if len(seal) < _CRC.size or _CRC.unpack(seal)[0] != crc32(head):
        return None
    _, number, kind, length, crc = _HEAD.unpack(head)
    payload = data[at + _HEAD_BYTES : at + _HEAD_BYTES + length]
    if len(payload) < length or crc32(payload) != crc or kind not in (CHANGES, EDITION) or number == 0:
        return None
    return Record(number, kind, payload)


def _edition(payload: bytes) -> Edition | None:
    try:
        return msgspec.json.decode(payload, type=Edition)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
