"""The bytes of our own small files, which Apache ignores. Pure.

The flush slot, 84 bytes, big-endian; two of them live in ``firearrow/flushed``, at 0 and 4096::

    0 magic 8 "FAFLUSH1"   16 flushed 8    32 state 1 (0 open, 1 closed)   36 checkpoint CRC 4   80 CRC-32 4
    8 number 8             24 boundary 8   33 zero 3                       40 boot id 40         of 0..79

Sealed JSON: 8 hexadecimal digits and a line feed, the CRC-32 of everything after; then JSON.
"""

import struct
from typing import Final
from zlib import crc32

from msgspec import Struct

SLOT_SPACING: Final = 4096
SLOT_FILE_BYTES: Final = 2 * SLOT_SPACING

_MAGIC: Final = b"FAFLUSH1"
_SLOT = struct.Struct(">8sqqqB3xI40s")
_CRC = struct.Struct(">I")
_SLOT_BYTES: Final = _SLOT.size + _CRC.size
_SEAL_BYTES: Final = 9


class FlushSlot(Struct, frozen=True):
    """The offset up to which the log is known to be durable, and the boot of the machine that wrote it."""

    number: int
    flushed: int
    boundary: int
    closed: bool
    checkpoint_crc: int
    boot_id: str

    def encode(self) -> bytes:
        """The bytes of the slot."""
        boot = self.boot_id.encode()[:40]
        body = _SLOT.pack(_MAGIC, self.number, self.flushed, self.boundary, self.closed, self.checkpoint_crc, boot)
        return body + _CRC.pack(crc32(body))


def newest_slot(data: bytes) -> FlushSlot | None:
    """The newer slot in the bytes of the file; None when both are invalid."""
    found = [slot for position in (0, SLOT_SPACING) if (slot := _slot_at(data, position)) is not None]
    return max(found, key=lambda slot: slot.number) if found else None


def older_position(data: bytes) -> int:
    """The position of the older or invalid slot, which may be overwritten."""
    second = _slot_at(data, SLOT_SPACING)
    return 0 if second is not None and second == newest_slot(data) else SLOT_SPACING


def _slot_at(data: bytes, position: int) -> FlushSlot | None:
    raw = data[position : position + _SLOT_BYTES]
    if len(raw) < _SLOT_BYTES or _CRC.unpack_from(raw, _SLOT.size)[0] != crc32(raw[: _SLOT.size]):
        return None
    magic, number, flushed, boundary, closed, checkpoint_crc, boot = _SLOT.unpack_from(raw)
    if magic != _MAGIC:
        return None
    return FlushSlot(
        number, flushed, boundary, closed == 1, checkpoint_crc, boot.rstrip(b"\0").decode(errors="replace")
    )


def seal(body: bytes) -> bytes:
    """The contents of a sealed file."""
    return b"%08x\n%b" % (crc32(body), body)


def unseal(data: bytes) -> bytes | None:
    """The body of a sealed file, or None when the checksum is wrong."""
    body = data[_SEAL_BYTES:]
    return body if data[:_SEAL_BYTES] == b"%08x\n" % crc32(body) else None
