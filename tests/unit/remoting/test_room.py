"""Room for answers: asked for before they are made, by each connection and by all."""

import asyncio
from typing import Any

import pytest

from firearrow.protocol.requests.naming.kv_config import GetKvConfig, GetKvConfigAnswer
from firearrow.remoting import endpoint
from firearrow.remoting.flow import LOOK_EVERY_S, UNCOUNTED_BYTES, UnsentBytes
from firearrow.remoting.handlers import Answer, Call, Handlers, Later
from firearrow.remoting.server import Server
from tests.unit.remoting.memory import ask, serving, told, turns, virtually

KIB = 1024


class Library:
    """Answers every question with a body of 10 KiB, at once or later, and counts what it made."""

    def __init__(self, *, later: bool = False, promise: int = 10 * KIB) -> None:
        self.made = 0
        self.parked: list[Later] = []
        self._later = later
        self._promise = promise
        self.handlers = Handlers()
        self.handlers.on(GetKvConfig, self.get)

    def get(self, request: GetKvConfig, call: Call) -> Answer | Later:
        if not self._later:
            return self.answer(request.key)
        later = call.later()
        later.promise(self._promise)
        self.parked.append(later)
        return later

    def answer(self, key: str = "k") -> Answer:
        self.made += 1
        return Answer(GetKvConfigAnswer(value=key), b"x" * 10 * KIB)


def questions(count: int) -> bytes:
    return b"".join(ask(number) for number in range(count))


def held(server: Server) -> tuple[int, int]:
    assert server._endpoint is not None
    return server._endpoint.promises.held, server._endpoint.unsent.held


def test_requests_of_one_read_wait_until_the_peer_reads() -> None:
    async def scenario() -> None:
        library = Library()
        _, network = await serving(library.handlers, write_high_water_bytes=40 * KIB)
        peer = network.arrive()
        peer.is_stuck = True
        peer.hear(questions(100))
        assert library.made <= 5
        assert not peer.reads
        answered: list[int] = []
        for _ in range(50):
            answered += [one.opaque for one in told(peer.said())]
            peer.catch_up()
            peer.is_stuck = True
            await turns()
        assert answered == list(range(100))
        assert peer.reads

    virtually(scenario())


def test_a_peer_that_reads_gets_all_answers_of_a_read_without_a_pause() -> None:
    async def scenario() -> None:
        library = Library()
        _, network = await serving(library.handlers, write_high_water_bytes=40 * KIB)
        peer = network.arrive()
        peer.hear(questions(100))
        assert [one.opaque for one in told(peer.said())] == list(range(100))
        assert peer.reads

    virtually(scenario())


def test_promised_answers_take_the_room_of_their_connection() -> None:
    async def scenario() -> None:
        library = Library(later=True)
        server, network = await serving(library.handlers, max_connection_answer_bytes=30 * KIB)
        peer, other = network.arrive(), network.arrive()
        peer.hear(questions(10))
        assert len(library.parked) == 3
        assert not peer.reads
        other.hear(ask(1))
        assert len(library.parked) == 4
        for number in range(11):
            assert len(library.parked) > number
            library.parked[number].answer(library.answer())
            await turns()
        assert sorted(one.opaque for one in told(peer.said())) == list(range(10))
        assert len(told(other.said())) == 1
        assert peer.reads
        assert held(server)[0] == 0

    virtually(scenario())


def test_promised_answers_take_the_room_of_all() -> None:
    async def scenario() -> None:
        library = Library(later=True)
        server, network = await serving(library.handlers, max_answer_bytes=30 * KIB)
        peers = [network.arrive() for _ in range(3)]
        for peer in peers:
            peer.hear(questions(4))
        # Whoever finds no room has its first request handled, which cannot be known to be large, and no more of them.
        assert len(library.parked) == 3 + 1 + 1
        number = 0
        while number < 12:
            assert len(library.parked) > number, "a connection waits although there is room"
            library.parked[number].answer(library.answer())
            number += 1
            await turns()
        assert [len(told(peer.said())) for peer in peers] == [4, 4, 4]
        assert held(server)[0] == 0

    virtually(scenario())


@pytest.mark.parametrize("limits", [{"max_connection_answer_bytes": 30 * KIB}, {"max_answer_bytes": 30 * KIB}])
def test_the_room_of_a_connection_that_ends_is_free_again(limits: dict[str, Any]) -> None:
    async def scenario() -> None:
        library = Library(later=True)
        server, network = await serving(library.handlers, **limits)
        peer, other = network.arrive(), network.arrive()
        peer.hear(questions(10))
        other.hear(questions(2))
        peer.lose()
        await turns()
        for later in library.parked:
            later.answer(library.answer())
        await turns()
        assert held(server)[0] == 0
        assert len(told(other.said())) == 2

    virtually(scenario())


