"""Connections share the CPU of a server's loop: a client that asks little waits for none that asks much."""

import asyncio
from collections.abc import Callable
from typing import cast

import pytest

from firearrow.protocol.frame import prefix
from firearrow.protocol.requests.naming.kv_config import GetKvConfig, GetKvConfigAnswer
from firearrow.remoting import room
from firearrow.remoting import turns as turns_of_loop
from firearrow.remoting.connection import ConnectionDriver
from firearrow.remoting.endpoint import Endpoint
from firearrow.remoting.handlers import Answer, Call, Handlers
from firearrow.remoting.room import PIECE_BYTES
from firearrow.remoting.turns import LONG_TURN_NS, TURN_NS, WAITING_BYTES_MAX, Turns, TurnTaker
from tests.unit.remoting.memory import frame, serving, told, turns, virtually

TURN_S = TURN_NS / 1e9
LONG_S = TURN_S / 2
"""CPU of an expensive request."""
SHORT_S = TURN_S / 100
READ_S = TURN_S / 50
"""CPU of a read, whatever it brings."""
HEAVY = 4
DRIBBLERS = 300
LARGE_READ = 4096
LARGE_READ_S = TURN_S / 5
HALVES = 128
MOST_S = 6 * TURN_S
"""CPU of others for which a small request may wait: the rest of a turn, the reads of the next, one request too many."""


def spend(seconds: float) -> None:
    asyncio.get_running_loop().now += seconds  # type: ignore[attr-defined]


class Costly:
    """Answers each question after the CPU that its body asks for."""

    def __init__(self) -> None:
        self.spent: dict[object, float] = {}
        self.handlers = Handlers()
        self.handlers.on(GetKvConfig, self.get)

    def get(self, request: GetKvConfig, call: Call) -> Answer:
        cost = float(call.body or b"0")
        spend(cost)
        self.spent[call.peer.address.port] = self.spent.get(call.peer.address.port, 0.0) + cost
        return Answer(GetKvConfigAnswer(value=request.key))


def costly(opaque: int, seconds: float) -> bytes:
    return frame(GetKvConfig(namespace="n", key=f"k{opaque}"), opaque, f"{seconds}".encode())


Say = Callable[[int], bytes]


def expensive(number: int) -> bytes:
    """As much as a read takes, all of it expensive."""
    return b"".join(costly(number * 100 + one, LONG_S) for one in range(100))


def dribble(number: int) -> bytes:
    """A byte of a frame that is not complete for long."""
    return prefix(0, 100, 1 << 20)[number : number + 1] or b"x"


def half_frame(number: int) -> bytes:
    """A large frame that never ends."""
    return prefix(0, 100, 15 << 20) if number == 0 else bytes(LARGE_READ)


async def waits_s(say: Say, peers: int, turns_seen: int = 300, read_s: float = READ_S) -> list[float]:
    """Let peers say more whenever they are read; return how long a client waited that asks little all the time.

    Its request comes while a turn begins to read the others.
    """
    _, network = await serving(Costly().handlers)
    light, others = network.arrive(), {network.arrive(): 0 for _ in range(peers)}
    loop, waits, asked_at, is_asked = asyncio.get_running_loop(), [], 0.0, False
    for number in range(turns_seen):
        asked_at = asked_at or loop.time()
        for other, said in others.items():
            if other.reads:
                spend(read_s)
                other.hear(say(said))
                others[other] += 1
        if not is_asked:
            is_asked = True
            light.hear(costly(number, SHORT_S))
        await asyncio.sleep(0)
        if light.said():
            waits.append(loop.time() - asked_at)
            asked_at, is_asked = 0.0, False
    assert len(waits) > turns_seen // 2, "the client was hardly served"
    return waits[len(waits) // 4 :]


async def beside_heavy() -> None:
    waited = max(await waits_s(expensive, HEAVY))
    assert waited <= MOST_S, f"waited for {waited / TURN_S:.1f} turns of CPU"


async def beside_dribblers() -> None:
    receive = ConnectionDriver.receive

    def receive_in_time(self: ConnectionDriver, data: bytes) -> None:
        spend(READ_S)
        receive(self, data)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ConnectionDriver, "receive", receive_in_time)
        waited = max(await waits_s(dribble, DRIBBLERS))
    assert waited <= MOST_S, f"waited for {waited / TURN_S:.1f} turns of CPU"


async def beside_half_frames() -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(turns_of_loop, "BYTES_A_NS", LARGE_READ / (LARGE_READ_S * 1e9))
        patch.setattr(room, "DRIBBLE_BYTES", 0)
        waited = max(await waits_s(half_frame, HALVES, read_s=LARGE_READ_S))
    assert waited <= 2 * LONG_TURN_NS / 1e9, f"waited for {waited / TURN_S:.1f} turns of CPU"


