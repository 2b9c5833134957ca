"""Requests whose sender has not proved who it is are charged to their connection and address; others pay nothing."""

import asyncio
from collections.abc import Callable
from typing import Any, cast

import pytest

from firearrow.protocol.codes import ResponseCode
from firearrow.protocol.connection import Connection as Talk
from firearrow.protocol.connection import Event
from firearrow.protocol.refusal import Refused
from firearrow.protocol.requests.naming.kv_config import GetKvConfig
from firearrow.remoting.connection import ConnectionDriver
from firearrow.remoting.flow import ALL_REQUESTS
from firearrow.remoting.handlers import Answer, Call, Handler, Handlers, Later
from firearrow.remoting.room import PIECE_BYTES
from firearrow.remoting.strangers import (
    ADDRESS_BURST_S,
    ADDRESS_SHARE,
    ADDRESSES_MAX,
    CONNECTION_BURST_S,
    CONNECTION_SHARE,
    OPENING_S,
    REFUSED_PAUSE_S,
    Strangers,
    TimeBudget,
)
from tests.unit.remoting.memory import MemoryTransport, ask, echoing, frame, serving, told, turns, until, virtually

COST_S = 0.01
"""The time of the loop that a request takes."""
KNOWN = b"known"


def guarded() -> Handlers:
    """Handlers behind a guard that knows the peers whose bodies say so, and takes its time."""

    def guard(request: Any, call: Call, handler: Handler) -> Answer | Later | None:
        asyncio.get_running_loop().now += COST_S  # type: ignore[attr-defined]
        if call.body != KNOWN:
            call.peer.stay_stranger()
            raise Refused(ResponseCode.NO_PERMISSION, "who are you?")
        call.peer.prove()
        return handler(request, call)

    return echoing().guarded(guard)


async def flood(peer: MemoryTransport, seconds: float) -> float:
    """Send requests without a proof as fast as the server reads; return the time that they took of the loop."""
    loop = asyncio.get_running_loop()
    until, handled = loop.time() + seconds, 0
    while loop.time() < until:
        if peer.reads:
            peer.hear(ask(1))
            handled += 1
        await asyncio.sleep(0.001)
    return handled * COST_S


async def replay() -> None:
    """One stranger sends without a pause; a peer with a proof at its address is served meanwhile."""
    _, network = await serving(guarded())
    friend, stranger = network.arrive(), network.arrive()
    friend.hear(ask(1, KNOWN))
    taken = await flood(stranger, 60.0)
    most = CONNECTION_BURST_S + 60.0 * CONNECTION_SHARE + COST_S
    assert taken <= most, f"one stranger took {taken:.1f} s of a minute"
    assert friend.reads
    friend.said()
    friend.hear(ask(2, KNOWN))
    assert friend.said()


def test_one_stranger_takes_a_small_share_of_the_time() -> None:
    virtually(replay())


def test_a_server_that_charges_nobody_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ConnectionDriver, "_charge_stranger", lambda _self, _began: None)
    with pytest.raises(AssertionError, match="of a minute"):
        virtually(replay())


def test_many_connections_of_one_address_share_a_budget() -> None:
    async def scenario() -> None:
        _, network = await serving(guarded())
        peers = [network.arrive() for _ in range(20)]
        loop = asyncio.get_running_loop()
        handled = 0
        while loop.time() < 30:
            for peer in peers:
                if peer.reads:
                    peer.hear(ask(1))
                    handled += 1
            await asyncio.sleep(0.01)
        # All whose pause ends together are read once before they are charged again.
        assert handled * COST_S <= ADDRESS_BURST_S + 30 * ADDRESS_SHARE + 2 * len(peers) * COST_S + 2
        late = network.arrive()
        assert not late.reads, "a new connection of the address waits"

    virtually(scenario())