def test_what_is_held_is_in_no_budget_and_keeps_no_header() -> None:
    async def scenario() -> None:
        kept: list[Later] = []

        def keep(_request: GetKvConfig, call: Call) -> Later:
            call.later().promise(10 * KIB)
            kept.append(call.hold())
            assert call.hold() is kept[-1]
            return kept[-1]

        handlers = Handlers()
        handlers.on(GetKvConfig, keep)
        server, network = await serving(handlers)
        peer = network.arrive()
        peer.hear(questions(100))
        assert server._endpoint is not None
        assert (server._endpoint.budget.held, held(server)[0]) == (0, 0)
        assert not any(later._asked.header or later._asked.body for later in kept)
        for later in kept:
            assert later.answer(Answer(GetKvConfigAnswer(value="v")))
        await turns()
        assert len(peer.writes) == 1
        assert [one.opaque for one in told(peer.said())] == list(range(100))
        assert server._endpoint.budget.held == 0

    virtually(scenario())


def test_past_the_limit_of_all_the_peer_that_read_nothing_for_the_longest_is_cut() -> None:
    async def scenario() -> None:
        library = Library()
        limits = {"max_all_unsent_bytes": 400 * KIB, "write_high_water_bytes": 100 * KIB}
        server, network = await serving(library.handlers, **limits)
        deaf, reading = network.arrive(), network.arrive()
        deaf.is_stuck = True
        deaf.hear(questions(20))
        assert server._endpoint is not None
        for _ in range(20):
            await asyncio.sleep(LOOK_EVERY_S)
            reading.is_stuck = True
            reading.hear(questions(20))
            reading.catch_up()
            await turns()
        later = [network.arrive() for _ in range(3)]
        for peer in later:
            await asyncio.sleep(LOOK_EVERY_S)
            peer.is_stuck = True
            peer.hear(questions(20))
        assert (deaf.ended, reading.ended) == ("aborted", "")
        assert [peer.ended for peer in later] == ["aborted", "", ""]  # down to three quarters, the oldest first
        assert held(server)[1] <= 400 * KIB

    virtually(scenario())


def test_memory_of_unread_answers_is_given_back_when_their_connections_are_gone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    given: list[float] = []
    monkeypatch.setattr(endpoint, "give_back_memory", lambda: given.append(asyncio.get_running_loop().time()))
    monkeypatch.setattr(endpoint, "MUCH_BYTES", 200 * KIB)

    async def scenario() -> None:
        _, network = await serving(Library().handlers, write_high_water_bytes=100 * KIB)
        deaf = [network.arrive() for _ in range(4)]
        for peer in deaf:
            peer.is_stuck = True
            peer.hear(questions(20))
        await turns()
        for peer in deaf:
            assert given == []
            peer.lose()
        await asyncio.sleep(2)
        assert len(given) == 1

    virtually(scenario())


def test_who_has_read_meanwhile_is_seen_before_anybody_is_cut() -> None:
    class Peer:
        def __init__(self, unsent: int) -> None:
            self.unsent = unsent
            self.reason = ""

        @property
        def unfreed(self) -> int:
            return self.unsent

        def cut(self, reason: str) -> None:
            self.reason = reason

    now = 0.0
    unsent = UnsentBytes(10 * UNCOUNTED_BYTES, lambda: now)
    fast = [Peer(0) for _ in range(20)]
    for peer in fast:  # each has read everything again before the next is written to
        unsent.update(peer, 5 * UNCOUNTED_BYTES, 5 * UNCOUNTED_BYTES)
        now += LOOK_EVERY_S
    assert not any(peer.reason for peer in fast)
    slow = Peer(4 * UNCOUNTED_BYTES)
    unsent.update(slow, 5 * UNCOUNTED_BYTES, 5 * UNCOUNTED_BYTES)
    deaf = Peer(6 * UNCOUNTED_BYTES)
    now += 1
    unsent.update(deaf, 6 * UNCOUNTED_BYTES, 6 * UNCOUNTED_BYTES)
    now += 1
    slow.unsent = 2 * UNCOUNTED_BYTES
    third = Peer(5 * UNCOUNTED_BYTES)
    unsent.update(third, third.unsent, third.unfreed)
    assert [bool(peer.reason) for peer in (slow, deaf, third)] == [False, True, False]


def test_what_peers_do_not_read_is_bounded_also_between_two_looks() -> None:
    class Peer:
        unsent = UNCOUNTED_BYTES
        unfreed = 4 * UNCOUNTED_BYTES

        def __init__(self) -> None:
            self.is_cut = False

        def cut(self, _reason: str) -> None:
            self.is_cut = True

    limit = 40 * UNCOUNTED_BYTES
    unsent, peers = UnsentBytes(limit, lambda: 5.0), [Peer() for _ in range(100)]
    for number, peer in enumerate(peers):  # all at one moment
        unsent.update(peer, peer.unsent, peer.unfreed)
        held = sum(one.unfreed for one in peers[: number + 1] if not one.is_cut)
        assert held <= limit * 5 // 4 + peer.unfreed
