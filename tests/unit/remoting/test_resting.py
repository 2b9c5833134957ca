"""Connections whose requests are refused unread rest for a while, are refused once more, and then are served again."""

import asyncio
from itertools import count

from firearrow.protocol.codes import RequestCode, ResponseCode
from firearrow.protocol.command import Encoding
from firearrow.protocol.requests.group.heartbeat import HeartBeat
from firearrow.protocol.shedding import Refusals, beginnings
from firearrow.remoting.endpoint import SPREAD
from firearrow.remoting.load_shedding import SMALL_READ_BYTES
from firearrow.remoting.room import MOST_IN_A_TURN, PIECE_BYTES
from firearrow.remoting.server import Server
from firearrow.remoting.turns import LONG_TURN_NS, Turns
from firearrow.runtime.turn import TurnBudgets
from tests.unit.remoting.memory import (
    HERE,
    MemoryNetwork,
    MemoryTransport,
    ask,
    echoing,
    frame,
    serving,
    told,
    until,
    virtually,
)

BUSY = 2
REST_S = 0.2


class Door:
    """Refuses questions while it is shut, and late ones while it is busy."""

    rest_s = REST_S
    beginnings = beginnings({RequestCode.GET_KV_CONFIG})

    def __init__(self) -> None:
        self.shut = self.is_busy = False
        self.pace_s = 0.0
        self.count = 0
        self._refusals = Refusals(frozenset({int(RequestCode.GET_KV_CONFIG)}), None, BUSY, "busy")

    def is_shut(self) -> bool:
        return self.shut

    def is_behind(self) -> bool:
        return self.is_busy

    def refusals(self) -> Refusals:
        return self._refusals

    def refused_some(self, count: int) -> None:
        self.count += count


async def behind(door: Door) -> tuple[Server, MemoryNetwork]:
    handlers = echoing()
    handlers.shedding = door
    return await serving(handlers)


def heard(peer: MemoryTransport, *opaques: int) -> list[int]:
    """The codes of the answers to some questions."""
    peer.hear(b"".join(ask(opaque) for opaque in opaques))
    return [answer.code for answer in told(peer.said())]


def test_who_is_refused_rests_and_is_refused_once_more() -> None:
    async def scenario() -> None:
        door = Door()
        server, network = await behind(door)
        peer, other = network.arrive(), network.arrive()
        assert heard(peer, 1) == [0]
        door.shut = door.is_busy = True
        began = asyncio.get_running_loop().time()
        assert heard(peer, 2, 3) == [BUSY, BUSY]
        assert not peer.reads
        assert other.reads
        await until(lambda: peer.reads)
        assert REST_S <= asyncio.get_running_loop().time() - began <= REST_S * (1 + SPREAD)
        door.shut = False
        assert heard(peer, 4, 5) == [BUSY, BUSY], "they came while it rested"
        assert peer.reads, "nobody rests twice in a row"
        assert heard(peer, 6) == [0]
        assert door.count == 4
        await server.stop()

    virtually(scenario())


def test_who_rested_is_served_when_there_is_time_again() -> None:
    async def scenario() -> None:
        door = Door()
        server, network = await behind(door)
        peers = [network.arrive() for _ in range(3)]
        door.shut = True
        for peer in peers:
            heard(peer, 1)
        assert [peer.reads for peer in peers] == [False, False, False]
        door.shut = False
        await until(lambda: any(peer.reads for peer in peers))
        assert not all(peer.reads for peer in peers), "those who began together do not come back together"
        await until(lambda: all(peer.reads for peer in peers))
        assert [heard(peer, 2) for peer in peers] == [[0], [0], [0]]
        await server.stop()

    virtually(scenario())


