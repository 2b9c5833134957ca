"""Clients over their quota at our broker: stock ones and ours keep to it and lose nothing, and nobody beside is slowed.

The limits are set while the broker runs, by Apache's mqadmin. Which stock client goes round from commit to commit.
"""

import asyncio
import statistics
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from campaigns.rotation import this_turn
from firearrow.client import Consumer, Message, Producer, ReceivedMessage
from judges import FireArrowBroker, FireArrowNameServer, JudgeProcess, Mqadmin, fresh

pytestmark = [pytest.mark.apache, pytest.mark.timeout(300)]

CLIENTS = ["java-5.5.0", "go", "java-4.9.8"]
RATE = 20
COUNT = 80
BYTES_RATE = 100_000
SIZE = 4_000
QUEUES = 4
BESIDE_MS = 20
"""The delay that a send beside may have: answers that are held back by mistake would take hundreds."""

Limit = Callable[[str, str], None]


@pytest.fixture(scope="module")
def broker() -> Iterator[FireArrowBroker]:
    with FireArrowNameServer() as names, FireArrowBroker(name_servers=[names.address]) as server:
        yield server


@pytest.fixture(scope="module")
def limit(broker: FireArrowBroker) -> Iterator[Limit]:
    with Mqadmin() as mqadmin:

        def change(key: str, value: str) -> None:
            assert "success" in mqadmin.run(f"updateBrokerConfig -b {broker.address} -k {key} -v {value}")

        yield change


@pytest.fixture(params=this_turn(CLIENTS, __name__))
def stock(request: pytest.FixtureRequest) -> Iterator[JudgeProcess]:
    with JudgeProcess(request.param) as process:
        yield process


async def latencies(producer: Producer, topic: str, is_over: Callable[[], bool]) -> list[float]:
    """The times of sends to an unlimited topic, in milliseconds."""
    took = []
    while not is_over():
        began = time.perf_counter()
        await producer.send(Message(topic, b"beside"))
        took.append((time.perf_counter() - began) * 1000)
        await asyncio.sleep(0.01)
    return took


async def with_a_neighbour(broker: FireArrowBroker, work: Callable[[], Any]) -> Any:
    """Do something blocking while a client of another topic sends, which must not notice."""
    topic = broker.create_topic(fresh("beside"))
    async with Producer(broker.name_servers[0], group="beside") as producer:
        until = time.perf_counter() + 1
        alone = await latencies(producer, topic, lambda: time.perf_counter() > until)
        working = asyncio.create_task(asyncio.to_thread(work))
        beside = await latencies(producer, topic, working.done)
        assert statistics.median(beside) < statistics.median(alone) + BESIDE_MS
        return await working


@pytest.mark.rotating
def test_a_stock_producer_keeps_to_the_quota_without_an_error(
    broker: FireArrowBroker, limit: Limit, stock: JudgeProcess
) -> None:
    topic = broker.create_topic(fresh("slow"))
    judge = stock.at(broker.name_servers[0])
    judge.send(topic, 1)
    limit("quotaOverrides", f"topicRequests:{topic}={RATE}")
    sent = asyncio.run(with_a_neighbour(broker, lambda: judge.send(topic, COUNT)))
    sent.assert_all_sent()
    took = sent.elapsed_ms / 1000
    assert (COUNT - RATE) / RATE * 0.9 < took < COUNT / RATE * 2, f"the sends took {took:.1f} s"
    stock.reset()


@pytest.mark.rotating
def test_a_stock_consumer_keeps_to_the_quota_and_gets_everything(
    broker: FireArrowBroker, limit: Limit, stock: JudgeProcess
) -> None:
    topic, group = broker.create_topic(fresh("bulky"), QUEUES), fresh("G")
    judge = stock.at(broker.name_servers[0])
    sent = judge.send(topic, COUNT, size=SIZE)
    limit("quotaOverrides", f"groupBytes:{group}={BYTES_RATE}")
    received = asyncio.run(with_a_neighbour(broker, lambda: judge.receive(topic, COUNT, group=group)))
    received.assert_exactly(sent)
    seen = [delivery.seen_ms for delivery in received.messages]
    # 320 kB: the burst and the last answer (a queue, 80 kB) pass at once, the rest has to wait.
    assert 0.8 < (max(seen) - min(seen)) / 1000 < 20
    stock.reset()


@pytest.mark.rotating
def test_a_stock_producer_far_over_the_quota_is_told_why(
    broker: FireArrowBroker, limit: Limit, stock: JudgeProcess
) -> None:
    topic = broker.create_topic(fresh("debt"))
    judge = stock.at(broker.name_servers[0])
    limit("quotaOverrides", f"topicBytes:{topic}=100")
    judge.send(topic, 1, size=SIZE).assert_all_sent()  # and 40 seconds of debt
    refused = asyncio.run(with_a_neighbour(broker, lambda: judge.send(topic, 1)))
    assert refused.failed == (0,)
    told = str(refused.errors)  # Java 5.5.0 has the broker's words in the cause
    assert f"topic {topic} has used up its quota" in told or "Send [3] times, still failed" in told
    stock.reset()


def test_our_clients_wait_as_told(broker: FireArrowBroker, limit: Limit) -> None:
    topic, group = broker.create_topic(fresh("ours"), QUEUES), fresh("G")
    limit("quotaOverrides", f"topicRequests:{topic}={RATE},groupBytes:{group}={BYTES_RATE}")
    names, bodies = broker.name_servers[0], [b"%04d" % number + bytes(20) for number in range(COUNT)]

    async def send() -> float:
        async with Producer(names, group="P") as producer:
            began = time.perf_counter()
            for body in bodies:
                await producer.send(Message(topic, body))
            return time.perf_counter() - began

    async def receive() -> list[bytes]:
        handled: list[bytes] = []

        async def handle(message: ReceivedMessage) -> None:
            handled.append(message.body)
            if len(handled) == COUNT:
                consumer.stop()

        async with Consumer(names, group=group, topics=topic, start="first") as consumer:
            async with asyncio.timeout(60):
                await consumer.run(handle)
        return handled

    took = asyncio.run(with_a_neighbour(broker, lambda: asyncio.run(send())))
    assert (COUNT - RATE) / RATE * 0.9 < took < COUNT / RATE * 2, f"the sends took {took:.1f} s"
    limit("quotaOverrides", f"groupBytes:{group}={BYTES_RATE}")
    assert sorted(asyncio.run(receive())) == bodies
