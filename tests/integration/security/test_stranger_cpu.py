"""A stranger without keys costs a server little: no header takes much more CPU a byte than an ordinary send's.

The review's attacks were headers in fastjson's dialect and compact headers of very many fields, parsed in Python before
anything was checked: one connection at 500 kB/s stopped a broker. Numbers such as 1e300, which msgspec reads
slowly, are a third kind that the mend found.
"""

import json
import os
import socket
import struct
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from msgspec.structs import replace

from campaigns.samples import SEND
from firearrow.protocol.auth import Credentials, signing_fields
from firearrow.protocol.codes import RequestCode
from firearrow.protocol.command import Encoding
from firearrow.protocol.layout import to_text
from firearrow.protocol.serialize import encode_request
from tests.integration.security.victim import USERS_ON, WAIT_SECONDS, Victim

pytestmark = pytest.mark.real

TIMES_MAX = 3
"""The CPU that any header may take, in times of a send with long properties of the same number of bytes."""
PROPERTIES_BYTES = 2000
LEAST_BYTES = 2_000_000
"""Bytes of each kind of header that are sent: ticks of the CPU's clock are coarse."""
STRANGER = Credentials("nobody-here", "x")


def _frame(header: bytes, encoding: int = 0) -> bytes:
    return struct.pack(">II", 4 + len(header), encoding << 24 | len(header)) + header


def _dialect(code: int) -> bytes:
    inner = ",".join(f"a{number:x}:'{number:x}'" for number in range(4800))
    return _frame(f"{{code:{code},flag:0,opaque:1,version:513,language:'JAVA',extFields:{{{inner}}}}}".encode())


def _many_fields(code: int) -> bytes:
    fields = {"AccessKey": "root", "Signature": "x", **{f"{number:x}": "" for number in range(18_000)}}
    return _frame(json.dumps({"code": code, "flag": 0, "opaque": 1, "extFields": fields}).encode())


def _many_compact_fields(code: int) -> bytes:
    keys = [b"%x" % number for number in range(24_000)]
    fields = b"".join(struct.pack(">h", len(key)) + key + struct.pack(">i", 0) for key in keys)
    return _frame(struct.pack(">hbhiiii", code, 0, 513, 1, 0, 0, len(fields)) + fields, Encoding.COMPACT)


def _exponents(code: int) -> bytes:
    numbers = ",".join(["1e300"] * 20_000)
    return _frame(f'{{"code":{code},"flag":0,"opaque":1,"a":[{numbers}],"extFields":{{"a":1}}}}'.encode())


def _ordinary(_code: int) -> bytes:
    send = replace(SEND, properties="p" * PROPERTIES_BYTES)
    return encode_request(Encoding.JSON, send, 1, extra=signing_fields(to_text(send), b"", STRANGER))


HOSTILE: dict[str, Callable[[int], bytes]] = {
    "fastjson's dialect": _dialect,
    "18,000 fields": _many_fields,
    "24,000 compact fields": _many_compact_fields,
    "numbers with exponents": _exponents,
}
CODES = {"broker": RequestCode.GET_BROKER_CONFIG, "nameserver": RequestCode.GET_NAMESRV_CONFIG}


def replay(server: Victim) -> None:
    """Send each kind of header, and compare the CPU that a byte takes."""
    ordinary = cpu_of_a_megabyte(server, _ordinary(0))
    for name, make in HOSTILE.items():
        taken = cpu_of_a_megabyte(server, make(CODES[server.role]))
        assert taken < TIMES_MAX * ordinary, f"{name}: {taken:.3f} s of CPU a MB, an ordinary send {ordinary:.3f} s"


def cpu_of_a_megabyte(server: Victim, frame: bytes) -> float:
    """The seconds of CPU that the server takes for a million bytes of frames, each answered or its connection ended."""
    count = -(-LEAST_BYTES // len(frame))
    before = cpu_seconds(server.pid)
    left = count
    while left:
        left -= max(1, _asked([frame] * left, server.port))
    return (cpu_seconds(server.pid) - before) / (count * len(frame) / 1e6)


def _asked(frames: Sequence[bytes], port: int) -> int:
    """Send frames over one connection until it ends; return how many were answered."""
    with socket.create_connection(("127.0.0.1", port), WAIT_SECONDS) as peer, peer.makefile("rb") as answers:
        for number, frame in enumerate(frames):
            try:
                peer.sendall(frame)
                length = answers.read(8)
            except ConnectionError:
                return number
            if len(length) < 8:
                return number
            answers.read(int.from_bytes(length[:4]) - 4)
    return len(frames)


def cpu_seconds(pid: int) -> float:
    """The CPU that a process has taken."""
    words = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")


@pytest.mark.parametrize("role", ["broker", "nameserver"])
def test_no_header_takes_much_more_cpu_than_an_ordinary_send(role: str) -> None:
    with Victim(role, USERS_ON) as server:
        replay(server)
