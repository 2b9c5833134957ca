"""A store with what Apache's broker has begun and not finished is refused with its counts, or opened with a warning."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from msgspec.structs import replace

from firearrow.broker.settings.config import BrokerConfig, BrokerSettings
from firearrow.errors import NotNow
from firearrow.store.placement import FLUSHED
from firearrow.store.store import Store, StoreConfig
from firearrow.store.timer.config import TimerConfig
from firearrow.store.views.views import ViewsConfig
from firearrow.testing.sim.world import Node, World
from tests.unit.broker.whole import Client, Simulated, settings_of
from tests.unit.store.begun import NOW_S, Begun, SetOut

Scene = Callable[[Begun], Awaitable[None]]


async def two_of_each(begun: Begun) -> None:
    begun.half()
    begun.half()
    timers = [SetOut(begun.timed(), NOW_S + 9), SetOut(begun.timed(), NOW_S + 20)]
    await begun.save_wheel(timers, next_s=NOW_S, next_offset=2)
    begun.check_point(0, 1)
    begun.check_point(1, 1)


async def finished(begun: Begun) -> None:
    begun.half()
    begun.end(0)
    await begun.save_wheel([SetOut(begun.timed(), NOW_S - 9)], next_s=NOW_S, next_offset=1)
    begun.check_point(0, 1)
    begun.acknowledge(0, 0)


async def fill(node: Node, scene: Scene) -> None:
    """Let another program write a store on a node, and end in order."""
    settings = settings_of()
    config = StoreConfig(log=settings.log, views=ViewsConfig(queues=settings.queues, index=settings.index))

    async def program(node: Node) -> None:
        store = await Store.open(node.disk, node.clock, config, "boot")
        running = asyncio.get_running_loop().create_task(store.run())
        await scene(Begun(store, node.disk))
        await store.reached(store.log.tail, FLUSHED)
        await store.close()
        running.cancel()

    node.start(program)
    await node.finished()
    await node.stop()


async def refusal_of(broker: Simulated) -> str:
    """The reason why a broker does not start."""
    said: list[str] = []

    async def program(node: Node) -> None:
        try:
            await broker.run(node)
        except* NotNow as refused:
            said.extend(map(str, refused.exceptions))

    broker.node.start(program)
    await broker.node.finished()
    await broker.node.stop()
    return said[0]


def without_timers(settings: BrokerSettings) -> BrokerSettings:
    return replace(settings, timers=TimerConfig(timer_wheel_enable=False))


async def timed_alone(begun: Begun) -> None:
    timers = [SetOut(begun.timed(), NOW_S + 9), SetOut(begun.timed(), NOW_S + 20)]
    await begun.save_wheel(timers, next_s=NOW_S, next_offset=2)


def test_timed_messages_are_refused_only_while_timers_are_off() -> None:
    async def run(world: World) -> None:
        node = world.node("broker")
        await fill(node, timed_alone)
        assert "2 timed messages" in await refusal_of(Simulated(node, without_timers(settings_of())))
        broker = Simulated(node, settings_of())
        await broker.start()
        await node.stop()

    World(1).run(run)


def test_refused_with_counts_and_what_to_do() -> None:
    async def run(world: World) -> None:
        node = world.node("broker")
        await fill(node, two_of_each)
        broker = Simulated(node, without_timers(settings_of()))
        said = await refusal_of(broker)
        for expected in ("2 timed messages", "2 pop check-points", "Let Apache's broker run"):
            assert expected in said
        assert "half message" not in said, "this broker goes on with them"
        assert "openWithPendingState=true" in said
        assert await refusal_of(broker) == said, "refusing changes nothing"

    World(1).run(run)


def test_opened_all_the_same_when_told_to(caplog: pytest.LogCaptureFixture) -> None:
    async def run(world: World) -> None:
        node = world.node("broker")
        await fill(node, two_of_each)
        told = replace(BrokerConfig(broker_name="broker-a"), open_with_pending_state=True)
        broker = Simulated(node, without_timers(settings_of(told)))
        await broker.start()
        client = Client(world.node("client"), broker.address)
        await client.send()
        assert len(await client.stored()) == 1
        await node.stop()
        said = await refusal_of(Simulated(node, without_timers(settings_of())))
        assert "2 timed messages" in said, "they are kept for Apache's"

    World(1).run(run)
    warned = [record.getMessage() for record in caplog.records if "openWithPendingState" in record.getMessage()]
    assert len(warned) == 1
    assert "2 timed messages" in warned[0]


def test_what_is_finished_opens() -> None:
    async def run(world: World) -> None:
        node = world.node("broker")
        await fill(node, finished)
        broker = Simulated(node, settings_of())
        await broker.start()
        await node.stop()

    World(1).run(run)
