from typing import Any

import pytest

from firearrow.errors import BadFrame, BadHeader, BrokenInvariant, Overloaded
from firearrow.protocol.codes import ResponseCode
from firearrow.protocol.command import Encoding
from firearrow.protocol.connection import (
    AnswerArrived,
    Connection,
    RequestArrived,
    RequestDeclined,
    StreamBroken,
)
from firearrow.protocol.frame import FrameLimits, prefix
from firearrow.protocol.refusal import Refused
from firearrow.protocol.serialize import encode_request
from tests.unit.protocol.commands import (
    CATALOGUE,
    COMPACT,
    JSON,
    SEEK,
    Found,
    Nothing,
    Optional,
    Wide,
    answer_frame,
)


def connection(**options: Any) -> Connection:
    return Connection(requests=CATALOGUE, **options)


def sent(speaker: Connection) -> bytes:
    return b"".join(speaker.data_to_send())


def only(events: list[Any], kind: type[Any]) -> Any:
    (event,) = events
    assert isinstance(event, kind)
    return event


@pytest.mark.parametrize("encoding", list(Encoding))
def test_a_request_and_its_answer(encoding: Encoding) -> None:
    asker, server = connection(encoding=encoding), connection()
    opaque = asker.call(SEEK, b"question", deadline=10, context="me")
    arrived = only(server.receive_data(sent(asker)), RequestArrived)
    assert (arrived.request, arrived.body, arrived.encoding) == (SEEK, b"question", encoding)
    assert arrived.ext_fields["topic"] == "T"
    server.answer(arrived, Found(offset=5), b"reply", remark="well")
    answered = only(asker.receive_data(sent(server)), AnswerArrived)
    assert (answered.answer, answered.body, answered.code, answered.remark) == (Found(offset=5), b"reply", 0, "well")
    assert (answered.asked.opaque, answered.asked.context, answered.fault) == (opaque, "me", None)
    assert asker.outstanding == 0


def test_equal_opaques_of_the_two_directions_do_not_meet() -> None:
    left, right = connection(), connection()
    assert left.call(SEEK, deadline=1) == right.call(Optional(name="n"), deadline=1)
    from_right = only(left.receive_data(sent(right)), RequestArrived)
    from_left = only(right.receive_data(sent(left)), RequestArrived)
    left.answer(from_right)
    right.answer(from_left, Found(offset=1))
    assert only(left.receive_data(sent(right)), AnswerArrived).asked.request == SEEK
    assert only(right.receive_data(sent(left)), AnswerArrived).asked.request == Optional(name="n")


def test_answers_in_any_order() -> None:
    asker = connection()
    first, second = (asker.call(SEEK, deadline=1) for _ in range(2))
    events = asker.receive_data(answer_frame(second, Found(offset=2)) + answer_frame(first, Found(offset=1)))
    assert [(event.asked.opaque, event.answer.offset) for event in events if isinstance(event, AnswerArrived)] == [  # type: ignore[union-attr]
        (second, 2),
        (first, 1),
    ]


def test_many_answers_leave_together() -> None:
    asker, server = connection(), connection()
    for _ in range(3):
        asker.call(Nothing(), deadline=1)
    for event in server.receive_data(sent(asker)):
        assert isinstance(event, RequestArrived)
        server.answer(event, body=b"x")
    assert len(server.data_to_send()) == 6
    assert server.data_to_send() == []


def test_one_way_requests_get_no_answer() -> None:
    asker, server = connection(), connection()
    asker.tell(SEEK, b"body")
    arrived = only(server.receive_data(sent(asker)), RequestArrived)
    assert arrived.is_oneway
    server.answer(arrived, Found(offset=1))
    server.refuse(arrived, Refused(1, "no"))
    assert sent(server) == b""
    assert asker.outstanding == 0


def test_a_refusal_arrives_with_its_reason() -> None:
    asker, server = connection(), connection()
    asker.call(SEEK, deadline=1)
    server.refuse(only(server.receive_data(sent(asker)), RequestArrived), Refused(17, "no topic T"))
    answered = only(asker.receive_data(sent(server)), AnswerArrived)
    assert (answered.code, answered.remark, answered.answer, answered.fault) == (17, "no topic T", None, None)


def test_an_error_may_still_carry_the_fields() -> None:
    asker = connection()
    answered = only(
        asker.receive_data(answer_frame(asker.call(SEEK, deadline=1), Found(offset=4), code=10)), AnswerArrived
    )
    assert (answered.code, answered.answer) == (10, Found(offset=4))


def test_success_without_the_fields_is_a_fault() -> None:
    asker = connection()
    answered = only(asker.receive_data(answer_frame(asker.call(SEEK, deadline=1))), AnswerArrived)
    assert answered.answer is None
    assert isinstance(answered.fault, BadHeader)