def test_a_client_that_asks_little_does_not_wait_for_those_that_ask_much() -> None:
    virtually(beside_heavy())


def test_a_client_that_asks_little_does_not_wait_for_many_that_send_byte_by_byte() -> None:
    virtually(beside_dribblers())


def charge_nothing(*_: object) -> bool:
    return False


def test_turns_that_charge_nothing_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Turns, "charge", charge_nothing)
    monkeypatch.setattr(Turns, "is_over", charge_nothing)
    with pytest.raises(AssertionError, match=r"turns of CPU|hardly served"):
        virtually(beside_heavy())


def test_byte_by_byte_without_rests_and_surcharge_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Endpoint, "rest", lambda *_: None)
    monkeypatch.setattr(room, "DRIBBLE_NS", 0)
    with pytest.raises(AssertionError, match=r"turns of CPU|hardly served"):
        virtually(beside_dribblers())


def test_a_client_that_asks_little_does_not_wait_for_many_whose_frames_do_not_end() -> None:
    virtually(beside_half_frames())


def test_reads_that_nobody_pays_for_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    charge = Turns.charge

    def charge_no_bytes(self: Turns, connection: TurnTaker, handled: int, surcharge_ns: int = 0, size: int = 0) -> bool:
        assert size
        return charge(self, connection, handled, surcharge_ns)

    monkeypatch.setattr(Turns, "charge", charge_no_bytes)
    with pytest.raises(AssertionError, match="turns of CPU"):
        virtually(beside_half_frames())


def test_a_frame_that_is_complete_pays_no_surcharge() -> None:
    async def scenario() -> None:
        server, network = await serving(Costly().handlers)
        large = network.arrive()
        (connection,) = cast("tuple[ConnectionDriver, ...]", server.peers)
        whole = frame(GetKvConfig(namespace="n", key="k"), 1, b"0" * (4 << 20))
        large.hear(whole[:-1])
        for _ in range(100):
            await asyncio.sleep(0)
        assert large.reads
        before = connection.mark
        assert before >= len(whole) // 2 * room.HALF_FRAME_NS
        marks: list[int] = []
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Turns, "wait", lambda _self, waiting: marks.append(waiting.mark))
            large.hear(whole[-1:] + costly(2, 4 * SHORT_S) * 1000)
        assert marks
        assert max(marks) < before / 2, "requests behind the frame wait with its surcharge"
        assert connection.mark < before / 2

    virtually(scenario())


def test_connections_that_ask_much_get_the_same_cpu_whatever_a_request_costs() -> None:
    async def scenario() -> None:
        served = Costly()
        _, network = await serving(served.handlers)
        dear, cheap = network.arrive(), network.arrive()
        for number in range(400):
            for peer, cost in ((dear, LONG_S), (cheap, SHORT_S)):
                if peer.reads:
                    peer.hear(b"".join(costly(number * 100 + one, cost) for one in range(500)))
            await asyncio.sleep(0)
        most, least = max(served.spent.values()), min(served.spent.values())
        assert most <= least * 1.2, served.spent

    virtually(scenario())


def test_a_client_that_is_alone_is_answered_in_order_and_loses_nothing() -> None:
    async def scenario() -> None:
        _, network = await serving(Costly().handlers)
        peer = network.arrive()
        data = b"".join(costly(number, SHORT_S) for number in range(3000))
        assert len(data) > 2 * PIECE_BYTES
        peer.hear(data[:100])
        peer.hear(data[100:])
        while not peer.reads:
            await turns()
        assert [one.opaque for one in told(peer.said())] == list(range(3000))

    virtually(scenario())


def test_reads_that_wait_take_a_limited_memory() -> None:
    async def scenario() -> None:
        _, network = await serving(Costly().handlers)
        first = network.arrive()
        first.hear(expensive(1))
        body = bytes(1 << 20)
        others = [network.arrive() for _ in range(2 * WAITING_BYTES_MAX // len(body))]
        for other in others:
            other.hear(frame(GetKvConfig(namespace="n", key="k"), 1, body.replace(b"\0", b"0")))
        waiting = sum(not other.reads for other in others)
        assert 0 < waiting <= WAITING_BYTES_MAX // len(body) + 1
        while not all(other.reads for other in (first, *others)):
            await turns()
        assert all(len(told(other.said())) == 1 for other in others)

    virtually(scenario())


def test_a_connection_that_ends_in_the_line_leaves_nothing() -> None:
    async def scenario() -> None:
        served = Costly()
        _, network = await serving(served.handlers)
        peers = [network.arrive() for _ in range(3)]
        for peer in peers:
            peer.hear(expensive(1))
        for peer in peers:
            peer.lose()
        before = dict(served.spent)
        await turns(20)
        assert served.spent == before

    virtually(scenario())
