"""Requests from a server to its peer, over the connection the peer made."""

import asyncio
import logging
from typing import Any

import pytest

from firearrow.errors import (
    BadFrame,
    BadHeader,
    BrokenInvariant,
    ConnectionLost,
    FireArrowError,
    Overloaded,
    RequestRefused,
    RequestTimedOut,
)
from firearrow.protocol.connection import RequestArrived
from firearrow.protocol.refusal import Refused
from firearrow.protocol.requests.naming.kv_config import GetKvConfig, GetKvConfigAnswer, PutKvConfig
from firearrow.remoting.handlers import Peer
from firearrow.remoting.reply import Reply
from firearrow.remoting.server import Server
from tests.unit.remoting.memory import Client, serving, turns, until, virtually

PUT = PutKvConfig(namespace="n", key="k", value="v")
GET = GetKvConfig(namespace="n", key="k")
Outcomes = list[Reply[GetKvConfigAnswer] | FireArrowError]


async def one_peer(**limits: Any) -> tuple[Server, Peer, Client]:
    server, network = await serving(**limits)
    client = Client(network.arrive())
    return server, server.peers[0], client


def test_pushes_of_one_turn_are_one_write() -> None:
    async def scenario() -> None:
        _, peer, client = await one_peer()
        for _ in range(10):
            peer.push(PUT, b"body")
        assert client.transport.writes == []
        await turns()
        assert len(client.transport.writes) == 1
        events = client.hears()
        assert len(events) == 10
        for event in events:
            assert isinstance(event, RequestArrived)
            assert (event.request, event.body, event.is_oneway) == (PUT, b"body", True)

    virtually(scenario())


def test_calls_are_matched_to_answers_in_any_order() -> None:
    async def scenario() -> None:
        server, peer, client = await one_peer()
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(peer.call(GetKvConfig(namespace="n", key=str(n)))) for n in range(20)]
            await turns()
            for event in reversed(client.hears()):
                assert isinstance(event, RequestArrived)
                assert isinstance(event.request, GetKvConfig)
                key = event.request.key
                client.talk.answer(event, GetKvConfigAnswer(value=key), b"body " + key.encode())
            client.replies()
        replies = [task.result() for task in tasks]
        assert [reply.answer.value for reply in replies] == [str(n) for n in range(20)]
        assert [reply.body for reply in replies] == [b"body %d" % n for n in range(20)]
        assert server._endpoint is not None
        await asyncio.sleep(1)
        assert server._endpoint._waiting == {}

    virtually(scenario())


def test_a_call_that_is_refused() -> None:
    async def scenario() -> None:
        _, peer, client = await one_peer()
        task = asyncio.create_task(peer.call(GET))
        await turns()
        (event,) = client.hears()
        assert isinstance(event, RequestArrived)
        client.talk.refuse(event, Refused(206, "not online"))
        client.replies()
        with pytest.raises(
            RequestRefused, match=r"GetKvConfig was refused by 10\.0\.0\.1:5001 with code 206"
        ) as caught:
            await task
        assert (caught.value.code, caught.value.remark) == (206, "not online")

    virtually(scenario())


def test_a_code_that_the_caller_accepts_is_a_reply() -> None:
    async def scenario() -> None:
        _, peer, client = await one_peer()
        task = asyncio.create_task(peer.call(GET, accept=frozenset({0, 19})))
        await turns()
        (event,) = client.hears()
        assert isinstance(event, RequestArrived)
        client.talk.answer(event, GetKvConfigAnswer(value="x"), code=19, remark="none yet")
        client.replies()
        reply = await task
        assert (reply.code, reply.remark, reply.answer.value) == (19, "none yet", "x")

    virtually(scenario())


def test_a_call_that_times_out_leaves_nothing() -> None:
    async def scenario() -> None:
        server, peer, client = await one_peer()
        loop = asyncio.get_running_loop()
        with pytest.raises(RequestTimedOut, match=r"10.0.0.1:5001 did not answer GetKvConfig within \d+ ms"):
            await peer.call(GET, timeout_ms=500)
        assert 0.5 <= loop.time() <= 0.7
        assert server._endpoint is not None
        assert server._endpoint._waiting == {}
        assert server._endpoint._deadline_timer is None
        (event,) = client.hears()
        assert isinstance(event, RequestArrived)
        client.talk.answer(event, GetKvConfigAnswer(value="late"))
        client.replies()
        assert peer.is_open

    virtually(scenario())