def test_who_is_served_rests_for_a_moment_while_there_is_too_much_to_do() -> None:
    async def scenario() -> None:
        door = Door()
        server, network = await behind(door)
        served, refused, large = network.arrive(), network.arrive(), network.arrive()
        door.shut = True
        assert heard(refused, 1) == [BUSY]
        door.shut, door.pace_s = False, REST_S / 4
        began = asyncio.get_running_loop().time()
        assert heard(served, 1) == [0]
        assert set(heard(large, *range(SMALL_READ_BYTES // len(ask(1)) + 1))) == {0}
        assert large.reads, "a read that brought much is worth its cost"
        assert not served.reads
        await until(lambda: served.reads)
        assert REST_S / 4 <= asyncio.get_running_loop().time() - began < REST_S
        assert not refused.reads, "who was refused rests longer"
        door.pace_s = 0.0
        assert heard(served, 2) == [0]
        assert served.reads
        await until(lambda: refused.reads)
        await server.stop()

    virtually(scenario())


def test_a_resting_connection_may_end() -> None:
    async def scenario() -> None:
        door = Door()
        server, network = await behind(door)
        lost, closed = network.arrive(), network.arrive()
        door.shut = True
        heard(lost, 1)
        heard(closed, 1)
        lost.lose()
        await server.stop()
        assert closed.ended == "closed"
        await asyncio.sleep(2 * REST_S)

    virtually(scenario())


def test_a_read_that_begins_with_something_else_is_read_and_nobody_rests() -> None:
    async def scenario() -> None:
        door = Door()
        server, network = await behind(door)
        peer = network.arrive()
        door.shut, door.pace_s = True, 0.05
        peer.hear(frame(HeartBeat(), 1) + ask(2))
        assert [answer.opaque for answer in told(peer.said())] == [1, 2]
        assert door.count == 0
        assert peer.reads
        await server.stop()

    virtually(scenario())


def test_what_comes_behind_requests_that_were_set_aside_does_not_pass_them_unread() -> None:
    async def scenario() -> None:
        door = Door()
        _, network = await behind(door)
        peer = network.arrive()
        data = b"".join(ask(number, encoding=Encoding.COMPACT) for number in range(MOST_IN_A_TURN + 1))
        assert len(data) <= PIECE_BYTES, "they are set aside because they are many, not because they are long"
        peer.hear(data)
        assert not peer.reads
        door.shut = True
        assert peer.protocol is not None
        peer.protocol.data_received(ask(MOST_IN_A_TURN + 1))  # as a layer of TLS may
        await until(lambda: peer.reads)
        answers = told(peer.said())
        assert [answer.opaque for answer in answers] == list(range(MOST_IN_A_TURN + 2))
        assert {answer.code for answer in answers[:-1]} == {0}
        assert answers[-1].code == ResponseCode.SYSTEM_BUSY, "refused, but in its turn"

    virtually(scenario())


def test_a_hushed_server_reads_no_request_any_more() -> None:
    """Neither of a connection that rested, nor of one that opens meanwhile, nor what was read and waits for a turn."""

    async def scenario() -> None:
        door, network, clock = Door(), MemoryNetwork(), count(0, LONG_TURN_NS)
        handlers = echoing()
        handlers.shedding = door
        server = Server(
            network, handlers, turns=Turns(TurnBudgets(lambda: next(clock)))
        )  # every read takes a whole turn
        await server.start(HERE)
        rests, waits, silent = (network.arrive() for _ in range(3))
        assert heard(rests, 1) == [0]
        await asyncio.sleep(0.01)
        door.shut = True
        assert heard(rests, 2) == [BUSY]
        door.shut = False
        await asyncio.sleep(0.01)
        waits.hear(ask(3))
        assert len(told(waits.said())) == 1
        waits.hear(ask(4))
        assert told(waits.said()) == [], "the second waits for the next turn"
        await server.hush()
        late = network.arrive()
        await asyncio.sleep(10 * REST_S)
        assert [peer.reads for peer in (rests, waits, silent, late)] == [False] * 4
        assert told(waits.said()) == []
        await server.stop()

    virtually(scenario())
