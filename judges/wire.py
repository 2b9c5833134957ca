"""One blocking request in Apache's remoting protocol, enough to ask a server whether it is there and to make a topic.

Written apart from `firearrow.protocol` on purpose: what judges the protocol should not lean on it.

Frame: total length (4), encoding (1, 0 = JSON) and header length (3), header, body; integers big-endian, the
total without its own four bytes (RemotingCommand.encode).
"""

import json
import socket
from dataclasses import dataclass
from typing import Any

GET_CLUSTER = 106
GET_MAX_OFFSET = 30
QUERY_CONSUMER_OFFSET = 14
GET_ROUTE = 105
UPDATE_TOPIC = 17
UPDATE_BROKER_SETTINGS = 25
GET_BROKER_SETTINGS = 26
SUCCESS = 0
DEFAULT_TIMEOUT_SECONDS = 3.0


@dataclass(frozen=True)
class Answer:
    """The answer of a server."""

    code: int
    remark: str
    fields: dict[str, Any]
    body: bytes


def ask(
    address: str,
    code: int,
    fields: dict[str, str] | None = None,
    body: bytes = b"",
    timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS,
    version: int = 0,
) -> Answer:
    """Say one request to `HOST:PORT` over a connection of its own and return the answer; raises OSError."""
    host, _, port = address.rpartition(":")
    members = {"code": code, "language": "OTHER", "version": version, "opaque": 1, "flag": 0, "extFields": fields or {}}
    header = json.dumps(members).encode()
    with socket.create_connection((host, int(port)), timeout_seconds) as peer:
        peer.sendall((4 + len(header) + len(body)).to_bytes(4, "big"))
        peer.sendall(len(header).to_bytes(4, "big") + header + body)
        frame = _exactly(peer, int.from_bytes(_exactly(peer, 4), "big"))
    header_end = 4 + int.from_bytes(frame[1:4], "big")
    said = json.loads(frame[4:header_end])
    return Answer(said["code"], said.get("remark") or "", said.get("extFields") or {}, frame[header_end:])


def _exactly(peer: socket.socket, size: int) -> bytes:
    read = bytearray()
    while len(read) < size:
        chunk = peer.recv(size - len(read))
        if not chunk:
            raise ConnectionResetError(f"the server closed after {len(read)} of {size} bytes")
        read += chunk
    return bytes(read)
