"""Floods of connections, on both loops: few in a turn, none that takes the last descriptors, and no end."""

import asyncio
import logging
import os
import resource
import socket
from collections.abc import Callable, Coroutine, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest
import uvloop

from firearrow.runtime import acceptor as accepting
from firearrow.runtime.acceptor import AT_ONCE, Acceptor
from firearrow.runtime.network import Address, SystemNetwork
from firearrow.telemetry.damped import EVERY_S, DampedEvents

HERE = Address("127.0.0.1", 0)
Scenario = Callable[[], Coroutine[Any, Any, None]]


@pytest.fixture(params=["stock", "uvloop"])
def run(request: pytest.FixtureRequest) -> Callable[[Scenario], None]:
    def runner(scenario: Scenario) -> None:
        errors: list[dict[str, Any]] = []

        async def checked() -> None:
            asyncio.get_running_loop().set_exception_handler(lambda _, context: errors.append(context))
            async with asyncio.timeout(20):
                await scenario()

        with asyncio.Runner(loop_factory=uvloop.new_event_loop if request.param == "uvloop" else None) as loop:
            loop.run(checked())
        assert not errors

    return runner


class Guests:
    """Counts who was let in."""

    def __init__(self) -> None:
        self.inside: list[asyncio.BaseTransport] = []

    def protocol(self) -> asyncio.Protocol:
        guests = self

        class Guest(asyncio.Protocol):
            def connection_made(self, transport: asyncio.BaseTransport) -> None:
                guests.inside.append(transport)

        return Guest()

    def leave(self) -> None:
        for transport in self.inside:
            transport.close()
        self.inside.clear()


async def until(condition: Callable[[], object]) -> None:
    while not condition():  # noqa: ASYNC110 - the condition is somebody else's
        await asyncio.sleep(0.005)


def knock(address: Address, stack: ExitStack) -> socket.socket:
    """Connect as far as the system does without the listener."""
    guest = stack.enter_context(socket.socket())
    guest.setblocking(False)
    guest.connect_ex(tuple(address))
    return guest


def next_descriptor() -> int:
    number = os.dup(0)
    os.close(number)
    return number


@contextmanager
def at_most(descriptors: int) -> Iterator[None]:
    """Let this process have so many descriptors."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (descriptors, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_connections_that_would_take_the_last_descriptors_are_refused(
    run: Callable[[Scenario], None], caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        guests = Guests()
        listener = await SystemNetwork(descriptors=next_descriptor() + 40).listen(guests.protocol, HERE)
        acceptor: Acceptor = listener._acceptor  # type: ignore[attr-defined]
        with ExitStack() as stack:
            for _ in range(30):
                knock(listener.address, stack)
            await until(lambda: acceptor.refused.total + len(guests.inside) == 30)
            assert acceptor.refused.total >= 20
        guests.leave()
        with ExitStack() as stack:  # there is room again
            knock(listener.address, stack)
            await until(lambda: guests.inside)
        guests.leave()
        listener.close()
        await listener.wait_closed()

    with caplog.at_level(logging.WARNING):
        run(scenario)
    (record,) = caplog.records
    assert "ulimit -n" in record.getMessage()


def test_a_system_without_descriptors_ends_nothing_and_is_asked_seldom(run: Callable[[Scenario], None]) -> None:
    async def scenario() -> None:
        guests = Guests()
        listener = await SystemNetwork(descriptors=1 << 20).listen(guests.protocol, HERE)
        acceptor: Acceptor = listener._acceptor  # type: ignore[attr-defined]
        with ExitStack() as stack:
            sockets = [stack.enter_context(socket.socket()) for _ in range(5)]
            fillers: list[int] = []
            with at_most(next_descriptor() + 1):
                while True:  # close the gaps below
                    try:
                        fillers.append(os.dup(0))
                    except OSError:
                        break
                for guest in sockets:
                    guest.setblocking(False)
                    guest.connect_ex(tuple(listener.address))
                await asyncio.sleep(0.5)
                assert guests.inside == []
                assert 1 <= acceptor.exhausted.total <= 30, "it spins"
            for filler in fillers:
                os.close(filler)
            await until(lambda: len(guests.inside) == 5)
        guests.leave()
        listener.close()
        await listener.wait_closed()

    run(scenario)


def test_a_flood_is_accepted_a_few_in_a_turn(run: Callable[[Scenario], None], monkeypatch: pytest.MonkeyPatch) -> None:
    taken: list[int] = []
    accept, take = Acceptor._accept, Acceptor._take

    def turn(self: Acceptor, listener: socket.socket) -> None:
        taken.append(0)
        accept(self, listener)

    def counting(self: Acceptor, connection: socket.socket) -> None:
        taken[-1] += 1
        take(self, connection)

    monkeypatch.setattr(Acceptor, "_accept", turn)
    monkeypatch.setattr(Acceptor, "_take", counting)

    async def scenario() -> None:
        guests = Guests()
        listener = await SystemNetwork().listen(guests.protocol, HERE)
        with ExitStack() as stack:
            for _ in range(200):
                knock(listener.address, stack)
            await until(lambda: len(guests.inside) == 200)
        guests.leave()
        listener.close()
        await listener.wait_closed()

    run(scenario)
    assert sum(taken) == 200
    assert max(taken) <= AT_ONCE


def test_the_limit_is_raised_to_what_the_system_allows() -> None:
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    with at_most(min(1024, hard)):
        assert accepting.raise_descriptor_limit() == hard
        assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] == hard


@pytest.mark.parametrize(("limit", "most"), [(256, 64), (1024, 448), (10_000, 5840), (20_000, 15_840)])
def test_files_keep_their_share_of_descriptors(limit: int, most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (limit, limit))
    assert accepting.descriptors_for_connections() == most


def test_many_events_are_said_once_and_then_together() -> None:
    damped = DampedEvents()
    said = [damped.count(0.001 * number) for number in range(1000)]
    assert sum(said) == 1
    assert said[0] == 1
    assert damped.count(EVERY_S + 1) == 1000
    assert damped.total == 1001
