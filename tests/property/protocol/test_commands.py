"""Every conversation, in both encodings, however the stream is chopped."""

from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from firearrow.errors import BadHeader, ProtocolError
from firearrow.protocol.auth import SIGNATURE, Credentials, sign, signing_fields
from firearrow.protocol.command import Encoding
from firearrow.protocol.compact_decoder import CompactDecoder
from firearrow.protocol.connection import AnswerArrived, Connection, RequestArrived
from firearrow.protocol.conversation import Fields, Request
from firearrow.protocol.frame import FrameSplitter, prefix
from firearrow.protocol.layout import to_text
from firearrow.protocol.requests import ALL
from firearrow.protocol.serialize import (
    Catalogue,
    catalogue,
    decode_request,
    encode_answer,
    encode_request,
    ext_fields,
    read_heading,
)
from firearrow.testing.command_strategies import chopped, encodings, fields_of, opaques, requests_of
from tests.unit.protocol.commands import decode_answer

# A busy machine makes both generation and the tests slow; that is not what these tests are about.
_PATIENT = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
few, some, many = (settings(_PATIENT, max_examples=examples) for examples in (10, 80, 200))

ANSWERS: list[type[Fields]] = list(dict.fromkeys(kind.answer for kind in ALL))
requests = requests_of(list(ALL))


@pytest.mark.parametrize("kind", ALL, ids=lambda kind: kind.__name__)
@few
@given(data=st.data())
def test_requests_survive_both_encodings(kind: type[Request[Any]], data: st.DataObject) -> None:
    request, opaque, oneway = data.draw(fields_of(kind)), data.draw(opaques), data.draw(st.booleans())
    for encoding in Encoding:
        header = encode_request(encoding, request, opaque, oneway=oneway)[8:]
        heading = decode_request(encoding, header)
        assert heading.request == request
        assert (heading.code, heading.opaque, heading.is_oneway) == (kind.code, opaque, oneway)
        assert ext_fields(encoding, header) == to_text(request)


@few
@given(data=st.data(), kind=st.sampled_from(ALL))
def test_requests_survive_shapes_that_were_learned(data: st.DataObject, kind: type[Request[Any]]) -> None:
    decoder = CompactDecoder(kind)
    for request in data.draw(st.lists(fields_of(kind), min_size=1, max_size=4)) * 8:
        assert decoder.decode(encode_request(Encoding.COMPACT, request, 1)[8:]).request == request


@pytest.mark.parametrize("kind", ANSWERS)
@few
@given(data=st.data())
def test_answers_survive_both_encodings(kind: type[Fields], data: st.DataObject) -> None:
    fields, opaque = data.draw(fields_of(kind)), data.draw(opaques)
    for encoding in Encoding:
        header = encode_answer(encoding, opaque, fields, 19, "why")[8:]
        heading = decode_answer(encoding, header, kind)
        assert heading.request == fields
        assert (heading.code, heading.opaque, heading.remark) == (19, opaque, "why")


@some
@given(
    encoding=encodings,
    request=requests,
    extra=st.dictionaries(st.sampled_from(["AccessKey", "_x"]), st.text("ab1", min_size=1)),
)
def test_strange_fields_beside_our_own_change_nothing(
    encoding: Encoding, request: Request[Any], extra: dict[str, str]
) -> None:
    header = encode_request(encoding, request, 1, extra=extra)[8:]
    assert decode_request(encoding, header).request == request
    assert ext_fields(encoding, header) == to_text(request) | extra


@some
@given(encoding=encodings, request=requests, body=st.binary(max_size=50), tail=st.binary(max_size=20))
def test_damaged_headers_raise_protocol_errors_alone(
    encoding: Encoding, request: Request[Any], body: bytes, tail: bytes
) -> None:
    header = encode_request(encoding, request, 1)[8:]
    middle = len(body) * 7 % len(header)
    for damaged in (header[:middle], header[:middle] + body + header[middle:], header + tail, body, tail + header):
        for read in (catalogue().decode_request, read_heading, ext_fields):
            try:
                read(encoding, damaged)
            except BadHeader:
                continue


