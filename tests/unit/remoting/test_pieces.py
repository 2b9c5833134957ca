"""One connection takes a part of a turn of the loop, whatever it brings, and others have theirs in between."""

import asyncio

import pytest

from campaigns.samples import SEND
from firearrow.protocol.command import Encoding
from firearrow.protocol.requests.message.send import SendMessageV2
from firearrow.protocol.requests.naming.kv_config import GetKvConfig, GetKvConfigAnswer
from firearrow.protocol.serialize import encode_request
from firearrow.remoting import turns as turns_module
from firearrow.remoting.endpoint import Endpoint
from firearrow.remoting.handlers import Answer, Call, Handlers
from firearrow.remoting.room import DRIBBLE_REST_MAX_S, MOST_IN_A_TURN, PIECE_BYTES
from firearrow.remoting.turns import AT_ONCE_MAX
from tests.unit.remoting.memory import MemoryTransport, ask, echoing, frame, serving, told, turns, until, virtually

QUESTIONS = 10_000


class Counter:
    """Answers at once, and knows how many it answered in every turn of the loop."""

    def __init__(self) -> None:
        self.in_turns: list[int] = []
        self.handlers = Handlers()
        self.handlers.on(GetKvConfig, self.get)

    def get(self, request: GetKvConfig, _call: Call) -> Answer:
        if not self.in_turns:
            self._next_turn()
        self.in_turns[-1] += 1
        return Answer(GetKvConfigAnswer(value=request.key))

    def _next_turn(self) -> None:
        self.in_turns.append(0)
        if len(self.in_turns) < 4 * QUESTIONS // MOST_IN_A_TURN:
            asyncio.get_running_loop().call_soon(self._next_turn)


def many(count: int) -> bytes:
    """Questions so short that more than ``MOST_IN_A_TURN`` of them make a piece."""
    data = b"".join(ask(number, encoding=Encoding.COMPACT) for number in range(count))
    assert len(data) / count < PIECE_BYTES / MOST_IN_A_TURN
    return data


def numbers(peer: MemoryTransport) -> list[int]:
    return [one.opaque for one in told(peer.said())]


def test_a_read_of_many_requests_is_answered_in_turns_and_in_order() -> None:
    async def scenario() -> None:
        counter = Counter()
        _, network = await serving(counter.handlers)
        peer, other = network.arrive(), network.arrive()
        peer.hear(many(QUESTIONS))
        assert not peer.reads, "a loop that reads again within the turn finds nobody who listens"
        other.hear(ask(7))
        assert numbers(other) == [7]
        first = numbers(peer)
        assert first == list(range(MOST_IN_A_TURN))
        while not peer.reads:
            await turns()
        assert first + numbers(peer) == list(range(QUESTIONS))
        assert max(counter.in_turns) <= 2 * MOST_IN_A_TURN + 1, "as the turn reads, and from the line behind it"
        peer.hear(ask(1))
        assert numbers(peer) == [1]

    virtually(scenario())


def test_pieces_of_fewer_requests_than_a_turn_has_do_not_make_it_longer() -> None:
    async def scenario() -> None:
        counter = Counter()
        _, network = await serving(counter.handlers)
        peer = network.arrive()
        data = b"".join(ask(number) for number in range(QUESTIONS))
        assert len(data) / QUESTIONS > PIECE_BYTES / MOST_IN_A_TURN
        peer.hear(data)
        first = numbers(peer)
        while not peer.reads:
            await turns()
        assert first + numbers(peer) == list(range(QUESTIONS))
        assert len(first) <= MOST_IN_A_TURN + AT_ONCE_MAX
        assert max(counter.in_turns) <= 2 * (MOST_IN_A_TURN + AT_ONCE_MAX)

    virtually(scenario())


def test_bytes_that_come_before_the_rest_is_taken_wait_behind_it() -> None:
    async def scenario() -> None:
        _, network = await serving()
        peer = network.arrive()
        data = b"".join(ask(number) for number in range(3000))
        assert len(data) > 3 * PIECE_BYTES // 2
        assert peer.protocol is not None
        peer.protocol.data_received(data[:-20])
        peer.protocol.data_received(data[-20:] + ask(3000))  # as a layer of TLS may
        while not peer.reads:
            await turns()
        assert numbers(peer) == list(range(3001))

    virtually(scenario())


