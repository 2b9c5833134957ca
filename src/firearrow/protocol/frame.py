"""Splitting a byte stream into frames.

On the wire, all integers big-endian (Java: ``NettyDecoder``, ``RemotingCommand.decode``)::

    | length: u32 | encoding: u8 | header length: u24 | header ... | body ... |

``length`` counts the bytes after itself, so it is at least 4, and the body has ``length - 4 - header length`` bytes.

Invariants:

* the frames do not depend on how the network split the stream;
* a length is checked as soon as its bytes have arrived, before anything is kept or allocated for the frame;
* bytes kept for an incomplete frame are copied an amortised constant number of times, however small the pieces;
* frames before a fault are delivered; frames after a fault are not, because their boundaries are unknown.
"""

import struct
from typing import Final

import msgspec

from firearrow.errors import BadFrame

FRAME_MAX: Final = 16 * 1024 * 1024
"""Apache's limit (``com.rocketmq.remoting.frameMaxLength``), which counts the four bytes of the length too."""

HEADER_MAX: Final = 0xFFFFFF
PREFIX_SIZE: Final = 8
LENGTH_SIZE: Final = 4
WORD_SIZE: Final = 4
PREFIX: Final = struct.Struct(">II")

_SPEAKS_HTTP: Final = "what came is HTTP: a web server or its client is there; check the address"
_SPEAKS_TLS: Final = "what came is TLS: connect with it (tls, --tls), or check the address"
_STRANGERS: Final = {
    int.from_bytes(b"HT"): _SPEAKS_HTTP,
    int.from_bytes(b"GE"): _SPEAKS_HTTP,
    int.from_bytes(b"PO"): _SPEAKS_HTTP,
    0x1503: _SPEAKS_TLS,
    0x1603: _SPEAKS_TLS,
}
"""Other protocols that answer at a mistaken address, by their first two bytes, which no legal frame begins with."""


class FrameLimits(msgspec.Struct, frozen=True):
    """The largest sizes of a peer's frames. The defaults accept whatever Apache accepts."""

    frame_max: int = FRAME_MAX
    header_max: int = FRAME_MAX


Frame = tuple[int, bytes, bytes]
"""One command as it travelled: the header's encoding (0 JSON, 1 compact), the header, the body."""


class FrameSplitter:
    """Collects the pieces of a stream and returns the frames that they complete.

    ``fault`` is None while the stream is valid. Once it is set the connection must end: ``feed`` returns nothing more.
    """

    def __init__(self, limits: FrameLimits | None = None) -> None:
        self._limits = limits or FrameLimits()
        self._kept = bytearray()
        self._wanted = PREFIX_SIZE
        self.kept = 0
        """Bytes held for a frame that is not complete yet."""
        self.fault: BadFrame | None = None

    def feed(self, data: bytes) -> list[Frame]:
        """Take the next piece of the stream; return the frames that are now complete."""
        if self.fault is not None:
            return []
        if self.kept:
            self._kept += data
            self.kept = len(self._kept)
            if self.kept < self._wanted:
                return []
            data = bytes(self._kept)
            self._kept = bytearray()
            self.kept = 0
        frames: list[Frame] = []
        at, size, wanted = 0, len(data), PREFIX_SIZE
        longest, longest_header = self._limits.frame_max - LENGTH_SIZE, self._limits.header_max
        while size - at >= PREFIX_SIZE:
            length, word = PREFIX.unpack_from(data, at)
            header_size = word & 0xFFFFFF
            if length > longest or header_size > length - WORD_SIZE or header_size > longest_header or word >> 25:
                self.fault = self._explain(length, word)
                return frames
            end = at + LENGTH_SIZE + length
            if end > size:
                wanted = LENGTH_SIZE + length
                break
            body_at = at + PREFIX_SIZE + header_size
            frames.append((word >> 24, data[at + PREFIX_SIZE : body_at], data[body_at:end]))
            at = end
        if at < size:
            self._kept += data[at:] if at else data
            self.kept = size - at
        self._wanted = wanted
        return frames

    def _explain(self, length: int, word: int) -> BadFrame:
        header_size, encoding = word & 0xFFFFFF, word >> 24
        if (stranger := _STRANGERS.get(length >> 16)) is not None:
            return BadFrame(stranger)
        if length + LENGTH_SIZE > self._limits.frame_max:
            return BadFrame(f"a frame of {length + LENGTH_SIZE} bytes exceeds the limit of {self._limits.frame_max}")
        if encoding not in (0, 1):
            return BadFrame(f"header encoding {encoding} is unknown: 0 is JSON, 1 is compact")
        if header_size > length - WORD_SIZE:
            return BadFrame(f"a header of {header_size} bytes does not fit into a frame of length {length}")
        return BadFrame(f"a header of {header_size} bytes exceeds the limit of {self._limits.header_max}")


def prefix(encoding: int, header_size: int, body_size: int) -> bytes:
    """Return the eight bytes before a header; raise ``BadFrame`` when the header is too long for its 24 bits."""
    if header_size > HEADER_MAX:
        raise too_long(header_size)
    return PREFIX.pack(WORD_SIZE + header_size + body_size, encoding << 24 | header_size)


def too_long(header_size: int) -> BadFrame:
    """Return the error for a header that we encode and that is too long for a frame."""
    return BadFrame(f"a header of {header_size} bytes does not fit into a frame: the limit is {HEADER_MAX}")
