"""The class of Kafka's CVE-2022-34917 and KAFKA-5062: a length from a stranger becomes room in memory.

Our rule: a length is compared with what is there, or with a limit, before anything is kept or allocated for it.
"""

import json
import socket
import struct
import zlib
from contextlib import ExitStack

import pytest

from firearrow.protocol.bodies.naming.registration import FIRST_VERSION_WITH_MAPPINGS
from judges.server_process import wait_for
from tests.integration.security.victim import MEMORY_BYTES, USERS_ON, Victim

pytestmark = pytest.mark.real

CLOSE_SECONDS = 30.0
HALF_FRAMES = 8
FRAME_BYTES = (16 << 20) - 4
"""The longest frame that is taken: so much is announced, and little of it comes."""
GET_BROKER_CONFIG = 26
REGISTER_BROKER = 103
SEND_BATCH = 320
COMPACT = struct.Struct(">hbhiii")

HOSTILE = {
    "a frame of 2 GiB": struct.pack(">I", (1 << 31) - 1) + b"\0\0\0\0",
    "a frame of 4 GiB": struct.pack(">I", (1 << 32) - 1) + b"\0\0\0\0",
    "a frame of -1": struct.pack(">i", -1) + b"\0\0\0\4",
    "a frame one byte too long": struct.pack(">I", FRAME_BYTES + 1) + b"\0\0\0\0",
    "a header longer than its frame": struct.pack(">II", 8, 0x00FFFFFF) + b"{}{}",
    "a frame shorter than its own prefix": struct.pack(">II", 1, 0) + b"\0" * 8,
}
"""Inputs that end the connection at once."""


def compact(code: int, fields: bytes, *, remark_size: int = 0, fields_size: int | None = None) -> bytes:
    """A frame with a compact header, whose sizes may be lies."""
    size = struct.pack(">i", len(fields) if fields_size is None else fields_size)
    header = COMPACT.pack(code, 0, 0, 1, 0, remark_size) + size + fields
    return struct.pack(">II", 4 + len(header), 1 << 24 | len(header)) + header


def json_frame(code: int, fields: dict[str, str], body: bytes) -> bytes:
    """A frame with a JSON header."""
    version = FIRST_VERSION_WITH_MAPPINGS
    heading = {"code": code, "language": "JAVA", "version": version, "opaque": 1, "flag": 0, "extFields": fields}
    header = json.dumps(heading).encode()
    return struct.pack(">II", 4 + len(header) + len(body), len(header)) + header + body


LARGEST = (1 << 31) - 1
BROKER = {"brokerName": "b", "brokerAddr": "127.0.0.1:1", "clusterName": "c", "haServerAddr": "", "brokerId": "0"}
SEND = dict(zip("abcdefghim", ["P", "t", "TBW102", "4", "0", "0", "1", "0", "", "true"], strict=True))
LIES = {
    "a remark of 2 GiB": compact(GET_BROKER_CONFIG, b"", remark_size=LARGEST),
    "a remark of -1": compact(GET_BROKER_CONFIG, b"", remark_size=-1),
    "fields of 2 GiB": compact(GET_BROKER_CONFIG, b"", fields_size=LARGEST),
    "a value of 2 GiB": compact(GET_BROKER_CONFIG, b"\0\1a" + struct.pack(">i", LARGEST)),
    "a key of -1": compact(GET_BROKER_CONFIG, b"\xff\xff" + struct.pack(">i", LARGEST)),
    "a registration of 2 Gi topics": json_frame(
        REGISTER_BROKER,
        {**BROKER, "compressed": "true"},
        zlib.compress(struct.pack(">i", 2) + b"{}" + struct.pack(">i", LARGEST) * 2),
    ),
    "a batch whose message has 2 GiB": json_frame(SEND_BATCH, SEND, struct.pack(">5i", LARGEST, 0, 0, 0, LARGEST)),
}
"""Inputs that are refused with an answer, or end the connection."""


def is_closed(server: Victim, data: bytes) -> bool:
    """Whether the server ends a connection over which this comes, without an answer."""
    with socket.create_connection(("127.0.0.1", server.port), CLOSE_SECONDS) as peer:
        try:
            peer.sendall(data)
            return peer.recv(1) == b""
        except ConnectionResetError:
            return True
        except TimeoutError:
            return False


def answer_code(server: Victim, data: bytes) -> int | None:
    """The code of the answer; None when the connection ends instead."""
    with socket.create_connection(("127.0.0.1", server.port), CLOSE_SECONDS) as peer, peer.makefile("rb") as answers:
        peer.sendall(data)
        try:
            prefix = answers.read(8)
        except ConnectionResetError:
            return None
        if len(prefix) < 8:
            return None
        _, word = struct.unpack(">II", prefix)
        header = answers.read(word & 0xFFFFFF)
        return int(COMPACT.unpack_from(header)[0]) if word >> 24 else int(json.loads(header)["code"])


def replay(server: Victim) -> None:
    """Announce much and send little, without an account."""
    server.watch_memory()
    for name, data in LIES.items():
        assert answer_code(server, data) != 0, f"{name} was taken"
    with ExitStack() as open_connections:
        for _ in range(HALF_FRAMES):
            peer = open_connections.enter_context(socket.create_connection(("127.0.0.1", server.port)))
            peer.sendall(struct.pack(">II", FRAME_BYTES, 64) + b"{" * 4096)
        wait_for(lambda: server.connections() >= HALF_FRAMES, "the half frames")
        assert server.raw(GET_BROKER_CONFIG, {}).code, "without an account a broker answers"
        grown = server.grown_bytes()
        assert grown < MEMORY_BYTES, f"{HALF_FRAMES} half frames of 4 KiB each took {grown >> 20} MiB"
    for name, data in HOSTILE.items():
        assert is_closed(server, data), f"{name} did not end the connection"


@pytest.mark.parametrize("role", ["broker", "nameserver"])
def test_lengths_are_checked_before_anything_is_allocated(role: str) -> None:
    with Victim(role, USERS_ON) as server:
        replay(server)
