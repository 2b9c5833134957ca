"""Server and caller over real sockets, on the stock loop and on uvloop."""

import asyncio
import random
import socket
import time
import weakref
from collections.abc import Callable, Coroutine
from contextlib import ExitStack, suppress
from typing import Any, Self

import pytest
import uvloop

from firearrow.errors import (
    BrokenInvariant,
    ConnectionFailed,
    ConnectionLost,
    FireArrowError,
    Overloaded,
    RequestRefused,
    RequestTimedOut,
)
from firearrow.protocol.codes import ResponseCode
from firearrow.protocol.frame import FrameSplitter
from firearrow.protocol.refusal import Refused
from firearrow.protocol.requests.naming.kv_config import DeleteKvConfig, GetKvConfig, GetKvConfigAnswer, PutKvConfig
from firearrow.protocol.serialize import encode_request
from firearrow.remoting import room
from firearrow.remoting.caller import Caller
from firearrow.remoting.connection import ConnectionDriver
from firearrow.remoting.flow import STRANGER
from firearrow.remoting.handlers import Answer, Call, Handlers, Later
from firearrow.remoting.limits import Limits
from firearrow.remoting.reply import Reply
from firearrow.remoting.server import Server
from firearrow.remoting.wire import Wire
from firearrow.runtime.network import Address, SystemNetwork

ANYWHERE = Address("127.0.0.1", 0)
GET = GetKvConfig(namespace="n", key="k")
PUT = PutKvConfig(namespace="n", key="k", value="v")
Scenario = Callable[[], Coroutine[Any, Any, None]]
PATIENCE_MS = 60_000
"""The longest time that a scenario may take: the machine may be busy elsewhere, and only a hang takes so long."""


@pytest.fixture(params=["stock", "uvloop"])
def run(request: pytest.FixtureRequest) -> Callable[[Scenario], None]:
    """Run a scenario on a loop; whatever the loop would only log fails it, and no task may be left."""

    def runner(scenario: Scenario) -> None:
        errors: list[dict[str, Any]] = []

        async def checked() -> None:
            asyncio.get_running_loop().set_exception_handler(lambda _, context: errors.append(context))
            async with asyncio.timeout(PATIENCE_MS / 1000):
                await scenario()
            assert asyncio.all_tasks() == {asyncio.current_task()}

        with asyncio.Runner(loop_factory=uvloop.new_event_loop if request.param == "uvloop" else None) as loop:
            loop.run(checked())
        assert not errors

    return runner


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(10):
        while not condition():  # noqa: ASYNC110 - the condition is somebody else's
            await asyncio.sleep(0.005)


class Echo:
    """A server that echoes, parks and refuses, and a caller of it."""

    def __init__(self, limits: Limits | None = None, caller_limits: Limits | None = None) -> None:
        self.parked: list[Later] = []
        self.told: list[str] = []
        handlers = Handlers()
        handlers.on(GetKvConfig, self._get)
        handlers.on(PutKvConfig, self._put)
        handlers.on(DeleteKvConfig, self._delete)
        network = SystemNetwork()
        self.server = Server(network, handlers, limits)
        self.asked_back = Handlers()
        self.caller = Caller(network, caller_limits, handlers=self.asked_back)

    def _get(self, request: GetKvConfig, call: Call) -> Answer:
        return Answer(GetKvConfigAnswer(value=request.key), call.body)

    def _put(self, request: PutKvConfig, call: Call) -> Later | None:
        self.told.append(request.value)
        if call.asked.is_oneway:
            return None
        self.parked.append(call.later())
        return self.parked[-1]

    def _delete(self, request: DeleteKvConfig, _call: Call) -> Answer:
        raise Refused(ResponseCode.NO_PERMISSION, f"{request.key} stays")

    async def __aenter__(self) -> Self:
        await self.server.start(ANYWHERE)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.caller.close()
        await self.server.stop()
        assert self.server.peers == ()

    @property
    def address(self) -> Address:
        return self.server.address


