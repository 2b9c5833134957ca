"""Limits, interrupted closes and cancelled sends of a producer; a consumer that is closed over a stuck handler."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from firearrow.client import Consumer, Message, Producer, PullConsumer, ReceivedMessage
from firearrow.errors import ClientClosed, FireArrowError
from firearrow.remoting.caller import Caller
from firearrow.testing.sim.world import World
from tests.simulation.broker.cluster import SimCluster
from tests.simulation.client.chaos import doors_of
from tests.simulation.client.kit import ask, until
from tests.simulation.client.test_consumer import fill

SENDS = 50


async def stored(world: World, names: str, name: str) -> int:
    """Return how many messages the topic has."""
    async with PullConsumer(names, group="R", doors=doors_of(world.node(name))) as reader:
        return sum(bounds.end - bounds.first for bounds in (await reader.bounds("T")).values())


def keyed(number: int) -> Message:
    """A message that shares no batch with another."""
    return Message.of("T", b"%d" % number, sharding_key=str(number))


async def by_linger(producer: Producer) -> None:
    await asyncio.gather(*(producer.send(keyed(number)) for number in range(SENDS)))


async def by_batch(producer: Producer) -> None:
    pair = [Message.of("T", b"x"), Message.of("T", b"y")]
    await asyncio.gather(*(producer.send_batch(pair) for _ in range(SENDS)))


async def by_oneway(producer: Producer) -> None:
    await asyncio.gather(*(producer.send_oneway(keyed(number)) for number in range(SENDS)))


@pytest.mark.parametrize("send", [by_linger, by_batch])
def test_no_more_requests_than_max_sends_are_in_flight(send: Callable[[Producer], Awaitable[None]]) -> None:
    async def scenario(world: World, _cluster: SimCluster, names: str) -> None:
        doors = doors_of(world.node("p"))
        async with Producer(names, group="P", doors=doors, linger_ms=5, max_sends=2) as producer:
            await producer.send(Message.of("T", b"x"))
            await asyncio.sleep(1)  # the broker has had its first heartbeat
            most, ended = 0, False

            async def watch() -> None:
                nonlocal most
                while not ended:
                    assert producer._instance is not None
                    endpoint, _ = producer._instance.caller._made()
                    most = max(most, sum(each.outstanding for each in endpoint.connections))
                    await asyncio.sleep(0.0001)

            watching = asyncio.get_running_loop().create_task(watch())
            await send(producer)
            ended = True
            await watching
            assert 1 <= most <= 2, f"{most} requests were in flight"

    ask(scenario, brokers=1, seeds=1)


def test_one_way_sends_wait_for_their_turn_too(monkeypatch: pytest.MonkeyPatch) -> None:
    flying = most = 0
    tell = Caller.tell

    async def counted(self: Caller, *arguments: Any, **named: Any) -> None:
        nonlocal flying, most
        flying += 1
        most = max(most, flying)
        try:
            await asyncio.sleep(0.01)
            await tell(self, *arguments, **named)
        finally:
            flying -= 1

    async def scenario(world: World, _cluster: SimCluster, names: str) -> None:
        await first(world, names)
        async with Producer(names, group="P", max_sends=2, doors=doors_of(world.node("p"))) as producer:
            await producer.send(Message.of("T", b"x"))
            with monkeypatch.context() as patch:
                patch.setattr(Caller, "tell", counted)
                await by_oneway(producer)

    ask(scenario, brokers=1, seeds=1)
    assert most == 2


async def first(world: World, names: str) -> int:
    async with Producer(names, group="F", doors=doors_of(world.node("f"))) as producer:
        await producer.send(Message.of("T", b"first"))
    return await stored(world, names, "r1")


def test_an_interrupted_close_says_of_what_is_on_the_wire_that_it_may_be_stored() -> None:
    async def scenario(world: World, cluster: SimCluster, names: str) -> None:
        before = await first(world, names)
        node = world.nodes[cluster.brokers[0].name]
        producer = Producer(names, group="P", doors=doors_of(world.node("p")), linger_ms=5, send_timeout_ms=20_000)
        await producer.open()
        await producer.send(Message.of("T", b"x"))
        node.freeze()
        loop = asyncio.get_running_loop()
        sending = [loop.create_task(producer.send(Message.of("T", b"m%d" % number))) for number in range(3)]
        await asyncio.sleep(1)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(producer.close(), 1)
        await asyncio.wait_for(producer.close(), 10)
        assert all(task.done() for task in sending), "a close leaves no send behind"
        outcomes = [task.exception() for task in sending]
        node.thaw()
        await asyncio.sleep(2)
        assert await stored(world, names, "r2") == before + 4, "all three are stored"
        for outcome in outcomes:
            assert isinstance(outcome, FireArrowError)
            assert outcome.may_have_happened, f"{outcome!r} denies a stored message"

    ask(scenario, brokers=1, seeds=1)


def test_a_send_that_is_cancelled_before_its_batch_leaves_is_not_stored() -> None:
    async def scenario(world: World, _cluster: SimCluster, names: str) -> None:
        before = await first(world, names)
        async with Producer(names, group="P", doors=doors_of(world.node("p")), linger_ms=300) as producer:
            loop = asyncio.get_running_loop()
            sending = [loop.create_task(producer.send(Message.of("T", b"%d" % number))) for number in range(3)]
            alone = loop.create_task(producer.send(keyed(7)))
            await asyncio.sleep(0.05)
            sending[1].cancel()
            alone.cancel()
            await asyncio.wait(sending)
            assert sending[0].result().is_ok
            assert sending[2].result().is_ok
            await asyncio.sleep(1)
            assert await stored(world, names, "r2") == before + 2

    ask(scenario, brokers=1, seeds=1)


def test_a_send_after_the_close_is_refused() -> None:
    async def scenario(world: World, _cluster: SimCluster, names: str) -> None:
        producer = Producer(names, group="P", doors=doors_of(world.node("p")), linger_ms=5, max_sends=1)
        async with producer:
            await producer.send(Message.of("T", b"x"))
        with pytest.raises(ClientClosed):
            await producer.send(Message.of("T", b"x"))

    ask(scenario, brokers=1, seeds=1)


@pytest.mark.parametrize("is_batch", [False, True])
def test_a_consumer_that_is_closed_over_a_stuck_handler_ends_its_run(is_batch: bool) -> None:
    async def scenario(world: World, _cluster: SimCluster, names: str) -> None:
        await fill(world, names, 5)
        tasks = asyncio.all_tasks()
        held: list[object] = []

        async def stuck(given: ReceivedMessage | list[ReceivedMessage]) -> None:
            held.append(given)
            await asyncio.sleep(3_600)

        consumer = Consumer(names, group="G", topics="T", start="first", doors=doors_of(world.node("c")))
        await consumer.open()
        working = consumer.run_batches(stuck) if is_batch else consumer.run(stuck)
        running = asyncio.get_running_loop().create_task(working)
        await until(lambda: bool(held))
        await asyncio.wait_for(consumer.close(), 120)
        await until(running.done, 5)
        assert running.exception() is None, "run returns"
        await until(lambda: asyncio.all_tasks() <= tasks, 5)

    ask(scenario, brokers=1, seeds=1)
