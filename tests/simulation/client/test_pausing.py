"""A paused consumer hands nothing over, keeps its queues, and commits no further than what was handled."""

import asyncio
from collections import Counter

import pytest

from firearrow.client import Consumer, MessageQueue, PullConsumer, ReceivedMessage
from firearrow.errors import SettingsError
from firearrow.testing.sim.world import World
from tests.simulation.broker.cluster import SimCluster
from tests.simulation.client.chaos import doors_of
from tests.simulation.client.kit import ask, until
from tests.simulation.client.test_consumer import fill

LONG_S = 200.0
"""Longer than stalls, rebalances and locks take."""


def consumer_of(world: World, names: str, *, ordered: bool = False, workers: int = 20) -> Consumer:
    doors = doors_of(world.nodes.get("c") or world.node("c"))
    return Consumer(names, group="G", topics="T", start="first", ordered=ordered, workers=workers, doors=doors)


async def committed(world: World, names: str) -> int:
    node = world.nodes.get("other") or world.node("other")
    async with PullConsumer(names, group="G", doors=doors_of(node)) as other:
        return sum([await other.committed(queue) or 0 for queue in await other.queues("T")])


def mine(consumer: Consumer) -> list[MessageQueue]:
    return [queue for queue in consumer.assignment if queue.topic == "T"]


@pytest.mark.parametrize("ordered", [False, True])
def test_what_was_pulled_waits_and_offsets_stay(ordered: bool) -> None:
    async def scenario(world: World, _cluster: SimCluster, names: str) -> None:
        await fill(world, names, 20)
        seen: list[bytes] = []
        begun, go_on = asyncio.Event(), asyncio.Event()

        async def handle(message: ReceivedMessage) -> None:
            begun.set()
            await go_on.wait()
            seen.append(message.body)

        async with consumer_of(world, names, ordered=ordered, workers=1) as consumer:
            running = asyncio.get_running_loop().create_task(consumer.run(handle))
            await begun.wait()
            before = mine(consumer)
            consumer.pause()
            await fill(world, names, 20, "later")
            go_on.set()
            await asyncio.sleep(LONG_S)
            assert len(seen) == 1, "what runs goes on, and nothing else begins"
            assert mine(consumer) == before
            assert consumer.paused == consumer.assignment
            assert consumer.stalls() == []
            await consumer.commit()
            assert await committed(world, names) == 1
            consumer.resume()
            assert consumer.paused == []
            await until(lambda: len(seen) == 40, 10)
            assert len(set(seen)) == 40
            await consumer.commit()
            assert await committed(world, names) == 40
            consumer.stop()
            await running

    ask(scenario, brokers=1, queues=2, seeds=2)


def test_one_queue_of_two_is_paused_and_its_own_word_counts() -> None:
    async def scenario(world: World, _cluster: SimCluster, names: str) -> None:
        seen: Counter[MessageQueue] = Counter()

        async def handle(message: ReceivedMessage) -> None:
            seen[message.queue] += 1

        async with consumer_of(world, names) as consumer:
            running = asyncio.get_running_loop().create_task(consumer.run(handle))
            await until(lambda: len(mine(consumer)) == 2)
            one, two = mine(consumer)
            consumer.pause(one)
            await fill(world, names, 10)
            await until(lambda: seen[two] == 5)
            await asyncio.sleep(20)
            assert seen == {two: 5}
            consumer.pause("T")
            consumer.resume(one)
            await until(lambda: seen[one] == 5)
            await fill(world, names, 10, "more")
            await until(lambda: seen[one] == 10)
            assert consumer.paused == [two]
            assert seen[two] == 5
            consumer.resume("T")
            await until(lambda: seen[two] == 10)
            consumer.stop()
            await running

    ask(scenario, brokers=1, queues=2)


def test_a_message_that_failed_does_not_come_by_way_of_the_retry_topic() -> None:
    async def scenario(world: World, _cluster: SimCluster, names: str) -> None:
        await fill(world, names, 1)
        deliveries: list[int] = []

        async def handle(message: ReceivedMessage) -> None:
            deliveries.append(message.reconsume_times)
            if len(deliveries) == 1:
                consumer.pause("T")
                raise ValueError("the database is away")

        async with consumer_of(world, names) as consumer:
            running = asyncio.get_running_loop().create_task(consumer.run(handle))
            await until(lambda: len(deliveries) == 1)
            await asyncio.sleep(LONG_S)
            assert deliveries == [0]
            assert consumer.stalls() == []
            consumer.resume("T")
            await until(lambda: deliveries == [0, 1], 5)
            consumer.stop()
            await running

    ask(scenario, brokers=1, queues=1, seeds=2)