def test_a_call_and_its_reply(run: Callable[[Scenario], None]) -> None:
    async def scenario() -> None:
        async with Echo() as echo:
            reply = await echo.caller.call(echo.address, GET, b"some body")
            assert (reply.answer.value, reply.body, reply.code) == ("k", b"some body", 0)
            assert reply.version > 400
            with pytest.raises(RequestRefused, match="k stays") as caught:
                await echo.caller.call(echo.address, DeleteKvConfig(namespace="n", key="k"))
            assert (caught.value.code, caught.value.address) == (16, str(echo.address))
            assert len(echo.server.peers) == 1

    run(scenario)


def test_many_calls_share_one_connection_and_find_their_answers(run: Callable[[Scenario], None]) -> None:
    async def scenario() -> None:
        rng = random.Random(7)
        async with Echo() as echo:

            async def one(n: int) -> None:
                value = await echo.caller.call(echo.address, PutKvConfig(namespace="n", key="k", value=f"{n}"))
                assert value.body == b"%d" % n

            async with asyncio.TaskGroup() as group:
                for n in range(500):
                    group.create_task(one(n))
                await until(lambda: len(echo.parked) == 500)
                order = list(zip(echo.parked, echo.told, strict=True))
                rng.shuffle(order)
                for later, value in order:
                    assert later.answer(Answer(body=value.encode()))
            assert len(echo.server.peers) == 1

    run(scenario)


def test_callbacks_without_a_coroutine(run: Callable[[Scenario], None]) -> None:
    async def scenario() -> None:
        outcomes: list[Reply[GetKvConfigAnswer] | FireArrowError] = []
        async with Echo() as echo:
            for n in range(1000):
                echo.caller.begin(echo.address, GetKvConfig(namespace="n", key=str(n)), b"", outcomes.append)
            await until(lambda: len(outcomes) == 1000)
            values = [outcome.answer.value for outcome in outcomes if isinstance(outcome, Reply)]
            assert values == [str(n) for n in range(1000)]
            nowhere = Address("127.0.0.1", 1)
            echo.caller.begin(nowhere, GET, b"", outcomes.append)
            await until(lambda: len(outcomes) == 1001)
            assert isinstance(outcomes[-1], ConnectionFailed)
            echo.caller.begin(nowhere, GET, b"", outcomes.append)
            assert "next attempt" in str(outcomes[-1])

    run(scenario)


def test_one_way_requests(run: Callable[[Scenario], None]) -> None:
    async def scenario() -> None:
        async with Echo() as echo:
            for n in range(100):
                await echo.caller.tell(echo.address, PutKvConfig(namespace="n", key="k", value=str(n)))
            await until(lambda: len(echo.told) == 100)
            assert echo.told == [str(n) for n in range(100)]
            assert echo.parked == []

    run(scenario)


def test_a_server_asks_back(run: Callable[[Scenario], None]) -> None:
    async def scenario() -> None:
        pushed: list[bytes] = []

        def notice(_request: PutKvConfig, call: Call) -> None:
            pushed.append(call.body)

        async with Echo() as echo:
            echo.asked_back.on(
                GetKvConfig, lambda request, call: Answer(GetKvConfigAnswer(value=request.key), call.body)
            )
            echo.asked_back.on(PutKvConfig, notice)
            await echo.caller.call(echo.address, GET)
            (peer,) = echo.server.peers
            reply = await peer.call(GetKvConfig(namespace="n", key="back"), b"body")
            assert (reply.answer.value, reply.body) == ("back", b"body")
            with pytest.raises(RequestRefused, match="request type 102 not supported"):
                await peer.call(DeleteKvConfig(namespace="n", key="k"))
            peer.push(PUT, b"pushed")
            await until(lambda: pushed == [b"pushed"])

    run(scenario)


def test_bodies_far_above_every_buffer(run: Callable[[Scenario], None]) -> None:
    async def scenario() -> None:
        async with Echo() as echo:
            body = bytes(range(256)) * 4096 * 12
            calls = [echo.caller.call(echo.address, GET, body, timeout_ms=PATIENCE_MS) for _ in range(4)]
            replies = await asyncio.gather(*calls)
            assert all(reply.body == body for reply in replies)

    run(scenario)