@many
@given(data=st.data())
def test_whatever_json_a_header_holds_only_protocol_errors_are_raised(data: st.DataObject) -> None:
    kind = data.draw(st.sampled_from(ALL))
    scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5)
    values = st.recursive(
        scalars, lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(), inner, max_size=2)
    )
    names = st.sampled_from(list(kind.__struct_encode_fields__) or ["x"])
    header = {
        "code": int(kind.code),
        "extFields": data.draw(st.dictionaries(names, values, max_size=8)),
        "opaque": data.draw(scalars),
        "language": data.draw(scalars),
        "flag": data.draw(st.sampled_from([0, 1, 2, 3, None, "2"])),
    }
    try:
        decode_request(Encoding.JSON, msgspec.json.encode(header))
    except ProtocolError:
        return


@some
@given(data=st.data(), commands=st.lists(st.tuples(encodings, requests, st.binary(max_size=40)), max_size=5))
def test_frames_do_not_depend_on_the_chopping(
    data: st.DataObject, commands: list[tuple[Encoding, Request[Any], bytes]]
) -> None:
    heads = [(encode_request(encoding, request, 1, body_size=len(body)), body) for encoding, request, body in commands]
    stream = b"".join(head + body for head, body in heads)
    splitter = FrameSplitter()
    frames = [frame for piece in data.draw(chopped(stream)) for frame in splitter.feed(piece)]
    assert frames == [
        (encoding, head[8:], body) for (encoding, _, body), (head, _) in zip(commands, heads, strict=True)
    ]
    assert splitter.kept == 0
    assert splitter.fault is None


@some
@given(data=st.data(), asked=st.lists(st.tuples(requests, st.binary(max_size=20)), max_size=6), encoding=encodings)
def test_a_conversation_over_a_chopped_stream(
    data: st.DataObject, asked: list[tuple[Request[Any], bytes]], encoding: Encoding
) -> None:
    asker, server = Connection(encoding=encoding), Connection()
    for number, (request, body) in enumerate(asked):
        asker.call(request, body, deadline=1, context=number)
    pieces = data.draw(chopped(b"".join(asker.data_to_send())))
    arrived = [event for piece in pieces for event in server.receive_data(piece)]
    assert [(event.request, event.body) for event in arrived if isinstance(event, RequestArrived)] == asked
    for event in data.draw(st.permutations(arrived)):
        assert isinstance(event, RequestArrived)
        server.answer(event, data.draw(fields_of(type(event.request).answer)), event.body)
    pieces = data.draw(chopped(b"".join(server.data_to_send())))
    answers = [event for piece in pieces for event in asker.receive_data(piece)]
    assert len(answers) == len(asked)
    for answer in answers:
        assert isinstance(answer, AnswerArrived)
        assert answer.fault is None
        assert (answer.asked.request, answer.body) == asked[answer.asked.context]
    assert asker.outstanding == 0


@some
@given(pieces=st.lists(st.binary(max_size=30), max_size=10))
def test_any_bytes_at_all(pieces: list[bytes]) -> None:
    connection = Connection()
    for piece in pieces:
        connection.receive_data(piece)


@some
@given(encoding=encodings, header=st.binary(max_size=60), body=st.binary(max_size=10))
def test_any_header_at_all(encoding: Encoding, header: bytes, body: bytes) -> None:
    Connection().receive_data(prefix(encoding, len(header), len(body)) + header + body)


@some
@given(encoding=encodings, request=requests, body=st.binary(max_size=40))
def test_signatures_survive_both_encodings(encoding: Encoding, request: Request[Any], body: bytes) -> None:
    extra = signing_fields(to_text(request), body, Credentials("me", "secret"))
    header = encode_request(encoding, request, 1, extra=extra)[8:]
    fields = ext_fields(encoding, header)
    assert fields[SIGNATURE] == sign(fields, body, "secret")


def test_every_code_is_known_to_the_catalogue() -> None:
    assert set(catalogue().types) == {int(kind.code) for kind in ALL}
    assert isinstance(catalogue(), Catalogue)