def test_a_call_that_is_cancelled_leaves_nothing() -> None:
    async def scenario() -> None:
        server, peer, _ = await one_peer()
        task = asyncio.create_task(peer.call(GET))
        await turns()
        task.cancel()
        await asyncio.wait([task])
        assert server._endpoint is not None
        (connection,) = server._endpoint.connections
        assert connection.outstanding == 0
        await until(lambda: server._endpoint is not None and not server._endpoint._waiting)

    virtually(scenario())


@pytest.mark.parametrize("how", ["lost", "reset", "closed", "cut"])
def test_a_call_on_a_connection_that_ends(how: str) -> None:
    async def scenario() -> None:
        server, peer, client = await one_peer()
        outcomes: Outcomes = []
        peer.begin(GET, b"", outcomes.append)
        if how == "lost":
            client.transport.lose()
        elif how == "reset":
            client.transport.lose(ConnectionResetError("reset by peer"))
        elif how == "closed":
            peer.close()
        else:
            assert server._endpoint is not None
            next(iter(server._endpoint.connections)).cut("enough")
        await turns()
        (outcome,) = outcomes
        assert isinstance(outcome, ConnectionLost)
        assert "GetKvConfig to 10.0.0.1:5001 has no answer" in str(outcome)
        with pytest.raises(ConnectionLost):
            peer.push(PUT)
        with pytest.raises(ConnectionLost):
            await peer.call(GET)
        assert server.peers == ()

    virtually(scenario())


def test_a_body_that_no_frame_holds_is_not_sent() -> None:
    async def scenario() -> None:
        _, peer, client = await one_peer(max_frame_bytes=1000)
        outcomes: Outcomes = []
        with pytest.raises(BadFrame, match="max_frame_bytes"):
            peer.begin(GET, b"x" * 1001, outcomes.append)
        with pytest.raises(BadFrame):
            peer.push(PUT, b"x" * 1001)
        await turns()
        assert (outcomes, client.transport.writes) == ([], [])

    virtually(scenario())


def test_too_many_calls_are_overload() -> None:
    async def scenario() -> None:
        _, peer, _ = await one_peer(max_calls=2)
        outcomes: Outcomes = []
        peer.begin(GET, b"", outcomes.append)
        peer.begin(GET, b"", outcomes.append)
        with pytest.raises(Overloaded):
            peer.begin(GET, b"", outcomes.append)
        assert outcomes == []

    virtually(scenario())


def test_calls_wait_for_a_peer_that_does_not_read() -> None:
    async def scenario() -> None:
        _, peer, client = await one_peer(write_high_water_bytes=2000, max_unsent_bytes=5000)
        client.transport.is_stuck = True
        peer.push(PUT, b"x" * 3000)
        await turns()
        assert not peer.is_writable
        with pytest.raises(Overloaded, match="has read nothing for 100 ms"):
            await peer.call(GET, timeout_ms=100)
        peer.push(PUT, b"x" * 100)
        client.transport.catch_up()
        task = asyncio.create_task(peer.call(GET))
        await turns()
        event = client.hears()[-1]
        assert isinstance(event, RequestArrived)
        client.talk.answer(event, GetKvConfigAnswer(value="x"))
        client.replies()
        assert (await task).answer.value == "x"

    virtually(scenario())


def test_waiting_calls_go_on_in_order_and_by_size() -> None:
    async def scenario() -> None:
        _, peer, client = await one_peer(write_high_water_bytes=2000, max_unsent_bytes=5000)
        client.transport.is_stuck = True
        peer.push(PUT, b"x" * 3000)
        await turns()
        asked = [asyncio.create_task(peer.call(GET, bytes([number]) * 900)) for number in range(5)]
        await turns()
        client.hears()
        client.transport.catch_up()
        client.transport.is_stuck = True
        asked.append(asyncio.create_task(peer.call(GET, bytes([5]) * 900)))  # a newcomer goes behind those that wait
        heard: list[list[int]] = []
        while len(asked) > sum(map(len, heard)):
            await turns()
            events = [event for event in client.hears() if isinstance(event, RequestArrived)]
            assert events, f"nothing was sent after {heard}"
            heard.append([event.body[0] for event in events])
            for event in events:
                client.talk.answer(event, GetKvConfigAnswer(value="x"))
            client.transport.catch_up()
            client.transport.is_stuck = True
            client.replies()
        assert [number for together in heard for number in together] == [0, 1, 2, 3, 4, 5]
        assert max(map(len, heard)) <= 3, heard
        await asyncio.gather(*asked)

    virtually(scenario())


