"""Headers and frames to start from: hot requests and their answers in both encodings, and what clients really send."""

import struct

from msgspec.structs import replace

from campaigns import samples
from firearrow.protocol.command import Encoding
from firearrow.protocol.conversation import Fields, Request
from firearrow.protocol.requests.group.offset import GetMaxOffset
from firearrow.protocol.requests.message.pull import PullMessage
from firearrow.protocol.requests.message.send import SendAnswer
from firearrow.protocol.serialize import encode_answer, encode_request

SEND = replace(samples.SEND, topic="T", properties="KEYS\x01k\x02", batch=True)
PULL = PullMessage(
    consumer_group="g",
    topic="T",
    queue_id=0,
    queue_offset=1,
    max_msg_nums=32,
    sys_flag=2,
    commit_offset=0,
    suspend_timeout_millis=15000,
    subscription="*",
    sub_version=0,
    expression_type="TAG",
)
REQUESTS: tuple[Request[Fields], ...] = (SEND, PULL, GetMaxOffset(topic="T", queue_id=0))  # type: ignore[assignment]
ANSWER = SendAnswer(msg_id="A", queue_id=0, queue_offset=1, trace_on=True)
ODD = (
    b'{"code":310,"extFields":{"a":"g","b":"T","c":"TBW102","d":4,"e":0,"f":0,"g":"1","h":0,"m":1},"remark":"","opaque":1}',
    b'{\'code\':34,flag:2,"language":"CPP","extFields":null,"version":"333"}',
    b'{ "extFields":{"topic":null,"queueId":"+1"}, "code":30 }\n',
)


def headers(encoding: Encoding) -> list[bytes]:
    """Headers by themselves."""
    heads = [encode_request(encoding, request, 1) for request in REQUESTS]
    heads += [encode_answer(encoding, 1, ANSWER), encode_answer(encoding, 2, None, 17, "no topic")]
    return [head[8:] for head in heads] + (list(ODD) if encoding is Encoding.JSON else [])


def framed(encoding: Encoding, header: bytes) -> bytes:
    """Return the frame of a header without a body."""
    return struct.pack(">II", 4 + len(header), encoding << 24 | len(header)) + header


def frames() -> list[bytes]:
    """Whole frames, alone and in a row."""
    alone = [encode_request(encoding, request, 1, body_size=2) + b"{}" for encoding in Encoding for request in REQUESTS]
    alone += [encode_answer(encoding, opaque, ANSWER) for encoding in Encoding for opaque in range(4)]
    return [*alone, b"".join(alone), b"GET / HTTP/1.1\r\n\r\n", bytes(16), b"\xff" * 16]
