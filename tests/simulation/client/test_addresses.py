"""Clients follow a broker to another address, whatever older routes say."""

import asyncio

import pytest

from campaigns.samples import a_topic
from firearrow.client import Consumer, Message, Producer, ReceivedMessage
from firearrow.errors import FireArrowError
from firearrow.protocol.requests.admin.topic import DeleteTopicInBroker
from firearrow.protocol.requests.naming.route import DeleteTopicInNamesrv
from firearrow.remoting.caller import Caller
from firearrow.runtime.network import Address
from firearrow.testing.sim.world import World
from tests.simulation.broker.cluster import BrokerNode, SimCluster
from tests.simulation.client.chaos import doors_of
from tests.simulation.client.kit import ask, until

OTHER = "other"
ELSEWHERE = 10_920


async def make_other(cluster: SimCluster, caller: Caller) -> None:
    for broker in cluster.brokers:
        request = a_topic(OTHER)
        await caller.call(broker.address, request)


async def delete_other(cluster: SimCluster, caller: Caller) -> None:
    for broker in cluster.brokers:
        await caller.call(broker.address, DeleteTopicInBroker(topic=OTHER))
    for address in cluster.name_servers:
        await caller.call(address, DeleteTopicInNamesrv(topic=OTHER))


async def move(broker: BrokerNode) -> None:
    """Stop a broker and start it at another address."""
    await broker.node.stop()
    broker.port = ELSEWHERE
    await broker.start()


def test_a_topic_that_was_deleted_leaves_no_address_behind() -> None:
    async def scenario(world: World, cluster: SimCluster, names: str) -> None:
        caller, seen = Caller(world.node("operator").network), []
        await make_other(cluster, caller)

        async def handle(message: ReceivedMessage) -> None:
            seen.append(message.body)

        topics = ["T", OTHER]
        async with (
            Producer(names, group="P", doors=doors_of(world.node("p"))) as producer,
            Consumer(names, group="G", topics=topics, start="first", doors=doors_of(world.node("c"))) as consumer,
        ):
            running = asyncio.get_running_loop().create_task(consumer.run(handle))
            await producer.send(Message.of("T", b"1"))
            await producer.send(Message.of(OTHER, b"2"))
            await until(lambda: len(seen) == 2)
            await delete_other(cluster, caller)
            await move(cluster.brokers[0])
            await asyncio.sleep(35)  # routes are asked for every 30 s
            await producer.send(Message.of("T", b"3"))
            await until(lambda: len(seen) == 3)
            consumer.stop()
            await running
        await caller.close()

    ask(scenario, brokers=1, queues=1)


def test_a_route_that_was_asked_for_once_leaves_no_address_behind() -> None:
    async def scenario(world: World, cluster: SimCluster, names: str) -> None:
        caller = Caller(world.node("operator").network)
        await make_other(cluster, caller)
        doors = doors_of(world.node("p"))
        async with Producer(names, group="P", retries=0, default_topic=OTHER, doors=doors) as producer:
            await producer.send(Message.of("T", b"1"))
            with pytest.raises(FireArrowError):  # these brokers create no topics; where they would is known by now
                await producer.send(Message.of("not-there", b"2"))
            await move(cluster.brokers[0])
            await asyncio.sleep(35)
            for _ in range(4):
                await producer.send(Message.of("T", b"3"))
            held = producer._opened().routes
            assert held.master("broker0") == Address(cluster.brokers[0].node.host, ELSEWHERE)
        await caller.close()

    ask(scenario, brokers=2, queues=1)