def test_a_pause_of_a_topic_counts_for_queues_that_come_later_and_that_of_a_queue_ends_with_it() -> None:
    async def scenario(world: World, _cluster: SimCluster, names: str) -> None:
        world.node("a")
        async with consumer_of(world, names) as consumer:
            await until(lambda: len(mine(consumer)) == 2)
            consumer.pause(*mine(consumer))
            doors = doors_of(world.nodes["a"])
            async with Consumer(names, group="G", topics="T", doors=doors) as other:
                await until(lambda: len(mine(consumer)) == len(mine(other)) == 1)
                (kept,) = mine(consumer)
            await until(lambda: len(mine(consumer)) == 2)
            assert consumer.paused == [kept]
            consumer.pause("T")
            async with Consumer(names, group="G", topics="T", doors=doors) as other:
                await until(lambda: len(mine(consumer)) == 1)
            await until(lambda: len(mine(consumer)) == 2)
            assert consumer.paused == mine(consumer)

    ask(scenario, brokers=1, queues=2, seeds=2)


def test_a_paused_queue_that_changes_hands_is_handled_elsewhere_once() -> None:
    async def scenario(world: World, _cluster: SimCluster, names: str) -> None:
        world.node("a")
        seen: Counter[bytes] = Counter()

        async def handle(message: ReceivedMessage) -> None:
            seen[message.body] += 1

        async with consumer_of(world, names) as consumer:
            running = asyncio.get_running_loop().create_task(consumer.run(handle))
            await until(lambda: len(mine(consumer)) == 2)
            await fill(world, names, 10)
            await until(lambda: len(seen) == 10)
            consumer.pause()
            await consumer.commit()
            await fill(world, names, 10, "more")
            async with Consumer(names, group="G", topics="T", doors=doors_of(world.nodes["a"])) as other:
                others = asyncio.get_running_loop().create_task(other.run(handle))
                await until(lambda: len(seen) == 15 and len(mine(consumer)) == 1)
                consumer.resume()
                await until(lambda: len(seen) == 20)
                assert set(seen.values()) == {1}, seen
                for each in (consumer, other):
                    each.stop()
                await asyncio.gather(running, others)

    ask(scenario, brokers=1, queues=2, seeds=2)


def test_a_pull_consumer_polls_nothing_of_what_is_paused() -> None:
    async def scenario(world: World, _cluster: SimCluster, names: str) -> None:
        await fill(world, names, 10)
        async with PullConsumer(names, group="G", start="first", doors=doors_of(world.node("c"))) as consumer:
            one, two = await consumer.queues("T")
            await consumer.assign([one, two])
            assert await consumer.poll(1)
            consumer.pause(two)
            while polled := await consumer.poll(timeout_ms=1000):
                assert {message.queue for message in polled} == {one}
            assert consumer.position(one) == 5
            assert consumer.position(two) in (0, 1)
            consumer.resume()
            assert {message.queue for message in await consumer.poll()} == {two}

    ask(scenario, brokers=1, queues=2, seeds=2)


def test_what_cannot_be_paused_is_refused_by_name() -> None:
    async def scenario(world: World, _cluster: SimCluster, names: str) -> None:
        async with consumer_of(world, names) as consumer:
            await until(lambda: len(mine(consumer)) == 2)
            with pytest.raises(SettingsError, match="'order' is not subscribed; there are %RETRY%G, T"):
                consumer.pause("order")
            with pytest.raises(SettingsError, match=r"queue_id=7\) is not assigned to this consumer now"):
                consumer.pause(MessageQueue("T", "broker0", 7))
            with pytest.raises(SettingsError, match="7 cannot be paused or resumed; give a topic or a MessageQueue"):
                consumer.resume(7)  # type: ignore[arg-type]
            assert consumer.paused == []

    ask(scenario, brokers=1, queues=2, seeds=1)


def test_batches_of_an_ordered_queue_pause_too() -> None:
    async def scenario(world: World, _cluster: SimCluster, names: str) -> None:
        await fill(world, names, 10)
        sizes: list[int] = []

        async def handle(messages: list[ReceivedMessage]) -> None:
            sizes.append(len(messages))
            consumer.pause()

        async with consumer_of(world, names, ordered=True) as consumer:
            running = asyncio.get_running_loop().create_task(consumer.run_batches(handle, size=4))
            done = 0
            while sum(sizes) < 10:
                done += 1
                await until(lambda done=done: len(sizes) >= done)  # type: ignore[misc]
                await asyncio.sleep(20)
                assert len(sizes) == done
                consumer.resume()
            consumer.stop()
            await running

    ask(scenario, brokers=1, queues=1, seeds=1)