@pytest.mark.parametrize("encoding", list(Encoding))
def test_an_unknown_code_is_refused_in_apache_s_words(encoding: Encoding) -> None:
    server = Connection(requests=CATALOGUE)
    frame = encode_request(JSON, SEEK, 9).replace(b'"code":29', b'"code":99')
    if encoding:
        frame = encode_request(COMPACT, SEEK, 9).replace(b"\0\x1d\3", b"\0\x63\3")
    declined = only(server.receive_data(frame), RequestDeclined)
    assert declined.refusal.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED
    asker = connection()
    asker._next_opaque = 9
    asker.call(SEEK, deadline=1)
    answered = only(asker.receive_data(sent(server)), AnswerArrived)
    assert (answered.code, answered.remark) == (3, " request type 99 not supported")


def test_fields_that_do_not_parse_are_refused_with_code_1() -> None:
    header = b'{"code":29,"opaque":5,"extFields":{"topic":"T"}}'
    server = connection()
    declined = only(server.receive_data(prefix(0, len(header), 0) + header), RequestDeclined)
    assert declined.refusal.code == ResponseCode.SYSTEM_ERROR
    assert b'"opaque":5,"remark":"the custom field <queueId> is null"' in sent(server)
    header = b'{"code":29,"opaque":5,"flag":2,"extFields":{"topic":"T"}}'
    only(server.receive_data(prefix(0, len(header), 0) + header), RequestDeclined)
    assert sent(server) == b""


def test_a_header_that_says_nothing_ends_the_stream() -> None:
    server = connection()
    good = encode_request(JSON, SEEK, 1)
    events = server.receive_data(good + prefix(0, 3, 0) + b"{{{" + good)
    assert [type(event) for event in events] == [RequestArrived, StreamBroken]
    assert server.is_ended
    assert server.receive_data(good) == []


def test_a_bad_frame_ends_the_stream_after_the_frames_before_it() -> None:
    server = connection(limits=FrameLimits(frame_max=1000))
    events = server.receive_data(encode_request(JSON, SEEK, 1) + prefix(0, 0, 5000))
    assert [type(event) for event in events] == [RequestArrived, StreamBroken]
    broken = events[-1]
    assert isinstance(broken, StreamBroken)
    assert isinstance(broken.reason, BadFrame)
    assert isinstance(events[0], RequestArrived)
    server.answer(events[0], Found(offset=1))
    assert b'"offset":"1"' in sent(server)
    server.closed()
    server.answer(events[0], Found(offset=1))
    assert sent(server) == b""


def test_late_answers_are_counted_and_dropped() -> None:
    asker = connection()
    assert asker.receive_data(answer_frame(1, Found(offset=1))) == []
    assert asker.receive_data(answer_frame(1, code=29)) == []
    opaque = asker.call(SEEK, deadline=1)
    assert asker.receive_data(answer_frame(opaque + 1, Found(offset=1))) == []
    asker.forget(opaque)
    assert asker.receive_data(answer_frame(opaque, Found(offset=1), encoding=COMPACT)) == []
    assert asker.late_answers == 4


def test_deadlines() -> None:
    asker = connection()
    late = asker.call(SEEK, deadline=30, context="late")
    asker.call(SEEK, deadline=10, context="early")
    assert asker.expire(9.9) == []
    assert [asked.context for asked in asker.expire(10)] == ["early"]
    assert asker.expire(29) == []
    assert asker.outstanding == 1
    only(asker.receive_data(answer_frame(late, Found(offset=1))), AnswerArrived)
    assert asker.expire(1000) == []


def test_the_end_fails_everything_that_waits() -> None:
    asker = connection()
    for number in range(3):
        asker.call(SEEK, deadline=1, context=number)
    assert [asked.context for asked in asker.closed()] == [0, 1, 2]
    assert sent(asker) == b""
    assert asker.closed() == []
    with pytest.raises(BrokenInvariant):
        asker.call(SEEK, deadline=1)


def test_the_table_is_limited() -> None:
    asker = connection(outstanding_max=2)
    asker.call(SEEK, deadline=1)
    asker.call(SEEK, deadline=1)
    before = sent(asker)
    with pytest.raises(Overloaded):
        asker.call(SEEK, deadline=1)
    assert before
    assert sent(asker) == b""


def test_opaques_wrap_around_and_skip_those_in_use() -> None:
    asker = connection()
    asker._next_opaque = 2**31 - 1
    assert [asker.call(SEEK, deadline=1) for _ in range(2)] == [2**31 - 1, 0]
    asker._next_opaque = 2**31 - 1
    assert asker.call(SEEK, deadline=1) == 1


def test_a_code_that_does_not_fit_the_compact_encoding_travels_as_json() -> None:
    asker = connection(encoding=COMPACT)
    asker.call(Wide(topic="T"), deadline=1)
    assert sent(asker)[8:9] == b"{"


def test_signatures_travel_beside_the_fields() -> None:
    asker, server = connection(), connection()
    asker.call(SEEK, deadline=1, extra={"AccessKey": "me"})
    arrived = only(server.receive_data(sent(asker)), RequestArrived)
    assert arrived.request == SEEK
    assert arrived.ext_fields["AccessKey"] == "me"