def test_a_caller_sends_more_at_once_than_a_server_keeps_of_answers(run: Callable[[Scenario], None]) -> None:
    async def scenario() -> None:
        async with Echo(caller_limits=Limits(max_all_unsent_bytes=16 << 20)) as echo:
            body = bytes(range(256)) * 4096 * 12
            calls = [echo.caller.call(echo.address, GET, body, timeout_ms=PATIENCE_MS) for _ in range(4)]
            replies = await asyncio.gather(*calls)
            assert all(reply.body == body for reply in replies)

    run(scenario)


def test_timeouts_and_lost_connections(run: Callable[[Scenario], None]) -> None:
    async def scenario() -> None:
        async with Echo() as echo:
            with pytest.raises(RequestTimedOut):
                await echo.caller.call(echo.address, PUT, timeout_ms=200)
            assert len(echo.server.peers) == 1
            task = asyncio.create_task(echo.caller.call(echo.address, PUT))
            await until(lambda: len(echo.parked) == 2)
            echo.server.peers[0].close()
            with pytest.raises(ConnectionLost):
                await task
            assert not echo.parked[1].answer()
            assert (await echo.caller.call(echo.address, GET)).answer.value == "k"

    run(scenario)


def test_a_server_that_does_not_answer_at_all_is_left(run: Callable[[Scenario], None]) -> None:
    async def scenario() -> None:
        async with Echo() as echo:
            with pytest.raises(RequestTimedOut):
                await echo.caller.call(echo.address, PUT, timeout_ms=1100)
            await until(lambda: echo.server.peers == ())

    run(scenario)


def test_a_server_that_goes_and_comes_back(run: Callable[[Scenario], None]) -> None:
    async def scenario() -> None:
        async with Echo() as echo:
            await echo.caller.call(echo.address, GET)
            address = echo.address
            await echo.server.stop()
            with pytest.raises((ConnectionFailed, ConnectionLost)):
                await echo.caller.call(address, GET)
            await echo.server.start(address)

            async def answered() -> bool:
                try:
                    return (await echo.caller.call(address, GET)).answer.value == "k"
                except ConnectionFailed:
                    await asyncio.sleep(0.01)
                    return False

            async with asyncio.timeout(5):
                while not await answered():
                    pass

    run(scenario)


def test_a_server_that_is_leaving_is_asked_once_more_elsewhere(run: Callable[[Scenario], None]) -> None:
    async def scenario() -> None:
        async with Echo() as echo:
            first: list[object] = []

            def leave(request: GetKvConfig, call: Call) -> Answer:
                if call.peer in first or not first:
                    first.append(call.peer)
                    return Answer(code=ResponseCode.GO_AWAY, remark="please go away")
                return Answer(GetKvConfigAnswer(value=request.key))

            echo.server._handlers.by_code[GetKvConfig.code] = leave
            assert (await echo.caller.call(echo.address, GET)).answer.value == "k"
            assert len(first) == 1
            await until(lambda: len(echo.server.peers) == 1)

    run(scenario)


def test_limits_of_a_caller(run: Callable[[Scenario], None]) -> None:
    async def scenario() -> None:
        async with Echo(caller_limits=Limits(max_calls=10)) as echo:
            outcomes: list[Reply[Any] | FireArrowError] = []
            for _ in range(12):
                echo.caller.begin(echo.address, PUT, b"", outcomes.append)
            assert [type(outcome) for outcome in outcomes] == [Overloaded, Overloaded]
            await until(lambda: len(echo.parked) == 10)
            echo.caller.begin(echo.address, PUT, b"", outcomes.append)
            assert isinstance(outcomes[-1], Overloaded)
            for later in echo.parked:
                later.answer()
            await until(lambda: len(outcomes) == 13)

    run(scenario)


def test_an_idle_caller_hangs_up(run: Callable[[Scenario], None]) -> None:
    async def scenario() -> None:
        async with Echo(caller_limits=Limits(idle_s=0.1)) as echo:
            await echo.caller.call(echo.address, GET)
            await until(lambda: echo.server.peers == ())
            await echo.caller.call(echo.address, GET)

    run(scenario)


