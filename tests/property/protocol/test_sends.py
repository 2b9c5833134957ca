"""Sends with ends of transactions between them: however they are cut into reads, each request arrives once."""

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from campaigns.samples import SEND
from firearrow.protocol import sends as sends_module
from firearrow.protocol.command import Encoding
from firearrow.protocol.connection import Connection, Event, RequestArrived
from firearrow.protocol.requests.group.offset import GetMaxOffset
from firearrow.protocol.requests.transaction.transaction import EndTransaction
from firearrow.protocol.sends import LEARNED_AFTER, SendsArrived, SendShapes
from firearrow.protocol.serialize import encode_request

Arrived = tuple[int, bytes, object]
KINDS = "sssseeq"


def frame(encoding: Encoding, kind: str, opaque: int) -> bytes:
    if kind == "s":
        properties = f"TRAN_MSG\x01true\x02UNIQ_KEY\x01{opaque:08}\x02"
        request = replace(SEND, properties=properties, queue_id=opaque % 10)
        return encode_request(encoding, request, opaque, body_size=2) + b"%02d" % (opaque % 100)
    if kind == "e":
        end = EndTransaction(
            producer_group="P",
            tran_state_table_offset=opaque,
            commit_log_offset=opaque,
            commit_or_rollback=8,
            msg_id=f"{opaque:08}",
        )
        return encode_request(encoding, end, opaque, oneway=True)
    return encode_request(encoding, GetMaxOffset(topic="T", queue_id=opaque), opaque)


def arrived(connection: Connection, events: list[Event]) -> list[Arrived]:
    found = []
    for event in events:
        if isinstance(event, SendsArrived):
            found += arrived(connection, connection.one_by_one(event))
        else:
            assert isinstance(event, RequestArrived), event
            found.append((event.heading.opaque, event.body, event.heading.request))
    return found


def reads_of(data: bytes, cuts: list[int]) -> list[bytes]:
    edges = [0, *sorted(cut % len(data) for cut in cuts), len(data)]
    return [data[start:end] for start, end in pairwise(edges)]


@settings(max_examples=200, deadline=None)
@given(
    st.sampled_from(list(Encoding)),
    st.text(KINDS, min_size=20, max_size=60),
    st.lists(st.integers(0, 1 << 16), max_size=8),
)
def test_each_request_arrives_once(encoding: Encoding, kinds: str, cuts: list[int]) -> None:
    plain, bulk = Connection(), Connection(shapes=SendShapes(lambda _: True))
    opaque, many = 1000, 0
    for number in range(2 * LEARNED_AFTER + 2):
        frames = [frame(encoding, kind, opaque + place) for place, kind in enumerate(kinds)]
        opaque += len(kinds)
        expected = arrived(plain, plain.receive_data(b"".join(frames)))
        got: list[Arrived] = []
        for read in reads_of(b"".join(frames), cuts if number % 2 else []):
            events = bulk.receive_data(read)
            many += sum(isinstance(event, SendsArrived) for event in events)
            got += arrived(bulk, events)
        assert sorted(got, key=lambda one: one[0]) == expected
        others = [one for one in got if not isinstance(one[2], EndTransaction)]
        assert others == [one for one in expected if not isinstance(one[2], EndTransaction)], "in their order"
    begins = kinds.replace("e", "").startswith("ssss")
    assert many or not begins, "sends arrive as one event, whatever ends are between them"


def test_a_broken_frame_is_left_for_the_splitter() -> None:
    connection = Connection(shapes=SendShapes(lambda _: True))
    broken = bytes(4) + frame(Encoding.JSON, "e", 1)[4:]
    events = connection.receive_data(broken * 8)
    assert connection.is_ended
    assert [type(event).__name__ for event in events] == ["StreamBroken"]


def test_a_peer_that_has_not_proved_who_it_is_teaches_no_shape() -> None:
    shapes = SendShapes(lambda _: True)
    connection = Connection(shapes=shapes, learns=False)
    sends = b"".join(frame(Encoding.JSON, "s", 1000 + number) for number in range(20))
    for _ in range(2 * LEARNED_AFTER):
        assert not any(isinstance(event, SendsArrived) for event in connection.receive_data(sends))
    assert not shapes.by_number
    connection.learns = True
    events = [connection.receive_data(sends) for _ in range(2 * LEARNED_AFTER)][-1]
    assert isinstance(events[0], SendsArrived)


def test_the_bytes_of_shapes_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sends_module, "SHAPES_BYTES_MAX", 10 * sends_module.SHAPE_BYTES)
    shapes = SendShapes(lambda _: True)
    for number in range(50):
        request = replace(SEND, topic=f"topic-{number:04}", properties="UNIQ_KEY\x0100000000\x02")
        sends = b"".join(encode_request(Encoding.JSON, request, opaque) for opaque in range(1000, 1008))
        connection = Connection(shapes=shapes)
        events = [connection.receive_data(sends) for _ in range(2 * LEARNED_AFTER)][-1]
        assert isinstance(events[0], SendsArrived)
        assert len(shapes.by_number) <= 10
