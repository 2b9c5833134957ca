"""Both header encodings, each by itself: SEND_MESSAGE_V2 from frame bytes to a typed request, and its answer to bytes.

A read holds ``FRAMES`` frames as Java's client sends them. Ours is measured twice: the codec alone (``FrameSplitter``
with ``Catalogue.decode_request``, and the encoder of the answer), and all of ``Connection`` around it. Bare: one
function for this one request, which checks nothing, escapes nothing, and converts only the seven fields that a broker
stores.
"""

import struct
from collections.abc import Callable
from typing import Any

import msgspec

from benchmarks.codec.rows import Row, compare, compare_unlike
from campaigns.samples import SEND
from firearrow.protocol.command import ANSWER_FLAG, Encoding, Heading
from firearrow.protocol.connection import Connection, RequestArrived
from firearrow.protocol.frame import FrameSplitter, prefix
from firearrow.protocol.requests.message.send import SendAnswer, SendMessageV2
from firearrow.protocol.serialize import Catalogue, encode_request, encoder

FRAMES = 16
BODY = b"x" * 128
REQUEST = SEND
MSG_ID = "0A00000100002A9F000000024CB016EA"
QUEUE_OFFSET = 123_456

_AS_JAVA = b',"serializeTypeCurrentRPC":"JSON","version"'
_FRAME = struct.Struct(">II")
_COMPACT = struct.Struct(">hbhiii")
_COMPACT_ANSWER = struct.Struct(">hbhiiii")


def stream(encoding: Encoding) -> bytes:
    """One read full of sends."""
    ours = [encode_request(encoding, REQUEST, opaque)[8:] for opaque in range(FRAMES)]
    java = [header.replace(b'"PYTHON"', b'"JAVA"').replace(b',"version"', _AS_JAVA) for header in ours]
    return b"".join(prefix(encoding, len(header), len(BODY)) + header + BODY for header in java)


Stored = tuple[int, bytes | str, int, int, int, int, bytes | str, int, bytes]
"""Opaque, topic, queue id, flag, sys flag, born at, properties, reconsume times, body."""


def ours_decoding(encoding: Encoding) -> Callable[[], list[Any]]:
    """The codec alone: frames out of bytes, headings out of headers."""
    data = stream(encoding)
    feed = FrameSplitter().feed
    decode = Catalogue([SendMessageV2]).decode_request

    def one_read() -> list[Any]:
        return [(decode(encoding, header), body) for encoding, header, body in feed(data)]

    return one_read


def ours_receiving(encoding: Encoding) -> Callable[[], list[Any]]:
    """All of the connection: events, as a handler gets them."""
    data = stream(encoding)
    receive = Connection(requests=Catalogue([SendMessageV2])).receive_data

    def one_read() -> list[Any]:
        return receive(data)

    return one_read


class BareSend(msgspec.Struct, gc=False):
    """The fields of a send that a broker needs, in JSON."""

    topic: str = msgspec.field(name="b", default="")
    queue_id: int = msgspec.field(name="e", default=0)
    sys_flag: int = msgspec.field(name="f", default=0)
    born_at: int = msgspec.field(name="g", default=0)
    flag: int = msgspec.field(name="h", default=0)
    properties: str = msgspec.field(name="i", default="")
    reconsume_times: int = msgspec.field(name="j", default=0)


class BareHeader(msgspec.Struct, gc=False):
    """The fields of a header that a broker needs, in JSON."""

    code: int
    opaque: int
    flag: int
    extFields: BareSend  # noqa: N815 - the wire's name


def bare_json_decoding() -> Callable[[], list[Stored]]:
    data = stream(Encoding.JSON)
    decode = msgspec.json.Decoder(BareHeader, strict=False).decode

    def one_read() -> list[Stored]:
        at = 0
        found: list[Stored] = []
        while len(data) - at >= 8:
            length, header_size = _FRAME.unpack_from(data, at)
            end = at + 4 + length
            body_at = at + 8 + header_size
            if data.startswith(b'{"code":310', at + 8):
                header = decode(memoryview(data)[at + 8 : body_at])
                f = header.extFields
                body = data[body_at:end]
                found.append(
                    (
                        header.opaque,
                        f.topic,
                        f.queue_id,
                        f.flag,
                        f.sys_flag,
                        f.born_at,
                        f.properties,
                        f.reconsume_times,
                        body,
                    )
                )
            at = end
        return found

    return one_read


def bare_compact_decoding() -> Callable[[], list[Stored]]:
    data = stream(Encoding.COMPACT)

    def one_read() -> list[Stored]:
        frame_at = 0
        found: list[Stored] = []
        while len(data) - frame_at >= 8:
            length, header_size = _FRAME.unpack_from(data, frame_at)
            end = frame_at + 4 + length
            at = frame_at + 8
            body_at = at + (header_size & 0xFFFFFF)
            code, _, _, opaque, _, remark_size = _COMPACT.unpack_from(data, at)
            if code == 310:
                value = {}
                at += 21 + remark_size
                while at < body_at:
                    start = at + 7
                    stop = start + int.from_bytes(data[at + 3 : start], "big")
                    value[data[at + 2]] = data[start:stop]
                    at = stop
                numbers = int(value[101]), int(value[104]), int(value[102]), int(value[103])
                found.append((opaque, value[98], *numbers, value[105], int(value[106]), data[body_at:end]))
            frame_at = end
        return found

    return one_read