async def open_first() -> None:
    """A stranger opens 40 connections, then sends over all of them in one turn of the loop."""
    server, network = await serving(guarded())
    peers = [network.arrive() for _ in range(40)]
    friend = network.arrive()
    friend.hear(ask(1, KNOWN))
    for peer in peers:
        peer.hear(b"".join(ask(number) for number in range(10)))
    await turns(500)  # every one of them has had a turn
    answered = {peer: [one.opaque for one in told(peer.said())] for peer in peers}
    handled = sum(map(len, answered.values()))
    assert handled * COST_S <= ADDRESS_BURST_S * (1 + ADDRESS_SHARE) + 10 * COST_S, (
        f"{handled} requests were read at once"
    )
    friend.said()
    friend.hear(ask(2, KNOWN))
    assert friend.said(), "a peer with a proof is read"
    assert server._endpoint is not None
    assert server._endpoint.partials.held > 0, "the bytes that wait are counted"
    began = asyncio.get_running_loop().time()
    await until(lambda: all(peer.reads for peer in peers))
    took = asyncio.get_running_loop().time() - began
    for peer in peers:
        answered[peer] += [one.opaque for one in told(peer.said())]
    assert all(numbers == list(range(10)) for numbers in answered.values()), "all are answered in the end, in order"
    assert took >= ((400 - handled) * COST_S - ADDRESS_BURST_S) / ADDRESS_SHARE - 1
    assert server._endpoint.partials.held == 0


def test_connections_that_were_opened_first_share_the_budget_too() -> None:
    virtually(open_first())


def test_a_server_that_asks_the_budget_of_new_connections_only_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ConnectionDriver, "_has_time", lambda _self: True)
    with pytest.raises(AssertionError, match="were read at once"):
        virtually(open_first())


def test_a_large_read_of_a_stranger_waits_between_its_pieces() -> None:
    async def scenario() -> None:
        _, network = await serving(guarded())
        peer = network.arrive()
        count = 5 * PIECE_BYTES // len(ask(100))
        peer.hear(b"".join(ask(100 + number) for number in range(count)))
        await asyncio.sleep(1.0)
        assert not peer.reads
        assert len(told(peer.said())) < count / 4
        peer.lose()
        await asyncio.sleep(60.0)

    virtually(scenario())


def test_a_read_of_many_requests_stops_when_the_budget_is_used_up() -> None:
    async def scenario() -> None:
        _, network = await serving(guarded())
        peer = network.arrive()
        peer.hear(b"".join(ask(number) for number in range(600)))
        await asyncio.sleep(1.0)
        assert not peer.reads
        assert len(peer.writes) < 600
        await asyncio.sleep(600 * COST_S / CONNECTION_SHARE + 30)
        assert peer.reads, "all were answered in the end"

    virtually(scenario())