def test_a_connection_that_ends_takes_the_rest_along() -> None:
    async def scenario() -> None:
        counter = Counter()
        _, network = await serving(counter.handlers)
        peer = network.arrive()
        peer.hear(many(QUESTIONS))
        peer.lose()
        for _ in range(50):
            await turns()
        assert sum(counter.in_turns) <= 2 * MOST_IN_A_TURN

    virtually(scenario())


def test_a_large_frame_is_taken_in_one_turn() -> None:
    async def scenario() -> None:
        _, network = await serving()
        peer = network.arrive()
        body = bytes(range(256)) * 4096
        peer.hear(ask(1, body))
        assert [one.body for one in told(peer.said())] == [body]
        assert peer.reads

    virtually(scenario())


def test_sends_that_are_handed_back_are_handled_in_turns_and_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    handled: list[int] = []

    def send(_request: SendMessageV2, call: Call) -> Answer:
        handled.append(call.asked.heading.opaque)
        return Answer()

    async def scenario() -> None:
        handlers = echoing()
        handlers.on(SendMessageV2, send)
        handlers.on_many_sends(lambda _sends, _peer: False, lambda _request: True)
        _, network = await serving(handlers)
        peer = network.arrive()
        sends = [encode_request(Encoding.COMPACT, SEND, number, body_size=1) + b"x" for number in range(1000)]
        for start in range(0, 40, 8):
            peer.hear(b"".join(sends[start : start + 8]))
        peer.said()
        handled.clear()
        await turns()
        for length in ("TURN_NS", "LONG_TURN_NS"):
            monkeypatch.setattr(turns_module, length, 0)
        count = PIECE_BYTES // len(sends[0]) - 1
        peer.hear(b"".join(sends[:count]) + ask(7777))
        assert 0 < len(handled) <= AT_ONCE_MAX, "the time is looked at after every few"
        while not peer.reads:
            await turns()
        assert handled == list(range(count))
        assert numbers(peer) == [*range(count), 7777], "what came behind them is answered behind them"

    virtually(scenario())


WATCHED_S = 4.0


async def say_byte_by_byte() -> None:
    _, network = await serving(echoing())
    peer, loop, reads = network.arrive(), asyncio.get_running_loop(), 0
    whole = frame(GetKvConfig(namespace="n", key="k"), 1, b"x" * 10_000)
    while loop.time() < WATCHED_S:
        if peer.reads:
            peer.hear(whole[reads : reads + 1])
            reads += 1
        await asyncio.sleep(0.001)
    assert reads <= WATCHED_S / DRIBBLE_REST_MAX_S + 10, f"it was read {reads} times"
    await until(lambda: peer.reads)
    peer.hear(whole[reads:])
    await until(peer.said)
    assert peer.reads, "it rests after its frame was complete"
    peer.hear(whole[:100])
    assert peer.reads, "it rests although a frame in two reads is nothing unusual"


def test_a_frame_that_comes_byte_by_byte_is_read_in_fewer_and_larger_reads() -> None:
    virtually(say_byte_by_byte())


def test_a_peer_that_sends_byte_by_byte_and_never_rests_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Endpoint, "rest", lambda *_: None)
    with pytest.raises(AssertionError, match="it was read"):
        virtually(say_byte_by_byte())


def test_a_frame_in_a_few_pieces_is_answered_without_a_rest() -> None:
    async def scenario() -> None:
        _, network = await serving()
        peer = network.arrive()
        for number in range(3):
            data = ask(number, b"body")
            for piece in (data[:4], data[4:8], data[8:20], data[20:]):
                assert peer.reads, "the connection rests"
                peer.hear(piece)
        assert numbers(peer) == [0, 1, 2]

    virtually(scenario())


def test_a_large_frame_with_tiny_reads_between_is_answered_without_a_rest() -> None:
    async def scenario() -> None:
        _, network = await serving()
        peer = network.arrive()
        data = ask(1, bytes(1_000_000))
        at = 0
        while at < len(data):
            for size in (100_000, 41, 101, 25):
                assert peer.reads, "the connection rests"
                peer.hear(data[at : at + size])
                at += size
                if at >= len(data):
                    break
            await turns()
        assert numbers(peer) == [1]

    virtually(scenario())