def test_a_peer_that_does_not_read_stops_being_read(run: Callable[[Scenario], None]) -> None:
    async def scenario() -> None:
        async with Echo(Limits(write_high_water_bytes=65536)) as echo:
            reader, writer = await asyncio.open_connection(*echo.address)
            frame = encode_request(0, GET, 1, body_size=100_000) + b"x" * 100_000
            await until(lambda: echo.server.peers)
            sent = 0

            async def send() -> None:
                nonlocal sent
                for _ in range(400):
                    writer.write(frame)
                    await writer.drain()
                    sent += 1

            sending = asyncio.create_task(send())
            await until(lambda: not echo.server.peers[0].is_writable)
            assert not sending.done()
            splitter, got = FrameSplitter(), 0
            while got < 400:
                got += len(splitter.feed(await reader.read(1 << 20)))
            await sending
            assert sent == got == 400
            writer.close()
            await writer.wait_closed()

    run(scenario)


def test_ten_thousand_frames_in_one_write(run: Callable[[Scenario], None]) -> None:
    async def scenario() -> None:
        async with Echo() as echo:
            reader, writer = await asyncio.open_connection(*echo.address)
            writer.write(b"".join(encode_request(0, GET, n) for n in range(10_000)))
            splitter, got = FrameSplitter(), 0
            while got < 10_000:
                got += len(splitter.feed(await reader.read(1 << 20)))
            writer.close()
            await writer.wait_closed()

    run(scenario)


def test_closing_fails_what_still_waits(run: Callable[[Scenario], None]) -> None:
    async def scenario() -> None:
        async with Echo() as echo:
            task = asyncio.create_task(echo.caller.call(echo.address, PUT))
            await until(lambda: echo.parked)
            await echo.caller.close()
            with pytest.raises(ConnectionLost):
                await task
            with pytest.raises(ConnectionFailed, match="has been closed"):
                await echo.caller.call(echo.address, GET)

    run(scenario)


@pytest.mark.parametrize("loop", [asyncio.new_event_loop, uvloop.new_event_loop], ids=["stock", "uvloop"])
def test_a_broken_invariant_reaches_the_loops_exception_handler(
    loop: Callable[[], asyncio.AbstractEventLoop],
) -> None:
    async def scenario() -> None:
        found: list[BaseException | None] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: found.append(context.get("exception")))

        def broken(_request: GetKvConfig, _call: Call) -> Answer:
            raise BrokenInvariant("two plus two")

        async with Echo() as echo:
            await echo.caller.call(echo.address, GET)
            echo.server._handlers.by_code[GetKvConfig.code] = broken
            with pytest.raises(ConnectionLost):
                await echo.caller.call(echo.address, GET)
            assert [type(error) for error in found] == [BrokenInvariant]

    with asyncio.Runner(loop_factory=loop) as runner:
        runner.run(scenario())


def test_calls_a_second(run: Callable[[Scenario], None], capsys: pytest.CaptureFixture[str]) -> None:
    async def scenario() -> None:
        async with Echo() as echo:
            loop = asyncio.get_running_loop()
            done: asyncio.Future[None] = loop.create_future()
            total, left = 10_000, 10_000

            def finished(outcome: Reply[GetKvConfigAnswer] | FireArrowError) -> None:
                nonlocal left
                assert isinstance(outcome, Reply)
                left -= 1
                if left == 0:
                    done.set_result(None)

            await echo.caller.ready(echo.address)
            began = time.perf_counter()
            for _ in range(total):
                echo.caller.begin(echo.address, GET, b"x" * 100, finished, timeout_ms=PATIENCE_MS)
            await done
            took = time.perf_counter() - began
            with capsys.disabled():
                print(f" {total / took:,.0f} calls/s (client and server in one process)", end="")

    run(scenario)


def test_calls_and_one_way_requests_made_at_once_leave_in_turns(run: Callable[[Scenario], None]) -> None:
    """Forty bodies of 1 MiB, where 8 MiB may wait to be sent: none is lost, and the connection stays."""

    async def scenario() -> None:
        async with Echo(caller_limits=Limits(max_unsent_bytes=8 * MIB)) as echo:
            body = bytes(MIB)
            connection = await echo.caller.ready(echo.address)
            calls = [echo.caller.call(echo.address, GET, body, timeout_ms=PATIENCE_MS) for _ in range(40)]
            tells = [echo.caller.tell(echo.address, PUT, body, timeout_ms=PATIENCE_MS) for _ in range(40)]
            replies = await asyncio.gather(*calls, *tells)
            assert [len(reply.body) for reply in replies[:40] if reply is not None] == [MIB] * 40
            await until(lambda: len(echo.told) == 40)
            assert echo.caller.standing(echo.address) is connection

    run(scenario)


