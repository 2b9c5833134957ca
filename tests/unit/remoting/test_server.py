"""The answers of a server to its input."""

import logging

import pytest

from firearrow.errors import BrokenInvariant
from firearrow.protocol.codes import ResponseCode
from firearrow.protocol.command import Encoding
from firearrow.protocol.frame import prefix
from firearrow.protocol.refusal import Refused
from firearrow.protocol.requests.naming.kv_config import DeleteKvConfig, GetKvConfig, PutKvConfig
from firearrow.remoting.handlers import Answer, Call, Handlers
from tests.unit.remoting.memory import ask, echoing, frame, serving, told, turns, until, virtually

PUT = PutKvConfig(namespace="n", key="k", value="v")


def test_many_frames_in_one_read_are_answered_in_one_write() -> None:
    async def scenario() -> None:
        _, network = await serving()
        peer = network.arrive()
        peer.hear(b"".join(ask(n, b"b%d" % n) for n in range(400)))
        assert len(peer.writes) == 1
        answers = told(peer.said())
        assert [(a.opaque, a.value, a.body) for a in answers] == [(n, f"k{n}", b"b%d" % n) for n in range(400)]

    virtually(scenario())


def test_one_byte_at_a_time() -> None:
    async def scenario() -> None:
        server, network = await serving()
        peer = network.arrive()
        for n in range(3):
            for byte in ask(n, b"body"):
                await until(lambda: peer.reads)
                peer.hear(bytes([byte]))
        assert [(a.opaque, a.value, a.body) for a in told(peer.said())] == [(n, f"k{n}", b"body") for n in range(3)]
        assert server._endpoint is not None
        assert server._endpoint.partials.held == 0

    virtually(scenario())


def test_the_answer_is_written_as_the_request_was() -> None:
    async def scenario() -> None:
        _, network = await serving()
        peer = network.arrive()
        peer.hear(ask(1, encoding=Encoding.COMPACT) + ask(2, encoding=Encoding.JSON))
        assert [(a.encoding, a.opaque, a.value) for a in told(peer.said())] == [(1, 1, "k1"), (0, 2, "k2")]

    virtually(scenario())


def test_a_one_way_request_is_handled_and_not_answered() -> None:
    async def scenario() -> None:
        seen: list[str] = []

        def remember(request: PutKvConfig, call: Call) -> None:
            assert call.asked.is_oneway
            seen.append(request.value)

        def fail(_request: GetKvConfig, _call: Call) -> None:
            raise Refused(ResponseCode.SYSTEM_BUSY, "no")

        handlers = Handlers()
        handlers.on(PutKvConfig, remember)
        handlers.on(GetKvConfig, fail)
        _, network = await serving(handlers)
        peer = network.arrive()
        peer.hear(
            frame(PUT, oneway=True) + ask(2, oneway=True) + frame(DeleteKvConfig(namespace="", key=""), oneway=True)
        )
        await turns()
        assert seen == ["v"]
        assert peer.writes == []

    virtually(scenario())


def test_no_answer_is_success() -> None:
    async def scenario() -> None:
        handlers = Handlers()
        handlers.on(PutKvConfig, lambda *_: None)
        _, network = await serving(handlers)
        peer = network.arrive()
        peer.hear(frame(PUT, 7))
        (answer,) = told(peer.said())
        assert (answer.opaque, answer.code, answer.body) == (7, 0, b"")

    virtually(scenario())


@pytest.mark.complaints("handler failed")
def test_how_requests_are_declined(caplog: pytest.LogCaptureFixture) -> None:
    def refuse(_request: PutKvConfig, _call: Call) -> Answer:
        raise Refused(ResponseCode.TOPIC_NOT_EXIST, "no such topic")

    def fail(_request: DeleteKvConfig, _call: Call) -> Answer:
        raise KeyError("oops")

    async def scenario() -> None:
        handlers = echoing()
        handlers.on(PutKvConfig, refuse)
        handlers.on(DeleteKvConfig, fail)
        server, network = await serving(handlers)
        peer = network.arrive()
        missing = b'{"code":101,"opaque":4,"extFields":{"key":"k"}}'
        unknown = b'{"code":9999,"opaque":5}'
        untended = b'{"code":105,"opaque":6,"extFields":{"topic":"T"}}'
        peer.hear(frame(PUT, 1) + frame(DeleteKvConfig(namespace="", key=""), 2))
        for header in (missing, unknown, untended):
            peer.hear(prefix(0, len(header), 0) + header)
        answers = {a.opaque: (a.code, a.remark) for a in told(peer.said())}
        assert answers[1] == (ResponseCode.TOPIC_NOT_EXIST, "no such topic")
        assert answers[2] == (ResponseCode.SYSTEM_ERROR, "KeyError: 'oops'")
        assert answers[4][0] == ResponseCode.SYSTEM_ERROR
        assert answers[5] == (ResponseCode.REQUEST_CODE_NOT_SUPPORTED, " request type 9999 not supported")
        assert answers[6] == (ResponseCode.REQUEST_CODE_NOT_SUPPORTED, " request type 105 not supported")
        assert not peer.ended
        assert server.failures == 1

    with caplog.at_level(logging.ERROR):
        virtually(scenario())
    (record,) = caplog.records
    assert record.message == "handler failed: DELETE_KV_CONFIG of 10.0.0.1:5001: KeyError: 'oops'"


