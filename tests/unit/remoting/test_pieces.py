"""One connection takes a part of a turn of the loop, whatever it brings, and others have theirs in between."""

import asyncio

import pytest

from campaigns.samples import SEND
from firearrow.protocol.command import Encoding
from firearrow.protocol.requests.message.send import SendMessageV2
from firearrow.protocol.requests.naming.kv_config import GetKvConfig, GetKvConfigAnswer
from firearrow.protocol.serialize import encode_request
from firearrow.remoting import connection
from firearrow.remoting.connection import HANDLED_AT_ONCE, MOST_IN_A_TURN
from firearrow.remoting.handlers import Answer, Call, Handlers
from firearrow.remoting.pieces import PIECE_BYTES
from tests.unit.remoting.memory import MemoryTransport, ask, echoing, serving, told, turns, virtually

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
        assert max(counter.in_turns) <= MOST_IN_A_TURN + 1
        peer.hear(ask(1))
        assert numbers(peer) == [1]

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
        assert not peer.reads
        await turns()
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
        monkeypatch.setattr(connection, "TURN_S", -1.0)
        count = PIECE_BYTES // len(sends[0]) - 1
        peer.hear(b"".join(sends[:count]) + ask(7777))
        assert len(handled) == HANDLED_AT_ONCE, "the time is looked at after every few"
        while not peer.reads:
            await turns()
        assert handled == list(range(count))
        assert numbers(peer) == [*range(count), 7777], "what came behind them is answered behind them"

    virtually(scenario())