def test_waiting_calls_are_answered_beside_a_busy_loop(run: Callable[[Scenario], None]) -> None:
    async def scenario() -> None:
        async with Echo() as echo:
            body, at_work = bytes(4096), True

            async def works() -> None:
                while at_work:
                    until_s = time.perf_counter() + 0.005
                    while time.perf_counter() < until_s:
                        pass
                    await asyncio.sleep(0)

            busy = asyncio.create_task(works())
            calls = [echo.caller.call(echo.address, GET, body, timeout_ms=PATIENCE_MS) for _ in range(1000)]
            replies = await asyncio.gather(*calls)
            at_work = False
            await busy
            assert len(replies) == 1000

    run(scenario)


class LargeBody(bytearray):
    """A body that can be seen to be freed."""

    __hash__ = object.__hash__  # type: ignore[assignment]


MIB = 1 << 20
PEERS = 24


async def take_a_part_of_a_large_answer() -> None:
    asked = 0
    alive: weakref.WeakSet[LargeBody] = weakref.WeakSet()

    def large(_request: GetKvConfig, _call: Call) -> Answer:
        nonlocal asked
        asked += 1
        body = LargeBody(4 * MIB)
        alive.add(body)
        return Answer(GetKvConfigAnswer(value="v"), body)

    handlers = Handlers()
    handlers.on(GetKvConfig, large)
    server = Server(SystemNetwork(), handlers, Limits(max_all_unsent_bytes=16 * MIB))
    await server.start(ANYWHERE)
    try:
        with ExitStack() as stack:
            for _ in range(PEERS):  # the system takes a part of the answer, and nobody reads the rest
                peer = stack.enter_context(socket.create_connection((server.address.host, server.address.port)))
                peer.sendall(encode_request(0, GET, 1))
            await until(lambda: asked == PEERS)
            await until(lambda: sum(map(len, alive)) <= 24 * MIB)
            assert server.load.unsent_bytes <= 24 * MIB
            assert len(server.peers) >= 2, "peers were cut although there was room"
    finally:
        await server.stop()


def test_an_answer_that_is_sent_in_part_counts_as_a_whole(run: Callable[[Scenario], None]) -> None:
    run(take_a_part_of_a_large_answer)


def test_an_answer_of_which_only_the_rest_is_counted_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Wire, "unfreed", Wire.unsent)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as loop, pytest.raises(TimeoutError):
        loop.run(take_a_part_of_a_large_answer())


ONE_READ = 256 * 1024
"""The bytes that uvloop reads at once."""
MANY = 20_000


async def hold_a_connection_as_it_opens() -> None:
    """A connection that is held while it opens is read once at most until it is let go."""
    held: list[ConnectionDriver] = []

    def hold(peer: object) -> None:
        if not held:
            assert isinstance(peer, ConnectionDriver)
            held.append(peer)
            peer.pause_stranger(0.5)

    handlers = Handlers()
    handlers.on(GetKvConfig, lambda _request, _call: Answer(GetKvConfigAnswer(value="v")))
    server = Server(SystemNetwork(), handlers, on_connect=hold)
    await server.start(ANYWHERE)
    caller = Caller(SystemNetwork())
    reader, writer = await asyncio.open_connection(server.address.host, server.address.port)
    try:
        writer.write(encode_request(0, GET, 1) * MANY)
        await until(lambda: held)
        for _ in range(20):
            await caller.call(server.address, GET)
        assert held[0]._holds & STRANGER
        assert len(held[0]._unread) <= ONE_READ, f"{len(held[0]._unread)} bytes were read of a connection that is held"
        answers, frames = 0, FrameSplitter()
        while answers < MANY:
            answers += len(frames.feed(await reader.read(ONE_READ)))
    finally:
        writer.transport.abort()
        await caller.close()
        await server.stop()


def test_a_connection_that_is_held_as_it_opens_is_not_read(run: Callable[[Scenario], None]) -> None:
    run(hold_a_connection_as_it_opens)


