"""Every limit, reached."""

import asyncio
import logging
from typing import Any

import msgspec
import pytest

from firearrow.protocol.frame import prefix
from firearrow.protocol.requests.naming.kv_config import PutKvConfig
from firearrow.remoting import endpoint
from firearrow.remoting.limits import Limits
from tests.unit.remoting.memory import ask, serving, told, turns, until, virtually


def test_every_limit_has_bounds_and_help() -> None:
    for field in msgspec.inspect.type_info(Limits).fields:  # type: ignore[attr-defined]
        assert isinstance(field.type, msgspec.inspect.Metadata), field.name
        assert (field.type.extra_json_schema or {})["description"].endswith("."), field.name


@pytest.mark.parametrize("bad", [{"idle_s": 0}, {"max_frame_bytes": 1}, {"max_calls": 0}, {"no_such_limit": 1}])
def test_limits_have_bounds(bad: dict[str, int]) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(bad, Limits)


@pytest.mark.parametrize(
    ("limits", "data"),
    [
        ({"max_frame_bytes": 500}, ask(2, b"x" * 500)),
        ({"max_header_bytes": 200}, prefix(0, 201, 0) + b"{}"),
    ],
)
def test_a_frame_past_a_limit_ends_the_connection(
    limits: dict[str, Any], data: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        _, network = await serving(**limits)
        peer = network.arrive()
        peer.hear(ask(1) + data)
        assert len(told(peer.said())) == 1
        assert peer.ended == "closed"

    with caplog.at_level(logging.WARNING):
        virtually(scenario())
    assert "limit" in caplog.records[-1].__dict__["reason"]


def test_one_connection_too_many_is_closed_as_it_arrives() -> None:
    async def scenario() -> None:
        server, network = await serving(max_connections=2)
        peers = [network.arrive() for _ in range(3)]
        await turns()
        assert [peer.ended for peer in peers] == ["", "", "aborted"]
        peers[0].lose()
        assert len(server.peers) == 1
        assert network.arrive().ended == ""

    virtually(scenario())


def test_an_idle_connection_is_closed() -> None:
    async def scenario() -> None:
        server, network = await serving()
        idle, heard, told_something = network.arrive(), network.arrive(), network.arrive()
        loop = asyncio.get_running_loop()
        told_something.hear(ask())
        for _ in range(5):
            await asyncio.sleep(50)
            heard.hear(ask())
            server.peers[-1].push(PutKvConfig(namespace="n", key="k", value="v"))
        assert idle.ended == "closed"
        assert (heard.ended, told_something.ended) == ("", "")
        began = loop.time()
        await until(lambda: heard.ended)
        assert 119 <= loop.time() - began <= 135
        await turns()
        assert server.peers == ()

    virtually(scenario())


def test_a_first_frame_that_does_not_come_in_time() -> None:
    async def scenario() -> None:
        _, network = await serving(first_frame_s=5)
        silent, half, whole = network.arrive(), network.arrive(), network.arrive()
        half.hear(ask()[:20])
        whole.hear(ask())
        await asyncio.sleep(4.9)
        half.hear(ask()[20:25])
        assert (silent.ended, half.ended) == ("", "")
        await asyncio.sleep(1)
        assert (silent.ended, half.ended, whole.ended) == ("aborted", "aborted", "")

    virtually(scenario())


def test_a_frame_that_is_not_whole_in_time() -> None:
    async def scenario() -> None:
        _, network = await serving(frame_s=5)
        dribbling, steady = network.arrive(), network.arrive()
        dribbling.hear(ask(1) + ask(2)[:4])
        for _ in range(6):
            await asyncio.sleep(1)
            if not dribbling.ended:
                dribbling.hear(b"\x00")
            steady.hear(ask(1)[10:] + ask(1)[:10] if steady.writes else ask(1) + ask(1)[:10])
        assert (dribbling.ended, steady.ended) == ("aborted", "")

    virtually(scenario())


def test_half_frames_past_the_limit_cost_the_oldest_its_connection() -> None:
    async def scenario() -> None:
        server, network = await serving(max_partial_bytes=10_000)
        dribblers = [network.arrive() for _ in range(5)]
        for peer in dribblers:
            peer.hear(ask(1, b"x" * 4000)[:2000])
        honest = network.arrive()
        honest.hear(ask(1, b"x" * 4000)[:3000])
        assert [peer.ended for peer in dribblers] == ["aborted", "aborted", "", "", ""]
        honest.hear(ask(1, b"x" * 4000)[3000:])
        assert len(told(honest.said())) == 1
        assert not honest.ended
        for peer in dribblers[2:]:
            peer.lose()
        assert server._endpoint is not None
        assert (server._endpoint.partials.held, len(server._endpoint.partials)) == (0, 0)

    virtually(scenario())


def test_memory_of_half_frames_is_given_back_when_their_connections_are_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[float] = []
    monkeypatch.setattr(endpoint, "give_back_memory", lambda: given.append(asyncio.get_running_loop().time()))
    monkeypatch.setattr(endpoint, "MUCH_BYTES", 10_000)

    async def scenario() -> None:
        _, network = await serving()
        dribblers = [network.arrive() for _ in range(4)]
        for peer in dribblers:
            peer.hear(ask(1, b"x" * 4000)[:3000])
        for peer in dribblers:
            assert given == []
            peer.lose()
        await asyncio.sleep(2)
        assert len(given) == 1

    virtually(scenario())


def test_a_preamble_names_the_peer_where_that_is_allowed() -> None:
    async def scenario() -> None:
        server, network = await serving(proxy_protocol=True)
        peer = network.arrive()
        for byte in b"PROXY TCP4 192.168.1.9 10.0.0.1 5555 9876\r\n" + ask(1):
            await until(lambda: peer.reads)
            peer.hear(bytes([byte]))
        assert len(told(peer.said())) == 1
        assert str(server.peers[0].address) == "192.168.1.9:5555"

    virtually(scenario())


def test_a_preamble_is_refused_where_it_is_not() -> None:
    async def scenario() -> None:
        _, network = await serving()
        peer = network.arrive()
        peer.hear(b"PROXY TCP4 192.168.1.9 10.0.0.1 5555 9876\r\n" + ask(1))
        assert (peer.ended, peer.writes) == ("aborted", [])

    virtually(scenario())


def test_a_server_is_silent_until_it_knows_what_its_peer_speaks() -> None:
    async def scenario() -> None:
        server, network = await serving()
        peer = network.arrive()
        server.peers[0].push(PutKvConfig(namespace="n", key="k", value="v"))
        await turns()
        assert peer.writes == []
        peer.hear(ask())
        assert peer.writes != []

    virtually(scenario())


def test_a_peer_that_speaks_tls_to_a_server_without_a_certificate() -> None:
    async def scenario() -> None:
        server, network = await serving()
        peer = network.arrive()
        peer.hear(b"\x16\x03\x01\x02\x00")
        assert (peer.ended, peer.writes) == ("aborted", [])
        await turns()
        assert server.peers == ()

    virtually(scenario())
