"""Producers and consumers of ours at a broker with quotas: they wait as told, lose nothing, and hurt nobody beside."""

import asyncio
import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from firearrow.client import Consumer, Message, Producer, PullConsumer, ReceivedMessage
from firearrow.errors import SendFailed, Throttled
from firearrow.protocol.refusal import RetryAfter
from firearrow.quotas import throttle
from firearrow.testing import SimulatedCluster, simulate
from tests.simulation.client.kit import until

RATE = 20
COUNT = 80
SIZE = 1000


@contextmanager
def refusals() -> Iterator[list[int]]:
    """The waits that brokers tell, in milliseconds."""
    told: list[int] = []

    def tell(*, retry_after_ms: int) -> RetryAfter:
        told.append(retry_after_ms)
        return RetryAfter(retry_after_ms=retry_after_ms)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(throttle, "RetryAfter", tell)
        yield told


def now() -> float:
    return asyncio.get_running_loop().time()


async def timed(work: Any) -> float:
    """Measure the time of a call."""
    began = now()
    await work
    return now() - began


async def send_all(producer: Producer, topic: str, in_flight: int) -> None:
    room = asyncio.Semaphore(in_flight)

    async def send(number: int) -> None:
        async with room:
            await producer.send(Message(topic, b"%d" % number), timeout_ms=10_000)

    await asyncio.gather(*map(send, range(COUNT)))


@pytest.mark.parametrize("in_flight", [1, 16])
def test_a_producer_waits_as_told_and_another_topic_is_not_slowed(in_flight: int) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        for topic in ("slow", "fast"):
            await cluster.create_topic(topic)
        async with (
            Producer(cluster.address, group="slow", doors=cluster.doors("one")) as slow,
            Producer(cluster.address, group="fast", doors=cluster.doors("two")) as fast,
        ):
            took = await asyncio.gather(timed(send_all(slow, "slow", in_flight)), timed(send_all(fast, "fast", 1)))
        assert (COUNT - RATE - in_flight) / RATE * 0.9 < took[0] < COUNT / RATE * 1.5
        assert took[1] < 1.0
        assert len(told) < COUNT * (1.5 if in_flight == 1 else 4)

    with refusals() as told:
        simulate(scenario, settings={"quotaOverrides": f"topicRequests:slow={RATE}"})


def test_a_send_that_would_wait_beyond_its_deadline_fails_at_once_and_says_why() -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("T")
        async with Producer(cluster.address, doors=cluster.doors("one")) as producer:
            await producer.send(Message("T", random.Random(1).randbytes(20 * SIZE)))
            began = now()
            with pytest.raises(SendFailed, match=r"topic T has used up its quota .*try again in") as failed:
                await producer.send(Message("T", b"x"), timeout_ms=2000)
            assert now() - began < 0.2
            assert (failed.value.retryable, failed.value.may_have_happened) == (True, False)
            assert isinstance(failed.value.__cause__, Throttled)

    simulate(scenario, settings={"quotaTopicBytes": str(SIZE)})


def test_another_broker_takes_what_one_refuses() -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("T")
        async with Producer(cluster.address, doors=cluster.doors("one")) as producer:
            took = await timed(send_all(producer, "T", 1))
        assert took < COUNT / (2 * RATE)  # two brokers, two quotas, and their bursts

    simulate(scenario, brokers=2, settings={"quotaTopicRequests": str(RATE)})


@pytest.mark.parametrize("kind", ["push", "pull"])
def test_a_consumer_waits_as_told_and_gets_everything(kind: str) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("T", queues=2)
        async with Producer(cluster.address, doors=cluster.doors("one")) as producer:
            for number in range(COUNT):
                await producer.send(Message("T", b"%04d" % number + bytes(SIZE)))
        handled: list[bytes] = []
        began = now()
        await (handle_all if kind == "push" else read_all)(cluster, handled)
        assert sorted(handled) == [b"%04d" % number for number in range(COUNT)]
        assert now() - began > 3  # about 100 KB, at 20 KB a second
        assert len(told) < COUNT

    with refusals() as told:
        simulate(scenario, settings={"quotaGroupBytes": str(20 * SIZE)})


async def handle_all(cluster: SimulatedCluster, handled: list[bytes]) -> None:
    async def handle(message: ReceivedMessage) -> None:
        handled.append(message.body[:4])

    doors = cluster.doors("two")
    async with Consumer(cluster.address, group="G", topics="T", start="first", pull_batch=4, doors=doors) as consumer:
        running = asyncio.create_task(consumer.run(handle))
        await until(lambda: len(handled) >= COUNT, 60)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def read_all(cluster: SimulatedCluster, handled: list[bytes]) -> None:
    async with PullConsumer(cluster.address, group="G", doors=cluster.doors("two")) as consumer:
        bounds = await consumer.bounds("T")
        for queue, bound in bounds.items():
            async for pulled in consumer.pull_range(queue, bound.first, bound.end, max_messages=4):
                handled += [message.body[:4] for message in pulled.messages()]
