"""Answers that are owed: parked, paid in bulk, and counted while they are owed."""

from firearrow.protocol.codes import ResponseCode
from firearrow.protocol.refusal import Refused
from firearrow.protocol.requests.naming.kv_config import GetKvConfig, GetKvConfigAnswer, PutKvConfig
from firearrow.remoting.handlers import OWED_OVERHEAD_BYTES, Answer, Call, Handlers, Later
from tests.unit.remoting.memory import ask, echo, frame, serving, told, turns, virtually

COST = OWED_OVERHEAD_BYTES + len(ask(1)) - 8
PUT = PutKvConfig(namespace="n", key="k", value="v")


class Lot:
    """Parks every GetKvConfig."""

    def __init__(self) -> None:
        self.parked: list[Later] = []
        self.handlers = Handlers()
        self.handlers.on(GetKvConfig, self.park)
        self.handlers.on(PutKvConfig, lambda *_: None)

    def park(self, _request: GetKvConfig, call: Call) -> Later:
        self.parked.append(call.later())
        return self.parked[-1]

    def pay(self, count: int) -> None:
        for later in self.parked[:count]:
            later.answer(Answer(GetKvConfigAnswer(value="paid")))
        del self.parked[:count]


def test_answers_of_one_turn_are_one_write_for_each_connection() -> None:
    async def scenario() -> None:
        lot = Lot()
        server, network = await serving(lot.handlers)
        peers = [network.arrive() for _ in range(3)]
        for peer in peers:
            peer.hear(b"".join(ask(n) for n in range(100)))
            assert peer.writes == []
        assert server._endpoint is not None
        assert server._endpoint.budget.held > 300 * OWED_OVERHEAD_BYTES
        lot.pay(300)
        assert [peer.writes for peer in peers] == [[], [], []]
        await turns()
        for peer in peers:
            assert len(peer.writes) == 1
            assert [(a.opaque, a.value) for a in told(peer.said())] == [(n, "paid") for n in range(100)]
        assert server._endpoint.budget.held == 0

    virtually(scenario())


def test_only_the_first_answer_counts() -> None:
    async def scenario() -> None:
        lot = Lot()
        _, network = await serving(lot.handlers)
        peer = network.arrive()
        peer.hear(ask(1))
        (later,) = lot.parked
        assert later.is_owed
        assert later.refuse(ResponseCode.SYSTEM_BUSY, "not now")
        assert not later.is_owed
        assert not later.answer()
        await turns()
        assert [(a.code, a.remark) for a in told(peer.said())] == [(2, "not now")]

    virtually(scenario())


def test_an_answer_to_nobody_says_so() -> None:
    async def scenario() -> None:
        lot = Lot()
        server, network = await serving(lot.handlers)
        peer = network.arrive()
        peer.hear(ask(1) + ask(2))
        peer.lose(ConnectionResetError())
        assert server._endpoint is not None
        assert server._endpoint.budget.held == 0
        assert not lot.parked[0].is_owed
        assert not lot.parked[0].answer()
        await turns()
        assert peer.writes == []
        assert server._endpoint.budget.held == 0

    virtually(scenario())


def test_a_handler_that_parks_and_then_refuses_has_refused() -> None:
    async def scenario() -> None:
        parked: list[Later] = []

        def waver(_request: GetKvConfig, call: Call) -> Later:
            parked.append(call.later())
            assert call.later() is parked[-1]
            raise Refused(ResponseCode.NO_PERMISSION, "changed my mind")

        handlers = Handlers()
        handlers.on(GetKvConfig, waver)
        server, network = await serving(handlers)
        peer = network.arrive()
        peer.hear(ask(1))
        assert not parked[0].answer()
        assert [(a.code, a.remark) for a in told(peer.said())] == [(16, "changed my mind")]
        assert server._endpoint is not None
        assert server._endpoint.budget.held == 0

    virtually(scenario())


def test_a_parked_one_way_request_is_never_answered() -> None:
    async def scenario() -> None:
        lot = Lot()
        server, network = await serving(lot.handlers)
        peer = network.arrive()
        peer.hear(ask(1, oneway=True))
        lot.pay(1)
        await turns()
        assert peer.writes == []
        assert server._endpoint is not None
        assert server._endpoint.budget.held == 0

    virtually(scenario())


def test_a_connection_that_is_owed_too_much_is_not_read() -> None:
    async def scenario() -> None:
        lot = Lot()
        _, network = await serving(lot.handlers, max_connection_bytes=4 * COST)
        peer, other = network.arrive(), network.arrive()
        peer.hear(ask(1) + ask(2) + ask(3))
        assert peer.reads
        peer.hear(ask(4))
        assert not peer.reads
        assert other.reads
        lot.pay(1)
        assert peer.reads
        await turns()
        assert len(told(peer.said())) == 1

    virtually(scenario())


def test_nobody_is_read_while_everybody_together_is_owed_too_much() -> None:
    async def scenario() -> None:
        lot = Lot()
        _, network = await serving(lot.handlers, max_in_flight_bytes=8 * COST)
        peers = [network.arrive() for _ in range(4)]
        for peer in peers[:3]:
            peer.hear(ask(1) + ask(2))
        assert all(peer.reads for peer in peers)
        peers[0].hear(ask(3) + ask(4))
        assert not any(peer.reads for peer in peers)
        newcomer = network.arrive()
        assert not newcomer.reads
        lot.pay(1)
        assert not peers[0].reads
        lot.pay(1)
        assert all(peer.reads for peer in [*peers, newcomer])
        peers[1].lose()
        peers[3].hear(frame(PUT, 9))
        assert len(told(peers[3].said())) == 1

    virtually(scenario())


def test_what_an_ended_connection_was_owed_frees_the_others() -> None:
    async def scenario() -> None:
        lot = Lot()
        _, network = await serving(lot.handlers, max_in_flight_bytes=2 * COST)
        one, two = network.arrive(), network.arrive()
        one.hear(ask(1) + ask(2))
        assert not two.reads
        one.lose()
        assert two.reads

    virtually(scenario())


def test_a_peer_that_does_not_read_is_not_read() -> None:
    async def scenario() -> None:
        handlers = Handlers()
        handlers.on(GetKvConfig, echo)
        _, network = await serving(handlers, write_high_water_bytes=10_000, max_unsent_bytes=100_000)
        peer = network.arrive()
        peer.is_stuck = True
        peer.hear(ask(1, b"x" * 5000))
        assert peer.reads
        peer.hear(ask(2, b"x" * 5000))
        assert not peer.reads
        peer.catch_up()
        assert peer.reads
        peer.hear(ask(3))
        assert [a.opaque for a in told(peer.said())] == [1, 2, 3]

    virtually(scenario())


def test_a_peer_that_never_reads_is_cut() -> None:
    async def scenario() -> None:
        lot = Lot()
        server, network = await serving(lot.handlers, write_high_water_bytes=10_000, max_unsent_bytes=50_000)
        peer = network.arrive()
        peer.is_stuck = True
        peer.hear(b"".join(ask(n) for n in range(10)))
        for later in lot.parked:
            later.answer(Answer(body=b"x" * 8000))
            await turns()
        assert peer.ended == "aborted"
        assert not lot.parked[-1].is_owed
        assert server.peers == ()

    virtually(scenario())
