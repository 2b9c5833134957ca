"""Sends ride out the restart of a broker, come back with patience, and know whether anything left."""

import asyncio
import logging

import pytest

from firearrow.client import Message, Producer
from firearrow.errors import FireArrowError, NoRoute, SendFailed
from firearrow.testing.sim.world import World
from tests.simulation.broker.cluster import SimCluster
from tests.simulation.client.chaos import doors_of
from tests.simulation.client.kit import ask

NOBODY = "10.9.9.9:9876"


@pytest.mark.parametrize("linger_ms", [0, 5])
def test_a_lone_broker_that_is_back_in_time_costs_no_send(linger_ms: float) -> None:
    async def scenario(world: World, cluster: SimCluster, names: str) -> None:
        over = asyncio.Event()
        sent = [0] * 10

        async def send(number: int) -> None:
            doors = doors_of(world.node(f"p{number}"))
            async with Producer(names, group="P", linger_ms=linger_ms, doors=doors) as producer:
                while not over.is_set():
                    await producer.send(Message("T", b"%d" % number))
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
