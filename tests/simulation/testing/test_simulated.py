"""Virtual time for users' own tests."""

import asyncio
import itertools

from firearrow import Consumer, Message, Producer
from firearrow.client import ReceivedMessage
from firearrow.testing import SimulatedCluster, simulate


async def _retries(cluster: SimulatedCluster) -> list[int]:
    """The virtual seconds at which a message was tried that is never handled."""
    await cluster.create_topic("orders")
    loop, tried = asyncio.get_running_loop(), list[int]()
    async with (
        Producer(cluster.address, doors=cluster.doors("shop")) as producer,
        Consumer(
            cluster.address, group="G", topics="orders", start="first", doors=cluster.doors("kitchen")
        ) as consumer,
    ):

        async def fail(message: ReceivedMessage) -> None:
            assert message.reconsume_times == len(tried)
            tried.append(int(loop.time()))
            raise ValueError("not today")

        running = loop.create_task(consumer.run(fail))
        await producer.send(Message.of("orders", b"x"))
        while len(tried) < 4:  # noqa: ASYNC110 - virtual time costs nothing
            await asyncio.sleep(1)
        consumer.stop()
        await running
    return tried


def test_waiting_costs_nothing_and_a_seed_repeats_a_run() -> None:
    first = simulate(_retries, seed=3)
    assert [later - earlier for earlier, later in itertools.pairwise(first)] == [10, 30, 60]
    assert simulate(_retries, seed=3) == first


def test_brokers_die_and_come_back() -> None:
    async def scenario(cluster: SimulatedCluster) -> int:
        await cluster.create_topic("orders", queues=1)
        sent = 0
        async with Producer(cluster.address, doors=cluster.doors("shop"), retries=5) as producer:
            for end in (cluster.kill_broker, cluster.cut_power, cluster.stop_broker):
                await producer.send(Message.of("orders", b"x"))
                sent += 1
                await end("broker-a")
                await producer.send(Message.of("orders", b"elsewhere"))
                sent += 1
                await cluster.start_broker("broker-a")
                await asyncio.sleep(40)
        return sent

    assert simulate(scenario, brokers=2, settings={"flushDiskType": "SYNC_FLUSH"}) == 6


def test_a_topic_made_after_its_consumer_is_read_within_a_moment() -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        loop, heard = asyncio.get_running_loop(), asyncio.Event()

        async def handle(_message: ReceivedMessage) -> None:
            heard.set()

        kitchen = cluster.doors("kitchen")
        async with (
            Producer(cluster.address, doors=cluster.doors("shop")) as producer,
            Consumer(cluster.address, group="G", topics="orders", start="first", doors=kitchen) as consumer,
        ):
            running = loop.create_task(consumer.run(handle))
            await cluster.create_topic("orders")
            await producer.send(Message.of("orders", b"x"))
            sent_at = loop.time()
            await heard.wait()
            assert loop.time() - sent_at < 0.5, "the consumer looks for the topic too seldom"
            consumer.stop()
            await running

    simulate(scenario)
