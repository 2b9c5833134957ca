"""A stranger without keys makes a server keep nothing: no cache is keyed by what a request says that nobody has signed.

The review's attack sent requests that name a known user and carry a wrong signature: the names of their header fields
stayed in a cache that served the check of signatures.
"""

import json
import socket
import struct

import pytest

from firearrow.protocol.codes import RequestCode, ResponseCode
from tests.integration.security.victim import MEMORY_BYTES, ROOT, USERS_ON, WAIT_SECONDS, Victim

pytestmark = pytest.mark.real

REQUESTS = 450
NAMES_BYTES = 240_000
"""The bytes of field names in one request: 108 MB in all, of which nothing may stay."""
FIELDS = 100


CODES = {"broker": RequestCode.GET_BROKER_CONFIG, "nameserver": RequestCode.GET_NAMESRV_CONFIG}


def replay(server: Victim) -> None:
    """Send requests with long names of fields that no other request has, and look at the memory."""
    server.watch_memory()
    with socket.create_connection(("127.0.0.1", server.port), WAIT_SECONDS) as peer, peer.makefile("rb") as answers:
        for number in range(REQUESTS):
            peer.sendall(_frame(CODES[server.role], number))
            length, size = struct.unpack(">II", answers.read(8))
            heading = json.loads(answers.read(length - 4)[: size & 0xFFFFFF])
            assert heading["code"] == ResponseCode.NO_PERMISSION, heading
    grown = server.grown_bytes()
    assert grown < MEMORY_BYTES, f"{REQUESTS} requests of a stranger took {grown >> 20} MiB"


def _frame(code: int, number: int) -> bytes:
    names = {f"{number:x}-{field:x}".ljust(NAMES_BYTES // FIELDS, "n"): "" for field in range(FIELDS)}
    fields = {"AccessKey": ROOT.access_key, "Signature": "x", **names}
    heading = {"code": code, "language": "JAVA", "version": 495, "opaque": number, "flag": 0}
    header = json.dumps({**heading, "extFields": fields}, separators=(",", ":")).encode()
    return struct.pack(">II", 4 + len(header), len(header)) + header


@pytest.mark.parametrize("role", ["broker", "nameserver"])
def test_names_of_fields_are_not_kept(role: str) -> None:
    with Victim(role, USERS_ON) as server:
        replay(server)
