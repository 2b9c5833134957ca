"""Requests encoded beforehand, and the little that must be read of an answer.

Headers are compact: fixed places. Apache's broker answers sends in JSON all the same.
"""

import struct
from typing import Any

import msgspec
from msgspec.structs import replace

from campaigns.samples import SEND
from firearrow.protocol.auth import Signer
from firearrow.protocol.command import Encoding
from firearrow.protocol.conversation import Request
from firearrow.protocol.serialize import encode_request

OPAQUE_AT = 13
"""The position of the opaque in a frame with a compact header."""
_ANSWER = struct.Struct(">I4xh3xi")
PROPERTIES = "UNIQ_KEY\x01FD00000000000000000000000000000220FD0C387F444A6190560000\x02WAIT\x01true\x02"


def frame(request: Request[Any], opaque: int, body: bytes = b"", sign: Signer | None = None) -> bytes:
    """A request as it travels, signed or not."""
    extra = None if sign is None else sign(request, body)
    return encode_request(Encoding.COMPACT, request, opaque, body_size=len(body), extra=extra) + body


def send(topic: str, queue_id: int, opaque: int, body: bytes, sign: Signer | None = None) -> bytes:
    """One message for a queue."""
    request = replace(SEND, producer_group="overload", topic=topic, queue_id=queue_id, properties=PROPERTIES)
    return frame(request, opaque, body, sign)


def heartbeat_body(client: str) -> bytes:
    """Return the body of a producer's heartbeat."""
    return msgspec.json.encode(
        {"clientID": client, "producerDataSet": [{"groupName": "overload"}], "consumerDataSet": []}
    )


class Answers:
    """Cuts a stream into answers: their codes and opaques."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, data: bytes) -> list[tuple[int, int]]:
        """Take bytes; return (code, opaque) of each answer that is whole."""
        if self._rest:
            data = self._rest + data
        at, size, found = 0, len(data), []
        while size - at >= _ANSWER.size + 2:
            length, code, opaque = _ANSWER.unpack_from(data, at)
            end = at + 4 + length
            if end > size:
                break
            found.append(_in_json(data, at) if data[at + 4] == Encoding.JSON else (code, opaque))
            at = end
        self._rest = data[at:]
        return found


class _Heading(msgspec.Struct):
    code: int
    opaque: int


_heading = msgspec.json.Decoder(_Heading).decode


def _in_json(data: bytes, at: int) -> tuple[int, int]:
    length = int.from_bytes(data[at + 5 : at + 8])
    heading = _heading(data[at + 8 : at + 8 + length])
    return heading.code, heading.opaque
