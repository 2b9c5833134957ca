"""At most one handler of a group has a message of an ordered queue, whatever happens to the queue meanwhile."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from firearrow.client import Consumer, MessageQueue, ReceivedMessage
from firearrow.testing.sim.world import World
from tests.simulation.broker.cluster import SimCluster
from tests.simulation.client.chaos import doors_of
from tests.simulation.client.kit import ask, until
from tests.simulation.client.test_consumer import fill

LONG_S = 200.0
"""Longer than a lock lives at a broker, which is 60 s."""

Handle = Callable[[ReceivedMessage], Awaitable[None]]


class Watch:
    """Sees when handlers begin and end, and that they do not overlap."""

    def __init__(self) -> None:
        self.busy: dict[object, str] = {}
        self.overlaps: list[str] = []
        self.begun: list[tuple[str, int]] = []
        self.ended: list[tuple[str, int]] = []

    def handler(self, who: str, seconds: float) -> Handle:
        async def handle(message: ReceivedMessage) -> None:
            place = message.queue
            if place in self.busy:
                self.overlaps.append(f"{who} begins offset {message.queue_offset} beside {self.busy[place]}")
            self.busy[place] = f"{who} at offset {message.queue_offset}"
            self.begun.append((who, message.queue_offset))
            try:
                await asyncio.sleep(seconds if message.queue_offset == 0 else 0.1)
            finally:
                self.busy.pop(place, None)  # another handler may have begun and ended beside this one
            self.ended.append((who, message.queue_offset))

        return handle


async def prepared(world: World, names: str) -> Watch:
    """Three messages and two machines. Who has the lower address, a, gets the only queue when both are there."""
    await fill(world, names, 3)
    world.node("a")
    world.node("b")
    return Watch()


def member(world: World, names: str, name: str) -> Consumer:
    doors = doors_of(world.nodes[name])
    return Consumer(names, group="G", topics="T", start="first", ordered=True, doors=doors)


def test_a_queue_that_changes_hands_waits_for_its_handler() -> None:
    async def scenario(world: World, _cluster: SimCluster, names: str) -> None:
        watch = await prepared(world, names)
        async with member(world, names, "b") as old:
            running = asyncio.get_running_loop().create_task(old.run(watch.handler("old", LONG_S)))
            await until(lambda: bool(watch.begun))
            async with member(world, names, "a") as new:
                other = asyncio.get_running_loop().create_task(new.run(watch.handler("new", 0.1)))
                await until(lambda: ("new", 2) in watch.ended, 2 * LONG_S)
                assert not watch.overlaps
                assert watch.ended == [("old", 0), ("new", 1), ("new", 2)]
                for consumer in (old, new):
                    consumer.stop()
                await asyncio.gather(running, other)

    ask(scenario, brokers=1, queues=1)


@pytest.mark.parametrize("times", [2, 3])
def test_a_queue_that_comes_and_goes_waits_for_its_handler(times: int) -> None:
    async def scenario(world: World, _cluster: SimCluster, names: str) -> None:
        watch = await prepared(world, names)
        async with member(world, names, "b") as old:
            running = asyncio.get_running_loop().create_task(old.run(watch.handler("old", LONG_S)))
            await until(lambda: bool(watch.begun))
            for _ in range(times):  # members come, get the queue, and leave before they had a message of it
                async with member(world, names, "a"):
                    await asyncio.sleep(5)
                await asyncio.sleep(5)
            await until(lambda: ("old", 2) in watch.ended, 2 * LONG_S)
            assert not watch.overlaps
            assert watch.begun == [("old", 0), ("old", 1), ("old", 2)]
            old.stop()
            await running

    ask(scenario, brokers=1, queues=1)


def test_a_queue_that_is_reset_waits_for_its_handler() -> None:
    async def scenario(world: World, _cluster: SimCluster, names: str) -> None:
        watch = await prepared(world, names)
        async with member(world, names, "a") as consumer:
            running = asyncio.get_running_loop().create_task(consumer.run(watch.handler("it", LONG_S)))
            await until(lambda: bool(watch.begun))
            consumer._member.receiver.reset(MessageQueue("T", "broker0", 0), 1)
            await asyncio.sleep(LONG_S / 2)
            assert watch.begun == [("it", 0)]
            assert any("delivered before" in stall.reason for stall in consumer.stalls())
            await until(lambda: ("it", 2) in watch.ended, LONG_S)
            assert not watch.overlaps
            consumer.stop()
            await running

    ask(scenario, brokers=1, queues=1)


def test_a_lock_that_was_lost_for_a_while_lets_nobody_begin_beside_a_handler() -> None:
    async def scenario(world: World, cluster: SimCluster, names: str) -> None:
        watch = await prepared(world, names)
        async with member(world, names, "a") as consumer:
            running = asyncio.get_running_loop().create_task(consumer.run(watch.handler("it", LONG_S)))
            await until(lambda: bool(watch.begun))
            await cluster.brokers[0].crash(power=False)
            await asyncio.sleep(45)  # longer than the lock is trusted here
            await cluster.brokers[0].start()
            await until(lambda: ("it", 2) in watch.ended, 2 * LONG_S)
            assert not watch.overlaps
            consumer.stop()
            await running

    ask(scenario, brokers=1, queues=1)


def test_a_member_that_closes_while_a_handler_runs_leaves_its_lock_to_lapse() -> None:
    async def scenario(world: World, _cluster: SimCluster, names: str) -> None:
        watch = await prepared(world, names)
        old = member(world, names, "b")
        await old.open()
        running = asyncio.get_running_loop().create_task(old.run(watch.handler("old", 30)))
        await until(lambda: bool(watch.begun))
        async with member(world, names, "a") as new:
            other = asyncio.get_running_loop().create_task(new.run(watch.handler("new", 0.1)))
            await asyncio.sleep(1)
            await old.close()  # its handler goes on for most of its 30 s
            await until(lambda: ("new", 2) in watch.ended, 100)
            assert not watch.overlaps
            new.stop()
            await asyncio.gather(running, other)

    ask(scenario, brokers=1, queues=1)


def test_a_handler_that_takes_longer_than_it_may_does_not_keep_a_queue_for_ever() -> None:
    async def scenario(world: World, _cluster: SimCluster, names: str) -> None:
        watch = await prepared(world, names)
        async with member(world, names, "b") as old:
            running = asyncio.get_running_loop().create_task(old.run(watch.handler("old", 3000)))
            await until(lambda: bool(watch.begun))
            async with member(world, names, "a") as new:
                other = asyncio.get_running_loop().create_task(new.run(watch.handler("new", 0.1)))
                await until(lambda: ("new", 2) in watch.ended, 1000)  # consume_timeout_ms is 900 s
                new.stop()
                running.cancel()
                await asyncio.gather(running, other, return_exceptions=True)

    ask(scenario, brokers=1, queues=1, seeds=1)
