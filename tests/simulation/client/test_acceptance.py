"""Messages that ``accept`` rejects are acknowledged and counted; an error of ``accept`` is a failed delivery."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from firearrow.client import Consumer, PullConsumer, ReceivedMessage
from firearrow.testing.sim.world import World
from tests.simulation.broker.cluster import SimCluster
from tests.simulation.client.chaos import doors_of
from tests.simulation.client.kit import ask, until
from tests.simulation.client.test_consumer import fill
from tests.simulation.client.test_pausing import committed

COUNT = 40


def is_even(message: ReceivedMessage[Any]) -> bool:
    return message.queue_offset % 2 == 0


async def is_even_soon(message: ReceivedMessage[Any]) -> bool:
    await asyncio.sleep(0.01)
    return is_even(message)


def takes_batches(consumer: Consumer, seen: list[ReceivedMessage]) -> Awaitable[None]:
    async def handle(messages: list[ReceivedMessage]) -> None:
        seen.extend(messages)

    return consumer.run_batches(handle, size=7)


def takes_single_messages(consumer: Consumer, seen: list[ReceivedMessage]) -> Awaitable[None]:
    async def handle(message: ReceivedMessage) -> None:
        seen.append(message)

    return consumer.run(handle)


async def iterates(consumer: Consumer, seen: list[ReceivedMessage]) -> None:
    async for message in consumer:
        async with message.process():
            seen.append(message)


@pytest.mark.parametrize("accept", [is_even, is_even_soon])
@pytest.mark.parametrize("way", [takes_single_messages, takes_batches, iterates])
@pytest.mark.parametrize("ordered", [False, True])
def test_rejected_messages_are_acknowledged_and_counted(
    accept: Any, way: Callable[[Consumer, list[ReceivedMessage]], Awaitable[None]], ordered: bool
) -> None:
    async def scenario(world: World, _cluster: SimCluster, names: str) -> None:
        await fill(world, names, COUNT)
        seen: list[ReceivedMessage] = []
        doors = doors_of(world.node("c"))
        async with Consumer(
            names, group="G", topics="T", start="first", accept=accept, ordered=ordered, doors=doors
        ) as consumer:
            running = asyncio.ensure_future(way(consumer, seen))
            await until(lambda: len(seen) + consumer.rejected == COUNT, 30)
            assert all(map(is_even, seen))
            assert consumer.rejected == COUNT // 2
            assert consumer.failures == 0
            await until(lambda: not any(flow.handed for flow in consumer._member.receiver.flows.values()))
            await consumer.commit()
            assert await committed(world, names) == COUNT
            consumer.stop()
            await running
        if ordered:
            for queue in {message.queue for message in seen}:
                offsets = [message.queue_offset for message in seen if message.queue == queue]
                assert offsets == sorted(offsets)

    ask(scenario, brokers=1, queues=2, seeds=1)


@pytest.mark.parametrize("ordered", [False, True])
def test_an_error_of_accept_is_a_failed_delivery(ordered: bool) -> None:
    async def scenario(world: World, _cluster: SimCluster, names: str) -> None:
        await fill(world, names, 6)
        asked: list[int] = []
        seen: Counter[bytes] = Counter()
        order: list[int] = []

        async def accept(message: ReceivedMessage) -> bool:
            asked.append(message.reconsume_times)
            if message.body == b"m2" and message.reconsume_times < 2:
                raise LookupError("the list of customers cannot be read")
            return True

        async def handle(message: ReceivedMessage) -> None:
            seen[message.body] += 1
            order.append(message.queue_offset)

        doors = doors_of(world.node("c"))
        async with Consumer(
            names, group="G", topics="T", start="first", accept=accept, ordered=ordered, doors=doors
        ) as consumer:
            running = asyncio.get_running_loop().create_task(consumer.run(handle))
            await until(lambda: len(seen) == 6, 200)
            assert set(seen.values()) == {1}, "no handler got it before accept took it"
            assert consumer.failures == 2
            assert consumer.rejected == 0
            assert max(asked) == 2
            if ordered:
                assert order == sorted(order), "the ordered queue waits for it"
            consumer.stop()
            await running

    ask(scenario, brokers=1, queues=1, seeds=1)


def test_broadcast_messages_are_rejected_too_and_given_up_if_accept_fails() -> None:
    async def scenario(world: World, _cluster: SimCluster, names: str) -> None:
        seen: list[bytes] = []

        def accept(message: ReceivedMessage) -> bool:
            if message.body == b"m1":
                raise LookupError("no such customer")
            return message.body != b"m2"

        async def handle(message: ReceivedMessage) -> None:
            seen.append(message.body)

        doors = doors_of(world.node("c"))
        async with Consumer(
            names, group="G", topics="T", start="first", accept=accept, broadcasting=True, doors=doors
        ) as consumer:
            running = asyncio.get_running_loop().create_task(consumer.run(handle))
            await until(lambda: len(consumer.assignment) == 2)
            await fill(world, names, 6)
            await until(lambda: len(seen) == 4)
            assert (consumer.failures, consumer.rejected) == (1, 1)
            consumer.stop()
            await running

    ask(scenario, brokers=1, queues=2, seeds=1)


def test_a_consumer_that_ends_while_accept_waits_loses_nothing() -> None:
    async def scenario(world: World, _cluster: SimCluster, names: str) -> None:
        await fill(world, names, 10)
        waits = asyncio.Event()
        is_first = True

        async def accept(_message: ReceivedMessage) -> bool:
            if is_first:
                waits.set()
                await asyncio.Event().wait()
            return True

        async def handle(message: ReceivedMessage) -> None:
            seen.append(message.queue_offset)

        seen: list[int] = []
        doors = doors_of(world.node("c"))
        async with Consumer(names, group="G", topics="T", start="first", accept=accept, doors=doors) as consumer:
            running = asyncio.get_running_loop().create_task(
                consumer.run_batches(handle_all(handle), size=4, workers=1)
            )
            await waits.wait()
            running.cancel()
            await asyncio.wait([running])
            is_first = False
            again = asyncio.get_running_loop().create_task(consumer.run_batches(handle_all(handle), size=4, workers=1))
            await until(lambda: len(seen) == 10, 30)
            assert seen == sorted(seen), "released messages stand in their order again"
            consumer.stop()
            await again

    ask(scenario, brokers=1, queues=1, seeds=1)


def handle_all(
    handle: Callable[[ReceivedMessage], Awaitable[None]],
) -> Callable[[list[ReceivedMessage]], Awaitable[None]]:
    async def handle_batch(messages: list[ReceivedMessage]) -> None:
        for message in messages:
            await handle(message)

    return handle_batch


@pytest.mark.parametrize("accept", [is_even, is_even_soon])
def test_a_pull_consumer_polls_what_is_accepted(accept: Any) -> None:
    async def scenario(world: World, _cluster: SimCluster, names: str) -> None:
        await fill(world, names, COUNT)
        doors = doors_of(world.node("c"))
        async with PullConsumer(names, group="G", accept=accept, doors=doors) as consumer:
            await consumer.assign(await consumer.queues("T"))
            await consumer.seek_to_begin()
            seen: list[ReceivedMessage] = []
            while taken := await consumer.poll(8, timeout_ms=1000):
                seen += taken
            assert len(seen) == consumer.rejected == COUNT // 2
            assert all(map(is_even, seen))
            await consumer.commit()
        assert await committed(world, names) == COUNT

    ask(scenario, brokers=1, queues=2, seeds=1)


def test_a_slow_accept_is_not_cut_short_by_the_timeout_of_a_poll() -> None:
    async def scenario(world: World, _cluster: SimCluster, names: str) -> None:
        await fill(world, names, 5)

        async def accept(_message: ReceivedMessage) -> bool:
            await asyncio.sleep(1)
            return True

        doors = doors_of(world.node("c"))
        async with PullConsumer(names, group="G", accept=accept, doors=doors) as consumer:
            await consumer.assign(await consumer.queues("T"))
            await consumer.seek_to_begin()
            assert await consumer.poll(timeout_ms=500)

    ask(scenario, brokers=1, queues=1, seeds=1)


def test_an_error_of_accept_is_raised_by_the_poll_and_the_message_comes_again() -> None:
    async def scenario(world: World, _cluster: SimCluster, names: str) -> None:
        await fill(world, names, 5)
        fails = True

        def accept(message: ReceivedMessage) -> bool:
            if fails and message.queue_offset == 2:
                raise LookupError("no such customer")
            return message.queue_offset != 3

        doors = doors_of(world.node("c"))
        async with PullConsumer(names, group="G", accept=accept, doors=doors) as consumer:
            await consumer.assign(await consumer.queues("T"))
            await consumer.seek_to_begin()
            seen = [(await anext(consumer)).queue_offset for _ in range(2)]
            for _ in range(2):
                with pytest.raises(LookupError, match="no such customer"):
                    await anext(consumer)
            fails = False
            seen += [(await anext(consumer)).queue_offset for _ in range(2)]
            assert seen == [0, 1, 2, 4]
            assert consumer.rejected == 1

    ask(scenario, brokers=1, queues=1, seeds=1)
