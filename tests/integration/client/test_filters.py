"""Filters by SQL92 at a real broker: push and pull consumers, with and without await, and over long runs of others."""

import asyncio

import pytest

from firearrow import Consumer, Message, Producer, PullConsumer, ReceivedMessage, blocking, sql
from firearrow.errors import Unsupported
from firearrow.testing import Cluster
from firearrow.testing.blocking import Cluster as BlockingCluster

pytestmark = pytest.mark.real

COUNT = 3000
WANTED = [b"%d" % number for number in range(COUNT) if number % 500 == 0]
EXPRESSION = "number BETWEEN 0 AND 9999 AND wanted = TRUE"


async def fill(address: str) -> None:
    async with Producer(address) as producer:
        messages = [
            Message("orders", b"%d" % n, properties={"number": str(n), "wanted": str(n % 500 == 0)})
            for n in range(COUNT)
        ]
        for first in range(0, COUNT, 500):
            await producer.send_batch(messages[first : first + 500])


def test_consumers_get_what_passes_and_commit_behind_it() -> None:
    async def scenario() -> None:
        async with Cluster() as cluster:
            await cluster.create_topic("orders", queues=2)
            await fill(cluster.address)
            seen: list[bytes] = []
            topics = {"orders": sql(EXPRESSION)}
            async with Consumer(cluster.address, group="g", topics=topics, start="first") as consumer:

                async def handle(message: ReceivedMessage) -> None:
                    seen.append(message.body)
                    if len(seen) == len(WANTED):
                        consumer.stop()

                async with asyncio.timeout(30):
                    await consumer.run(handle)
            assert sorted(seen) == sorted(WANTED)
            async with PullConsumer(cluster.address, group="p", topics=topics, start="first") as puller:
                found: list[bytes] = []
                async with asyncio.timeout(30):
                    while len(found) < len(WANTED):
                        found += [message.body for message in await puller.poll(1000)]
            assert sorted(found) == sorted(WANTED)

    asyncio.run(scenario())


def test_the_blocking_twin_filters_too() -> None:
    with BlockingCluster() as cluster:
        cluster.create_topic("orders", queues=2)
        asyncio.run(fill(cluster.address))
        with blocking.Consumer(
            cluster.address, group="b", topics={"orders": blocking.sql("number = 1500")}, start="first"
        ) as consumer:
            for message in consumer:
                with message.process():
                    assert message.body == b"1500"
                break


def test_a_broker_with_filters_switched_off_says_so_at_once() -> None:
    async def scenario() -> None:
        async with Cluster(settings={"enablePropertyFilter": "false"}) as cluster:
            await cluster.create_topic("orders", queues=1)
            consumer = Consumer(cluster.address, group="g", topics={"orders": sql("a > 1")})
            with pytest.raises(Unsupported, match="enablePropertyFilter=true"):
                await consumer.open()

    asyncio.run(scenario())