@pytest.mark.parametrize("gives_up", [False, True])
def test_a_newcomer_goes_behind_a_call_that_was_just_let_go_on(*, gives_up: bool) -> None:
    async def scenario() -> None:
        _, peer, client = await one_peer(write_high_water_bytes=2000, max_unsent_bytes=5000)
        client.transport.is_stuck = True
        peer.push(PUT, b"x" * 3000)
        await turns()
        asked = [asyncio.create_task(peer.call(GET, b"first")), asyncio.create_task(peer.call(GET, b"second"))]
        await turns()
        client.hears()

        async def late() -> Reply[GetKvConfigAnswer]:
            client.transport.catch_up()  # lets both go on, which they do in the next turn of the loop
            if gives_up:
                asked.pop(0).cancel()
            return await peer.call(GET, b"newcomer")

        asked.append(asyncio.create_task(late()))
        await turns()
        await turns()
        heard = [event for event in client.hears() if isinstance(event, RequestArrived)]
        assert [event.body for event in heard] == [b"first", b"second", b"newcomer"][gives_up:]
        for event in heard:
            client.talk.answer(event, GetKvConfigAnswer(value="x"))
        client.replies()
        await asyncio.gather(*asked)
        alone = asyncio.create_task(peer.call(GET, b"alone"))
        await asyncio.sleep(0)
        assert [event.body for event in client.hears() if isinstance(event, RequestArrived)] == [b"alone"]
        alone.cancel()

    virtually(scenario())


def test_calls_that_wait_are_told_of_the_end() -> None:
    async def scenario() -> None:
        _, peer, client = await one_peer(write_high_water_bytes=2000, max_unsent_bytes=5000)
        client.transport.is_stuck = True
        peer.push(PUT, b"x" * 3000)
        await turns()
        asked = [asyncio.create_task(peer.call(GET)) for _ in range(3)]
        await turns()
        client.transport.lose()
        for task in asked:
            with pytest.raises(ConnectionLost, match="has ended") as lost:
                await task
            assert not lost.value.may_have_happened

    virtually(scenario())


def test_pushing_at_a_peer_that_does_not_read_is_overload() -> None:
    async def scenario() -> None:
        _, peer, client = await one_peer(write_high_water_bytes=2000, max_unsent_bytes=5000)
        client.transport.is_stuck = True
        peer.push(PUT, b"x" * 3000)
        await turns()
        client.transport.unread = 6000
        with pytest.raises(Overloaded, match="max_unsent_bytes"):
            peer.push(PUT)

    virtually(scenario())


def test_an_answer_without_its_fields_is_an_error() -> None:
    async def scenario() -> None:
        from firearrow.protocol.requests.group.offset import GetMaxOffset

        _, peer, client = await one_peer()
        task = asyncio.create_task(peer.call(GetMaxOffset(topic="T", queue_id=0)))
        await turns()
        (event,) = client.hears()
        assert isinstance(event, RequestArrived)
        client.talk.answer(event)
        client.replies()
        with pytest.raises(BadHeader):
            await task

    virtually(scenario())


@pytest.mark.complaints("on_outcome failed")
def test_an_asker_that_fails_harms_nobody_else(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        _, peer, client = await one_peer()
        outcomes: Outcomes = []

        def fail(_: object) -> None:
            raise KeyError("asker")

        def broken(_: object) -> None:
            raise BrokenInvariant("asker")

        peer.begin(GET, b"", fail)
        peer.begin(GET, b"", outcomes.append)
        await turns()
        for event in client.hears():
            assert isinstance(event, RequestArrived)
            client.talk.answer(event, GetKvConfigAnswer(value="x"))
        client.replies()
        assert len(outcomes) == 1
        peer.begin(GET, b"", broken)
        await turns()
        (event,) = client.hears()
        assert isinstance(event, RequestArrived)
        client.talk.answer(event, GetKvConfigAnswer(value="x"))
        with pytest.raises(BrokenInvariant):
            client.replies()

    with caplog.at_level(logging.ERROR):
        virtually(scenario())
    assert [record.message for record in caplog.records] == ["on_outcome failed"]
