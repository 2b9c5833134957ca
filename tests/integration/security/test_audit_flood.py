"""A stranger washes no line out of the audit log: refusals have damped files of their own.

The review's attack: a line "root creates Super user" was gone after 300 unsigned requests, and ``audit verify`` was
content.
"""

import contextlib
import json
import socket
import struct

import pytest

from firearrow.access.audit_lines import verify
from firearrow.protocol.bodies.admin.auth import UserInfo
from firearrow.protocol.bodies.body import encode_body
from firearrow.protocol.codes import RequestCode
from firearrow.protocol.requests.admin.auth import AuthCreateUser
from judges.server_process import wait_for
from tests.integration.security.victim import ROOT, USERS_ON, WAIT_SECONDS, Victim

pytestmark = pytest.mark.real

SETTINGS = {**USERS_ON, "auditLogFileSize": "65536", "auditLogFiles": "2"}
REFUSALS = 1000


def replay(broker: Victim) -> None:
    """Make a user, be refused often, and look for the line about the user."""
    request = AuthCreateUser(username="mallory")
    assert broker.ask(request, encode_body(UserInfo(password="m", user_type="Super")), ROOT).code == 0
    wait_for(lambda: b"AUTH_CREATE_USER" in told(broker), "the line about the new user")
    fields = {"AccessKey": "A" * 1000, "Signature": "y"}
    heading = {"code": RequestCode.GET_BROKER_CONFIG, "opaque": 1, "flag": 0, "extFields": fields}
    header = json.dumps(heading).encode()
    frame = struct.pack(">II", 4 + len(header), len(header)) + header
    with socket.create_connection(("127.0.0.1", broker.port), WAIT_SECONDS) as peer, peer.makefile("rb") as answers:
        for _ in range(REFUSALS):
            peer.sendall(frame)
            answers.read(int.from_bytes(answers.read(4)))
    wait_for(lambda: b'"lost":' in told(broker) or b"AUTH_CREATE_USER" not in told(broker), "the count of refusals")
    assert b"AUTH_CREATE_USER" in told(broker), "refusals have pushed out the line about a change"
    for which in ("audit", "refused"):
        files = [(path.name, path.read_bytes()) for path in sorted((broker.own / "audit").glob(f"{which}-*"))]
        assert not verify(files).faults, which


def told(broker: Victim) -> bytes:
    """All lines of the audit log."""
    lines = b""
    for path in (broker.own / "audit").iterdir():
        with contextlib.suppress(FileNotFoundError):  # the broker removes old files
            lines += path.read_bytes()
    return lines


def test_refusals_push_out_no_line_about_a_change() -> None:
    with Victim("broker", SETTINGS) as broker:
        replay(broker)