def answers() -> list[SendAnswer]:
    """Return the answers of the handlers to one read: the fields that a 5.x broker answers with."""
    return [
        SendAnswer(
            msg_id=MSG_ID,
            queue_id=3,
            queue_offset=QUEUE_OFFSET + number,
            transaction_id=MSG_ID,
            msg_region="DefaultRegion",
            trace_on=True,
        )
        for number in range(FRAMES)
    ]


def ours_encoding(encoding: Encoding) -> Callable[[], bytes]:
    """The codec alone: the head of a frame out of the fields of an answer."""
    pairs = list(enumerate(answers()))
    encode = encoder(encoding, SendAnswer)

    def one_read() -> bytes:
        sent = []
        for opaque, fields in pairs:
            sent.append(encode(fields, 0, ANSWER_FLAG, opaque, None, 0))
        return b"".join(sent)

    return one_read


def ours_answering(encoding: Encoding) -> Callable[[], bytes]:
    """All of the connection: from the event and the fields to what is written."""
    connection = Connection(requests=Catalogue([SendMessageV2]))
    asked = [event for event in connection.receive_data(stream(encoding)) if isinstance(event, RequestArrived)]
    pairs = list(zip(asked, answers(), strict=True))

    def one_read() -> bytes:
        for event, fields in pairs:
            connection.answer(event, fields)
        return b"".join(connection.data_to_send())

    return one_read


def bare_json_answering() -> Callable[[], bytes]:
    pairs = list(enumerate(answers()))

    def one_read() -> bytes:
        sent: list[bytes] = []
        for opaque, f in pairs:
            header = (
                b'{"code":0,"extFields":{"MSG_REGION":"%b","TRACE_ON":"%b","msgId":"%b","queueId":"%d","queueOffset":"%d",'
                b'"transactionId":"%b"},"flag":1,"language":"PYTHON","opaque":%d,"serializeTypeCurrentRPC":"JSON","version":513}'
            ) % (
                (f.msg_region or "").encode(),
                b"true" if f.trace_on else b"false",
                f.msg_id.encode(),
                f.queue_id,
                f.queue_offset,
                (f.transaction_id or "").encode(),
                opaque,
            )
            sent += _FRAME.pack(4 + len(header), len(header)), header
        return b"".join(sent)

    return one_read


def bare_compact_answering() -> Callable[[], bytes]:
    pairs = list(enumerate(answers()))

    def one_read() -> bytes:
        sent: list[bytes] = []
        for opaque, f in pairs:
            region, trace = (f.msg_region or "").encode(), b"true" if f.trace_on else b"false"
            queue, offset = b"%d" % f.queue_id, b"%d" % f.queue_offset
            fields = (
                b"\0\x0aMSG_REGION\0\0\0%c%b\0\x08TRACE_ON\0\0\0%c%b\0\5msgId\0\0\0\x20%b"
                b"\0\7queueId\0\0\0%c%b\0\x0bqueueOffset\0\0\0%c%b\0\x0dtransactionId\0\0\0\x20%b"
            ) % (
                len(region),
                region,
                len(trace),
                trace,
                f.msg_id.encode(),
                len(queue),
                queue,
                len(offset),
                offset,
                (f.transaction_id or "").encode(),
            )
            header = _COMPACT_ANSWER.pack(0, 3, 513, opaque, 1, 0, len(fields)) + fields
            sent += _FRAME.pack(4 + len(header), len(header) | 1 << 24), header
        return b"".join(sent)

    return one_read


def stored(found: list[tuple[Heading[SendMessageV2], bytes]]) -> list[Stored]:
    """Return the result of the bare loop, made from the result of our codec."""
    kept: list[Stored] = []
    for heading, body in found:
        f = heading.request
        assert f is not None
        numbers = f.queue_id, f.flag, f.sys_flag, f.born_timestamp
        kept.append((heading.opaque, f.topic, *numbers, f.properties or "", f.reconsume_times or 0, body))
    return kept


def as_text(found: list[Stored]) -> list[tuple[object, ...]]:
    """The same with every string as text."""
    return [(o, bytes(t).decode() if isinstance(t, bytes) else t, *n[:4], _text(n[4]), *n[5:]) for o, t, *n in found]


def _text(value: object) -> object:
    return value.decode() if isinstance(value, bytes) else value


def _rows(encoding: Encoding, decoding: Callable[[], list[Stored]], answering: Callable[[], bytes]) -> list[Row]:
    name = encoding.name.lower()
    decode, receive = ours_decoding(encoding), ours_receiving(encoding)
    received = [(event.heading, event.body) for event in receive()]
    assert as_text(stored(decode())) == as_text(stored(received)) == as_text(decoding())
    encode, answer = ours_encoding(encoding), ours_answering(encoding)
    return [
        compare_unlike(f"decode SEND_MESSAGE_V2, {name}", decode, decoding, messages=FRAMES),
        compare(f"encode its answer, {name}", encode, answering, messages=FRAMES),
        compare_unlike(f"  connection: receive SEND_MESSAGE_V2, {name}", receive, decoding, messages=FRAMES),
        compare(f"  connection: answer it, {name}", answer, answering, messages=FRAMES),
    ]


def measure() -> list[Row]:
    """Microseconds a message in each encoding; the indented rows add what the connection does around the codec."""
    return [
        *_rows(Encoding.JSON, bare_json_decoding(), bare_json_answering()),
        *_rows(Encoding.COMPACT, bare_compact_decoding(), bare_compact_answering()),
    ]
