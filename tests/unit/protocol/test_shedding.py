"""Requests that are refused unread get the answer that reading them would give; everything else is left alone."""

import pytest
from msgspec.structs import replace

from campaigns.samples import SEND
from firearrow.broker.send.marks import AnswerMarks
from firearrow.protocol.command import Encoding
from firearrow.protocol.connection import Connection, RequestArrived
from firearrow.protocol.frame import PREFIX_SIZE
from firearrow.protocol.requests.group.heartbeat import HeartBeat
from firearrow.protocol.requests.message.send import SendMessageV2
from firearrow.protocol.serialize import encode_answer, encode_request
from firearrow.protocol.shedding import Refusals, beginnings

BODY = b"x" * 100
BUSY = Refusals(frozenset({int(SendMessageV2.code)}), AnswerMarks(msg_region="here", trace_on=True), 2, "busy")


def send(encoding: Encoding, opaque: int, *, oneway: bool = False) -> bytes:
    request = replace(SEND, properties='a\x01"opaque":5,\x02')
    return encode_request(encoding, request, opaque, body_size=len(BODY), oneway=oneway) + BODY


def heartbeat(encoding: Encoding) -> bytes:
    return encode_request(encoding, HeartBeat(), 77, body_size=2) + b"{}"


def read(data: bytes) -> bytes:
    """The answers of the ordinary way."""
    talk = Connection()
    for event in talk.receive_data(data):
        assert isinstance(event, RequestArrived)
        talk.answer(event, AnswerMarks(msg_region="here", trace_on=True), code=2, remark="busy")
    return b"".join(talk.data_to_send())


@pytest.mark.parametrize("encoding", Encoding)
@pytest.mark.parametrize("opaque", [0, 7, 123_456, 2**31 - 1])
def test_the_answer_is_the_same_unread(encoding: Encoding, opaque: int) -> None:
    data = send(encoding, opaque)
    shed = BUSY.shed(data)
    assert (b"".join(shed.answers), shed.refused, shed.rest) == (read(data), 1, b"")


@pytest.mark.parametrize("encoding", Encoding)
def test_requests_are_known_by_their_beginning(encoding: Encoding) -> None:
    sends = beginnings({int(SendMessageV2.code)})
    assert send(encoding, 1).startswith(sends, PREFIX_SIZE)
    assert not heartbeat(encoding).startswith(sends, PREFIX_SIZE)


@pytest.mark.parametrize("encoding", Encoding)
def test_others_are_left_in_their_order(encoding: Encoding) -> None:
    half = send(encoding, 3)[:-1]
    data = heartbeat(encoding) + send(encoding, 1) + heartbeat(encoding) + send(encoding, 2) + half
    shed = BUSY.shed(data)
    assert shed.refused == 2
    assert b"".join(shed.answers) == read(send(encoding, 1) + send(encoding, 2))
    assert shed.rest == heartbeat(encoding) * 2 + half


@pytest.mark.parametrize("encoding", Encoding)
def test_one_way_requests_are_dropped_and_answers_are_not_requests(encoding: Encoding) -> None:
    assert BUSY.shed(send(encoding, 1, oneway=True))[1:] == (1, b"")
    assert b"".join(BUSY.shed(send(encoding, 1, oneway=True)).answers) == b""
    answer = encode_answer(encoding, 9, None, int(SendMessageV2.code), "odd")
    assert BUSY.shed(answer) == ([], 0, answer)


@pytest.mark.parametrize("junk", [b"", b"\0" * 40, b"\xff" * 40, b"GET / HTTP/1.1\r\nHost: nobody\r\n\r\n"])
def test_what_is_no_frame_is_left(junk: bytes) -> None:
    assert BUSY.shed(junk) == ([], 0, junk)