def test_a_broken_invariant_is_nobodys_answer() -> None:
    async def scenario() -> None:
        def broken(_request: PutKvConfig, _call: Call) -> Answer:
            raise BrokenInvariant("two plus two")

        handlers = Handlers()
        handlers.on(PutKvConfig, broken)
        _, network = await serving(handlers)
        peer = network.arrive()
        with pytest.raises(BrokenInvariant):
            peer.hear(frame(PUT))
        assert peer.writes == []

    virtually(scenario())


@pytest.mark.parametrize(
    "garbage",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        prefix(0, 0, 16 * 1024 * 1024),
        b"\x00\x00\x00\x04\x02\x00\x00\x00",
        b"\x00\x00\x00\x03\x00\x00\x00\x00",
        b"\xff\xff\xff\xff\x00\x00\x00\x00",
        prefix(0, 3, 0) + b"{{{",
        prefix(1, 3, 0) + b"abc",
    ],
)
def test_garbage_ends_the_connection_after_the_answers_before_it(garbage: bytes) -> None:
    async def scenario() -> None:
        server, network = await serving()
        peer, other = network.arrive(), network.arrive()
        peer.hear(ask(1) + garbage + ask(2))
        assert [a.opaque for a in told(peer.said())] == [1]
        assert peer.ended == "closed"
        await turns()
        assert len(server.peers) == 1
        other.hear(ask(3))
        assert [a.opaque for a in told(other.said())] == [3]

    virtually(scenario())


def test_urgent_requests_of_one_read_go_first() -> None:
    async def scenario() -> None:
        handlers = echoing()
        handlers.on(PutKvConfig, lambda *_: None, urgent=True)
        _, network = await serving(handlers)
        peer = network.arrive()
        peer.hear(ask(1) + frame(PUT, 2) + ask(3) + frame(PUT, 4))
        assert [a.opaque for a in told(peer.said())] == [2, 4, 1, 3]
        peer.hear(ask(5) + ask(6))
        assert [a.opaque for a in told(peer.said())] == [5, 6]

    virtually(scenario())


def test_a_request_has_one_handler() -> None:
    handlers = echoing()
    with pytest.raises(ValueError, match="GET_KV_CONFIG already has a handler"):
        handlers.on(GetKvConfig, lambda *_: None)


def test_what_a_handler_sees() -> None:
    async def scenario() -> None:
        calls: list[Call] = []

        def look(_request: GetKvConfig, call: Call) -> None:
            calls.append(call)
            call.peer.slots["seen"] = call.peer.slots.get("seen", 0) + 1

        handlers = Handlers()
        handlers.on(GetKvConfig, look)
        _, network = await serving(handlers)
        peer = network.arrive()
        header = (
            b'{"code":101,"opaque":4,"language":"GO","version":317,"extFields":{"namespace":"n","key":"k","x":"y"}}'
        )
        peer.hear((prefix(0, len(header), 3) + header + b"abc") * 2)
        call = calls[0]
        assert (call.version, call.language, call.encoding, call.body) == (317, "GO", 0, b"abc")
        assert call.ext_fields == {"namespace": "n", "key": "k", "x": "y"}
        assert str(call.peer.address) == "10.0.0.1:5001"
        assert call.peer.is_open
        assert call.peer.is_writable
        assert call.peer.slots == {"seen": 2}
        call.peer.close()
        assert peer.ended == "closed"
        assert not call.peer.is_open

    virtually(scenario())


def test_hooks_run_when_a_connection_opens_and_ends() -> None:
    async def scenario() -> None:
        server, network = await serving()
        events: list[str] = []
        assert server._endpoint is not None
        server._endpoint.on_connect = lambda peer: events.append(f"+{peer.address.port}")
        server._endpoint.on_disconnect = lambda peer: events.append(f"-{peer.address.port} {peer.is_open}")
        one, two = network.arrive(), network.arrive()
        one.lose(ConnectionResetError())
        two.hear(ask())
        two.lose()
        assert events == ["+5001", "+5002", "-5001 False", "-5002 False"]
        assert server.peers == ()

    virtually(scenario())


def test_stop_sends_what_is_queued_and_leaves_nothing() -> None:
    async def scenario() -> None:
        server, network = await serving()
        peers = [network.arrive() for _ in range(3)]
        for peer in peers:
            peer.hear(ask())
        await server.stop()
        assert [peer.ended for peer in peers] == ["closed"] * 3
        late = network.arrive()
        assert late.ended == "aborted"
        await turns()
        assert server.peers == ()

    virtually(scenario())
