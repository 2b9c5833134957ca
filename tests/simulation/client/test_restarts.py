"""Sends ride out the restart of a broker, come back with patience, and know whether anything left."""

import asyncio
import logging
from itertools import groupby

import pytest

from firearrow.client import Message, Producer, PullConsumer
from firearrow.errors import FireArrowError, NoRoute, SendFailed
from firearrow.testing.sim.world import World
from tests.simulation.broker.cluster import SimCluster
from tests.simulation.client.chaos import doors_of
from tests.simulation.client.kit import ask

NOBODY = "10.9.9.9:9876"


@pytest.mark.parametrize("sharding_key", ["", "k"])
@pytest.mark.parametrize("linger_ms", [0, 5])
def test_a_lone_broker_that_is_back_in_time_costs_no_send(linger_ms: float, sharding_key: str) -> None:
    async def scenario(world: World, cluster: SimCluster, names: str) -> None:
        over = asyncio.Event()
        sent = [0] * 10

        async def send(number: int) -> None:
            doors = doors_of(world.node(f"p{number}"))
            async with Producer(names, group="P", linger_ms=linger_ms, doors=doors) as producer:
                while not over.is_set():
                    await producer.send(Message("T", b"%d" % number, sharding_key=sharding_key))
                    sent[number] += 1
                    await asyncio.sleep(0.01)

        async with asyncio.TaskGroup() as group:
            for number in range(len(sent)):
                group.create_task(send(number))
            await asyncio.sleep(1)
            before = list(sent)
            assert all(before)
            await cluster.brokers[0].crash(power=False)
            await asyncio.sleep(1.8)
            await cluster.brokers[0].start()
            await asyncio.sleep(2)
            over.set()
        assert all(now > then for now, then in zip(sent, before, strict=True))

    ask(scenario, brokers=1, queues=4)


def test_a_second_attempt_keeps_the_order_of_a_sharding_key() -> None:
    async def scenario(world: World, cluster: SimCluster, names: str) -> None:
        doors, restarts = doors_of(world.node("p")), []
        async with Producer(names, group="P", doors=doors) as producer:
            for number in range(60):
                if number in (20, 40):
                    await cluster.brokers[0].crash(power=False)
                    restarts.append(asyncio.get_running_loop().create_task(_start_later(cluster)))
                await producer.send(Message("T", b"%d" % number, sharding_key="k"))
        async with PullConsumer(names, group="look", doors=doors) as reader:
            (queue,) = [each for each, held in (await reader.bounds("T")).items() if held.end]
            pulled = await reader.pull_bytes(queue, 0, max_messages=100)
            bodies = [int(each.body) for each in pulled.messages()]
        assert [body for body, _ in groupby(bodies)] == list(range(60))

    ask(scenario, brokers=1, queues=4)


async def _start_later(cluster: SimCluster) -> None:
    await asyncio.sleep(1)
    await cluster.brokers[0].start()


def test_what_may_still_be_stored_is_not_sent_again_to_a_fixed_queue() -> None:
    async def scenario(world: World, cluster: SimCluster, names: str) -> None:
        async with Producer(names, group="P", attempt_timeout_ms=300, doors=doors_of(world.node("p"))) as producer:
            await producer.send(Message("T", b"1"))
            world.network.partition(["p"], [cluster.brokers[0].name])
            begun = asyncio.get_running_loop().time()
            with pytest.raises(SendFailed, match="after 1 attempt,") as failure:
                await producer.send(Message("T", b"2", sharding_key="k"))
            assert asyncio.get_running_loop().time() - begun < 1
            assert failure.value.may_have_happened

    ask(scenario, brokers=1, queues=4, seeds=1)


def test_without_retries_a_message_of_a_fixed_queue_has_one_attempt() -> None:
    async def scenario(world: World, cluster: SimCluster, names: str) -> None:
        async with Producer(names, group="P", retries=0, doors=doors_of(world.node("p"))) as producer:
            await producer.send(Message("T", b"1"))
            await cluster.brokers[0].crash(power=False)
            await asyncio.sleep(0.1)
            with pytest.raises(SendFailed, match="after 1 attempt,"):
                await producer.send(Message("T", b"2", sharding_key="k"))

    ask(scenario, brokers=1, queues=4, seeds=1)


def test_attempts_are_spread_and_the_first_word_comes_at_once(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)

    async def scenario(world: World, cluster: SimCluster, names: str) -> None:
        loop = asyncio.get_running_loop()
        async with Producer(names, group="P", retries=50, doors=doors_of(world.node("p"))) as producer:
            await producer.send(Message("T", b"1"))
            await cluster.brokers[0].crash(power=False)
            await asyncio.sleep(0.1)  # the connection has ended: nothing leaves
            begun = loop.time()
            sending = loop.create_task(producer.send(Message("T", b"2")))
            await asyncio.sleep(0.5)
            words = [record.getMessage() for record in caplog.records if "wait for a broker" in record.getMessage()]
            assert len(words) == 1
            assert str(cluster.brokers[0].address) in words[0]
            with pytest.raises(SendFailed) as failure:
                await sending
            assert 2.5 < loop.time() - begun < 3.2
            assert failure.value.retryable
            assert not failure.value.may_have_happened
            assert "after 5" not in str(failure.value)
        caplog.clear()

    ask(scenario, brokers=1, queues=1)


def test_a_lost_question_for_a_route_leaves_no_doubt_about_the_message() -> None:
    async def scenario(world: World, cluster: SimCluster, names: str) -> None:
        async with Producer(names, group="P", request_timeout_ms=200, doors=doors_of(world.node("p"))) as producer:
            world.network.partition(["p"], [node.name for node in cluster.names])
            with pytest.raises(FireArrowError) as failure:
                await producer.send(Message("T", b"1"), timeout_ms=1000)
            assert not failure.value.may_have_happened
            with pytest.raises(FireArrowError) as failure:
                await producer.queues("T")
            assert not failure.value.may_have_happened

    ask(scenario, brokers=1, queues=1, seeds=1)


def test_a_name_server_that_is_not_there_is_named() -> None:
    async def scenario(world: World, _cluster: SimCluster, _names: str) -> None:
        async with Producer(NOBODY, group="P", doors=doors_of(world.node("p"))) as producer:
            with pytest.raises(SendFailed, match=NOBODY) as failure:
                await producer.send(Message("T", b"1"))
            assert not failure.value.may_have_happened

    ask(scenario, brokers=1, queues=1, seeds=1)


def test_a_topic_that_is_not_there_is_told_at_once() -> None:
    async def scenario(world: World, _cluster: SimCluster, names: str) -> None:
        async with Producer(names, group="P", doors=doors_of(world.node("p"))) as producer:
            begun = asyncio.get_running_loop().time()
            with pytest.raises(SendFailed, match="'not-there'") as failure:
                await producer.send(Message("not-there", b"1"))
            assert asyncio.get_running_loop().time() - begun < 0.2
            assert isinstance(failure.value.__cause__, NoRoute)

    ask(scenario, brokers=1, queues=1, seeds=1)


def test_name_servers_that_cannot_be_reached_for_a_while_cost_no_send() -> None:
    async def scenario(world: World, cluster: SimCluster, names: str) -> None:
        servers = [node.name for node in cluster.names]
        async with Producer(names, group="P", request_timeout_ms=100, doors=doors_of(world.node("p"))) as producer:
            world.network.partition(["p"], servers)
            sending = asyncio.get_running_loop().create_task(producer.send(Message("T", b"1")))
            await asyncio.sleep(1)
            world.network.heal()
            await sending

    ask(scenario, brokers=1, queues=1)