def test_a_connection_that_uvloop_reads_although_it_is_held_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    def hold(self: Wire, reason: int) -> None:
        if not self._holds and self._transport is not None:
            self._transport.pause_reading()
        self._holds |= reason

    monkeypatch.setattr(Wire, "hold", hold)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as loop, pytest.raises(AssertionError, match="were read"):
        loop.run(hold_a_connection_as_it_opens())


class ParkingServer:
    """Two servers on one loop: one that parks PUT and counts GET, and one to pass turns of the loop with."""

    def __init__(self, limits: Limits) -> None:
        self.parked: list[Later] = []
        self.handled = 0
        handlers, others = Handlers(), Handlers()
        handlers.on(PutKvConfig, self._put)
        handlers.on(GetKvConfig, self._get)
        others.on(GetKvConfig, lambda _request, _call: Answer(GetKvConfigAnswer(value="v")))
        self.server, self._other = Server(SystemNetwork(), handlers, limits), Server(SystemNetwork(), others)
        self.caller = Caller(SystemNetwork())
        self._opened: list[socket.socket] = []

    async def __aenter__(self) -> Self:
        await self.server.start(ANYWHERE)
        await self._other.start(ANYWHERE)
        return self

    async def __aexit__(self, *_: object) -> None:
        for one in self._opened:
            one.close()
        await self.caller.close()
        await self.server.stop()
        await self._other.stop()

    def _put(self, _request: PutKvConfig, call: Call) -> Later:
        self.parked.append(call.later())
        return self.parked[-1]

    def _get(self, _request: GetKvConfig, _call: Call) -> Answer:
        self.handled += 1
        return Answer(GetKvConfigAnswer(value="v"))

    async def park(self, size: int) -> None:
        """Let the server owe an answer to a request of so many bytes."""
        self.open(1)
        self._opened[0].sendall(encode_request(0, PUT, 1, body_size=size) + b"x" * size)
        await until(lambda: self.parked)

    def open(self, connections: int) -> None:
        self._opened += [socket.create_connection(self.server.address) for _ in range(connections)]

    def send(self, requests: int) -> None:
        for one in self._opened:
            with suppress(ConnectionError):  # a listener that was closed resets those that it had not accepted
                one.sendall(encode_request(0, GET, 1) * requests)

    async def pass_turns(self) -> None:
        for _ in range(50):
            await self.caller.call(self._other.address, GET)


async def open_connections_while_none_is_read() -> None:
    """Connections that open while the bytes of unanswered requests are at their limit wait, and are served later."""
    async with ParkingServer(Limits(max_in_flight_bytes=1024)) as parking:
        server = parking.server
        await parking.park(2048)
        parking.open(8)
        parking.send(100)
        await until(lambda: server.load.connections == 9)
        await parking.pass_turns()
        assert not parking.handled, f"{parking.handled} requests were handled beyond max_in_flight_bytes"
        parking.parked[0].answer()
        await until(lambda: parking.handled == 900)
        assert not server.load.partial_bytes


async def open_connections_as_a_server_is_hushed() -> None:
    """A server that is hushed in the turn in which connections open handles no request of theirs."""
    async with ParkingServer(Limits()) as parking:
        server = parking.server
        parking.open(3)
        parking.send(1)
        await asyncio.sleep(0)  # uvloop accepts in this turn, and reads in one after it
        await server.hush()
        before = parking.handled
        await parking.pass_turns()
        parking.send(1)
        await parking.pass_turns()
        assert parking.handled == before, f"{parking.handled - before} requests were handled by a hushed server"


def test_connections_that_open_at_the_limit_of_unanswered_bytes_wait(run: Callable[[Scenario], None]) -> None:
    run(open_connections_while_none_is_read)


def test_a_hushed_server_handles_nothing_of_connections_that_open_meanwhile(run: Callable[[Scenario], None]) -> None:
    run(open_connections_as_a_server_is_hushed)


@pytest.mark.parametrize("scenario", [open_connections_while_none_is_read, open_connections_as_a_server_is_hushed])
def test_bytes_of_a_held_connection_that_are_handled_are_seen(
    scenario: Scenario, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(room, "ALL_REQUESTS", 0)
    monkeypatch.setattr(room, "HUSHED", 0)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as loop, pytest.raises(AssertionError, match="handled"):
        loop.run(scenario())
