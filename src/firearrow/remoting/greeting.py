"""The first bytes of a connection: a PROXY preamble, TLS, or plain frames.

A plain frame opens with its length, so its first byte is 0x00 or 0x01 for every legal size. So the first bytes tell the
three apart::

    0x16                      a TLS handshake record
    "PROXY "                  PROXY protocol version 1: one line of text, at most 107 bytes, ended by CR LF
    CR LF CR LF 00 CR LF "QUIT" LF   version 2: then version and command (1), family (1), length (2), addresses, TLVs
    anything else             plain frames

A PROXY preamble may be followed by TLS or by plain frames. Agrees with ``HandshakeHandler`` and ``TlsModeHandler`` in
Apache's ``NettyRemotingServer``, except that a preamble is believed only where the limits say so.

Invariants: no byte is lost or seen twice (``Opening.rest`` begins where the preamble ended); at most one preamble is
read; nothing is buffered past the longest legal preamble.
"""

from enum import Enum
from ipaddress import ip_address
from typing import Final, NamedTuple

from firearrow.errors import BadFrame
from firearrow.runtime.network import Address
from firearrow.runtime.tls import TLS_HANDSHAKE

_V1: Final = b"PROXY "
_V1_LONGEST: Final = 107
_V2: Final = b"\r\n\r\n\x00\r\nQUIT\n"
_V2_FIXED: Final = 16
_V2_SOURCES: Final = {0x11: 4, 0x21: 16}  # family and transport: TCP over IPv4, TCP over IPv6


class StreamKind(Enum):
    """The stream that follows the preamble, if there is one."""

    PLAIN = "plain"
    TLS = "tls"


class Opening(NamedTuple):
    """The opening of a connection. ``source`` is the client's address if a load balancer gave it, else None."""

    kind: StreamKind
    source: Address | None
    rest: bytes


class Greeting:
    """Collects bytes until they show how the connection opens."""

    __slots__ = ("_buffer", "_proxy_protocol")

    def __init__(self, *, proxy_protocol: bool) -> None:
        self._proxy_protocol = proxy_protocol
        self._buffer = b""

    def feed(self, data: bytes) -> Opening | None:
        """Return the opening, or None while more bytes are needed; raise ``BadFrame`` on a bad preamble."""
        buffer = self._buffer = self._buffer + data if self._buffer else data
        if not buffer:
            return None
        if not (_starts(buffer, _V1) or _starts(buffer, _V2)):
            return _after_preamble(buffer, None)
        if not self._proxy_protocol:
            raise BadFrame("the connection opens with a PROXY preamble, which proxy_protocol does not allow here")
        if len(buffer) < len(_V2 if buffer[0] == _V2[0] else _V1):
            return None
        found = _version_2(buffer) if buffer[0] == _V2[0] else _version_1(buffer)
        if found is None:
            return None
        source, length = found
        # The byte after the preamble decides between TLS and plain frames: while it is missing, keep everything.
        return _after_preamble(buffer[length:], source) if length < len(buffer) else None


def _starts(buffer: bytes, signature: bytes) -> bool:
    return signature.startswith(buffer[: len(signature)])


def _after_preamble(rest: bytes, source: Address | None) -> Opening:
    return Opening(StreamKind.TLS if rest[0] == TLS_HANDSHAKE else StreamKind.PLAIN, source, rest)


def _version_1(buffer: bytes) -> tuple[Address | None, int] | None:
    """Return the source and the preamble's length, or None while its line is incomplete."""
    end = buffer.find(b"\r\n", 0, _V1_LONGEST)
    if end < 0:
        if len(buffer) >= _V1_LONGEST:
            raise BadFrame(f"a PROXY preamble has no end within {_V1_LONGEST} bytes")
        return None
    words = buffer[:end].split(b" ")
    if words[1] == b"UNKNOWN":
        return None, end + 2
    if len(words) != 6 or words[1] not in (b"TCP4", b"TCP6"):
        raise BadFrame(f"a PROXY preamble is not one of TCP4, TCP6 or UNKNOWN: {buffer[:end]!r}")
    try:
        host = str(ip_address(words[2].decode("ascii")))
        port = int(words[4]) if words[4].isdigit() else -1
    except ValueError as error:
        raise BadFrame(f"a PROXY preamble names no address: {buffer[:end]!r}") from error
    return _source(host, port), end + 2


def _version_2(buffer: bytes) -> tuple[Address | None, int] | None:
    """Return the source and the preamble's length, or None while the preamble is incomplete."""
    if len(buffer) < _V2_FIXED:
        return None
    command, family = buffer[12], buffer[13]
    length = _V2_FIXED + int.from_bytes(buffer[14:16], "big")
    if command not in (0x20, 0x21):
        raise BadFrame(f"a PROXY preamble has version and command {command:#x}; 0x20 and 0x21 are known")
    if len(buffer) < length:
        return None
    width = _V2_SOURCES.get(family, 0)
    if command == 0x20 or not width:  # a health check of the balancer itself, or an address that is not TCP
        return None, length
    if length < _V2_FIXED + 2 * width + 4:
        raise BadFrame("a PROXY preamble is too short for its addresses")
    ports = _V2_FIXED + 2 * width
    host = str(ip_address(buffer[_V2_FIXED : _V2_FIXED + width]))
    return _source(host, int.from_bytes(buffer[ports : ports + 2], "big")), length


def _source(host: str, port: int) -> Address:
    if not 0 <= port <= 65535:
        raise BadFrame(f"a PROXY preamble names port {port}")
    return Address(host, port)
