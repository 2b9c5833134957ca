"""Requests as bytes, so that nothing between the test and the server is cleverer than it should be."""

import json
import socket
import struct
from types import TracebackType
from typing import Any, NamedTuple, Self

from firearrow import fastjson
from firearrow.protocol.serialize import ext_fields, read_heading

JSON, COMPACT = 0, 1
TIMEOUT_S = 3.0


class Said(NamedTuple):
    """An answer, decoded and put in order; ``code`` is None when none came."""

    code: int | None
    fields: dict[str, str]
    body: Any
    remark: str | None


class Wire:
    """One connection to a server."""

    def __init__(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        self._socket = socket.create_connection((host, int(port)), TIMEOUT_S)
        self._opaque = 0

    def ask(
        self,
        code: int,
        ext: dict[str, Any] | None = None,
        body: bytes = b"",
        *,
        version: int = 513,
        encoding: int = JSON,
        silent: bool = False,
    ) -> Said:
        """Ask; with ``silent`` a server that says nothing is not waited for long."""
        self._opaque += 1
        header = (
            _compact(code, self._opaque, version, ext or {}) if encoding else _json(code, self._opaque, version, ext)
        )
        length = struct.pack(">II", 4 + len(header) + len(body), encoding << 24 | len(header))
        self._socket.sendall(length + header + body)
        self._socket.settimeout(0.3 if silent else TIMEOUT_S)
        try:
            return self._hear()
        except TimeoutError:
            return Said(None, {}, None, None)

    def _hear(self) -> Said:
        frame = self._exactly(int.from_bytes(self._exactly(4), "big"))
        encoding, size = frame[0], int.from_bytes(frame[1:4], "big")
        header, body = frame[4 : 4 + size], frame[4 + size :]
        heading = read_heading(encoding, header)[0]
        return Said(heading.code, ext_fields(encoding, header), ordered(body), heading.remark)

    def _exactly(self, size: int) -> bytes:
        read = bytearray()
        while len(read) < size:
            chunk = self._socket.recv(size - len(read))
            if not chunk:
                raise ConnectionResetError("the server closed the connection")
            read += chunk
        return bytes(read)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._socket.close()


def _json(code: int, opaque: int, version: int, ext: dict[str, Any] | None) -> bytes:
    members = {"code": code, "flag": 0, "language": "JAVA", "opaque": opaque, "version": version}
    return json.dumps(members if ext is None else {**members, "extFields": ext}).encode()


def _compact(code: int, opaque: int, version: int, ext: dict[str, Any]) -> bytes:
    pairs = [(name.encode(), str(value).encode()) for name, value in ext.items()]
    fields = b"".join(struct.pack(">h", len(n)) + n + struct.pack(">i", len(v)) + v for n, v in pairs)
    return struct.pack(">hbhiii", code, 0, version, opaque, 0, 0) + struct.pack(">i", len(fields)) + fields


def ordered(body: bytes) -> Any:
    """A body in one of its equal forms: JSON with sorted lists, properties as a map, nothing as None."""
    if not body:
        return None
    if body[:1] == b"{":
        return _sorted(fastjson.read(body))
    return dict(line.split("=", 1) for line in body.decode().splitlines())


def _sorted(value: Any) -> Any:
    if isinstance(value, dict):
        return {getattr(key, "text", str(key)): _sorted(part) for key, part in value.items()}
    if isinstance(value, list):
        return sorted((_sorted(part) for part in value), key=lambda part: json.dumps(part, sort_keys=True))
    return value
