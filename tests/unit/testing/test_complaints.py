"""An exception that a server tells its log alone is heard: on every loop, in a simulated world, in another's log."""

import asyncio
import gc
import logging
from collections.abc import Callable

import pytest
import uvloop

from firearrow.errors import RequestRefused
from firearrow.protocol.requests.naming.route import GetBrokerClusterInfo
from firearrow.remoting.caller import Caller
from firearrow.remoting.handlers import Call, Handlers
from firearrow.remoting.server import Server
from firearrow.runtime.network import Address, Network, SystemNetwork
from firearrow.testing.complaints import Complained, complaints_in, hearing
from firearrow.testing.sim.world import Node, World

LOOPS = {"stock": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}


def fails(_request: GetBrokerClusterInfo, _call: Call) -> None:
    raise AttributeError("a Handle has no when()")


async def ask_a_failing_handler(network: Network, host: str) -> None:
    handlers = Handlers()
    handlers.on(GetBrokerClusterInfo, fails)
    server, caller = Server(network, handlers), Caller(network)
    await server.start(Address(host, 0))
    with pytest.raises(RequestRefused):
        await caller.call(server.address, GetBrokerClusterInfo())
    await caller.close()
    await server.stop()


async def raise_in_a_callback(_network: Network, _host: str) -> None:
    asyncio.get_running_loop().call_soon(dict[str, str]().__getitem__, "nothing")
    await asyncio.sleep(0.01)


async def forget_a_task(_network: Network, _host: str) -> None:
    async def fail() -> None:
        raise KeyError("nothing")

    task = asyncio.create_task(fail())
    await asyncio.sleep(0.01)
    del task
    gc.collect()


PROVOCATIONS = (ask_a_failing_handler, raise_in_a_callback, forget_a_task)


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("provoke", PROVOCATIONS)
def test_what_only_the_log_is_told_is_heard(provoke: Callable[[Network, str], object], loop: str) -> None:
    heard: list[BaseException | None] = []
    with (
        hearing(lambda _, error: heard.append(error)),
        asyncio.Runner(loop_factory=LOOPS[loop]) as runner,
    ):
        runner.run(provoke(SystemNetwork(), "127.0.0.1"))  # type: ignore[arg-type]
    assert [type(error) for error in heard] in ([AttributeError], [KeyError])


@pytest.mark.parametrize("provoke", PROVOCATIONS)
def test_a_simulated_world_ends_with_it(provoke: Callable[[Network, str], object]) -> None:
    async def program(node: Node) -> None:
        await provoke(node.network, "127.0.0.1")  # type: ignore[misc]

    async def scenario(world: World) -> None:
        node = world.node("server")
        node.start(program)
        await node.finished()

    with pytest.raises((Complained, KeyError)):
        World(1).run(scenario)


def test_what_a_scenario_expects_passes() -> None:
    async def scenario(world: World) -> None:
        world.expected = (AttributeError,)
        node = world.node("server")
        await ask_a_failing_handler(node.network, "127.0.0.1")

    World(1).run(scenario)


def test_an_error_of_a_users_handler_is_none() -> None:
    heard: list[str] = []
    with hearing(lambda words, _: heard.append(words)):
        logging.getLogger("firearrow.client.consumer.message").error("not handled", exc_info=KeyError("theirs"))
        logging.getLogger("firearrow.store").error("sends are refused")
    assert heard == []


def test_the_log_of_a_process_is_read() -> None:
    log = """12:00 INFO broker serves
12:01 ERROR handler failed
Traceback (most recent call last):
  File "pull.py", line 316, in _set_timer
AttributeError: 'uvloop.loop.Handle' object has no attribute 'when'
12:02 INFO broker stopped"""
    [found] = complaints_in(log)
    assert found.startswith("12:01 ERROR handler failed")
    assert complaints_in(log, ["has no attribute 'when'"]) == []
    assert complaints_in("12:00 ERROR sends are refused\n") == []