def parses_slowly(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the bytes of a read take their time before there is an event."""
    parse = Talk.receive_data

    def slowly(self: Talk, data: bytes) -> list[Event]:
        asyncio.get_running_loop().now += COST_S  # type: ignore[attr-defined]
        return parse(self, data)

    monkeypatch.setattr(Talk, "receive_data", slowly)


ANSWER = ask(1).replace(b'"flag":0', b'"flag":1')
BROKEN = ask(1).replace(b"{", b"[", 1)


@pytest.mark.parametrize(
    "sent",
    [ask(1).replace(b'"namespace"', b'"othername"'), ANSWER, ANSWER.replace(b"namespace", b"othername"), ask(1)[:9]],
    ids=["request that cannot be read", "answer", "answer that cannot be read", "part of a frame"],
)
def test_every_read_of_a_stranger_is_charged(sent: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    parses_slowly(monkeypatch)

    async def scenario() -> None:
        _, network = await serving(guarded())
        peer, loop = network.arrive(), asyncio.get_running_loop()
        reads = 0
        while loop.time() < 60:
            if peer.ended:
                peer = network.arrive()
            if peer.reads:
                peer.hear(sent)
                reads += 1
            await asyncio.sleep(0.001)
        assert reads * COST_S <= ADDRESS_BURST_S + 60 * ADDRESS_SHARE + COST_S

    virtually(scenario())


def test_streams_that_break_are_charged_to_the_address_and_logged_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    parses_slowly(monkeypatch)

    async def scenario() -> None:
        _, network = await serving(guarded())
        loop = asyncio.get_running_loop()
        broken = 0
        while loop.time() < 4:
            peer = network.arrive()
            if peer.reads and not peer.ended:
                peer.hear(BROKEN)
                assert peer.ended
                broken += 1
            await asyncio.sleep(0.001)
        assert broken > 20, "the address has time at first"
        assert broken * COST_S <= ADDRESS_BURST_S + 4 * ADDRESS_SHARE + COST_S

    virtually(scenario())
    said = [record for record in caplog.records if " ends: " in record.getMessage()]
    assert len(said) == 1


async def reconnect() -> None:
    """A stranger opens connections and ends them, 5,000 in a second."""
    server, network = await serving(guarded())
    loop = asyncio.get_running_loop()
    opened = 0
    while loop.time() < 10:
        peer = network.arrive()
        if not peer.ended:
            opened += 1
            peer.lose()
        await asyncio.sleep(0.0002)
    most = (ADDRESS_BURST_S + (10 + REFUSED_PAUSE_S) * ADDRESS_SHARE) / OPENING_S + 1
    assert opened <= most, f"{opened} connections were opened"
    assert not server.peers


def test_connections_of_strangers_are_charged_to_their_address() -> None:
    virtually(reconnect())


def test_a_server_that_charges_nobody_for_connections_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ConnectionDriver, "charge_opening", lambda _self, _host, _seconds: None)
    with pytest.raises(AssertionError, match="were opened"):
        virtually(reconnect())


def test_peers_that_prove_who_they_are_get_back_what_their_connections_cost() -> None:
    async def scenario() -> None:
        _, network = await serving(guarded())
        for _ in range(int(3 * ADDRESS_BURST_S / OPENING_S)):
            peer = network.arrive()
            assert peer.reads
            assert not peer.ended
            peer.hear(ask(1, KNOWN))
            await turns()
            peer.lose()

    virtually(scenario())


def test_connections_that_wait_for_time_wake_up_ever_later() -> None:
    async def scenario() -> None:
        server, network = await serving(guarded())
        peers = [network.arrive() for _ in range(200)]
        for peer in peers:
            peer.hear(ask(1) * 10)
        assert server._endpoint is not None
        strangers, asked = server._endpoint.strangers, 0
        pause_of = strangers.pause_of

        def counting(host: str, now: float) -> float:
            nonlocal asked
            asked += 1
            return pause_of(host, now)

        strangers.pause_of = counting  # type: ignore[method-assign]
        await asyncio.sleep(60)
        assert asked <= 60 * len(peers), f"the budget was asked {asked} times in a minute"

    virtually(scenario())


def budget(clock: Callable[[], float] = lambda: 0.0) -> TimeBudget:
    return TimeBudget(CONNECTION_BURST_S, CONNECTION_SHARE, clock())


def test_a_budget_fills_up_again() -> None:
    own = budget()
    own.spend(CONNECTION_BURST_S + 1.0, 0.0)
    assert own.pause(0.0) == pytest.approx(1.0 / CONNECTION_SHARE)
    assert own.pause(10.0) == pytest.approx(1.0 / CONNECTION_SHARE - 10)
    assert own.pause(1000.0) == 0
    assert own.is_full(1000.0)


def test_addresses_are_bounded_and_those_without_room_share_a_budget() -> None:
    strangers = Strangers()
    for number in range(ADDRESSES_MAX + 100):
        strangers.spend(budget(), f"10.{number}", 0.05, 0.0)
    assert len(strangers) == ADDRESSES_MAX
    assert strangers.spend(budget(), "other", 0.001, 0.0) > 0
    assert strangers.spend(budget(), "other", 0.001, 1000.0) == 0
    assert len(strangers) == 1


def test_bytes_of_a_stranger_are_counted_while_the_budget_of_all_is_used_up_and_freed() -> None:
    async def scenario() -> None:
        asked: list[str] = []
        handlers = Handlers()
        handlers.on(GetKvConfig, lambda request, _call: asked.append(request.key))
        server, network = await serving(handlers)
        network.arrive()
        (connection,) = cast("tuple[ConnectionDriver, ...]", server.peers)
        said = frame(GetKvConfig(namespace="n", key="k"), 1)
        connection.pause_stranger(1.0)
        connection.data_received(said)
        for _ in range(2):
            connection.hold(ALL_REQUESTS)
            connection.unhold(ALL_REQUESTS)
            assert server.load.partial_bytes == len(said)
        connection.hold(ALL_REQUESTS)
        await asyncio.sleep(2)
        assert not asked, "a request was handled although none is read"
        connection.unhold(ALL_REQUESTS)
        await asyncio.sleep(1)
        assert asked == ["k"]
        assert server.load.partial_bytes == 0

    virtually(scenario())
