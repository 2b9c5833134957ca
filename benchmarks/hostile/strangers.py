"""Hostile clients without keys: what a broker reads before it knows who asks, and what a refusal costs."""

import struct
from typing import Final

import msgspec

from benchmarks.hostile.lines import NUMBER, Numbered, Repeated
from firearrow.protocol.codes import RequestCode
from firearrow.protocol.frame import prefix

KNOWN_USER: Final = "root-user"
"""A user that the broker has when access is on; the stranger knows the name alone."""
COMPACT: Final = 1
"""The serialization of headers that is not JSON."""


def header(text: bytes, serialization: int = 0) -> bytes:
    """A frame without a body."""
    return prefix(serialization, len(text), 0) + text


class Signatures(Numbered):
    """Requests with a known user's name, a signature that is none, and 11,500 field names that nobody has used yet."""

    FIELDS = 11_500
    TOGETHER = 1

    def pattern(self) -> bytes:
        """A request, close to the longest header."""
        mark = NUMBER.decode()
        fields = {"AccessKey": KNOWN_USER, "Signature": "x"} | {f"{mark[:4]}{one:x}": "" for one in range(self.FIELDS)}
        made = msgspec.json.encode({"code": int(RequestCode.GET_BROKER_CONFIG), "opaque": 1, "extFields": fields})
        return header(made.replace(mark[:4].encode(), NUMBER))


class Dialect(Repeated):
    """Headers of 54 KB in fastjson's own form, which no parser in C reads."""

    FIELDS = 4_800

    def made(self) -> bytes:
        """A request."""
        fields = ",".join(f"a{one:x}:'{one:x}'" for one in range(self.FIELDS))
        return header(f"{{code:26,flag:0,opaque:1,version:513,language:'JAVA',extFields:{{{fields}}}}}".encode())


class Fields(Repeated):
    """Compact headers with 24,000 fields, as many as fit."""

    FIELDS = 24_000

    def made(self) -> bytes:
        """A request."""
        names = (b"%x" % one for one in range(self.FIELDS))
        fields = b"".join(struct.pack(">h", len(name)) + name + struct.pack(">i", 0) for name in names)
        fixed = struct.pack(">hbhiii", int(RequestCode.GET_BROKER_CONFIG), 0, 513, 1, 0, 0)
        return header(fixed + struct.pack(">i", len(fields)) + fields, COMPACT)


class Refusals(Repeated):
    """Small requests of a user that does not exist, with a name of 1,000 letters: each is refused, and written down."""

    def made(self) -> bytes:
        """Some requests."""
        fields = {"AccessKey": "A" * 1_000, "Signature": "y"}
        return (
            header(msgspec.json.encode({"code": int(RequestCode.GET_BROKER_CONFIG), "opaque": 1, "extFields": fields}))
            * 32
        )


class Metrics(Repeated):
    """Requests for the page of metrics, whose answers are not read."""

    PORT = "metrics"
    CONNECTIONS = 1
    READS = False

    def made(self) -> bytes:
        """Some requests."""
        return b"GET /metrics HTTP/1.1\r\n\r\n" * 1_000
