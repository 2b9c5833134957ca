"""Filters by CEL at a broker process: push and pull consumers, with and without await, and the command line."""

import asyncio
import json

import pytest

from firearrow import blocking
from firearrow.client import Consumer, Message, Producer, PullConsumer, ReceivedMessage, cel
from firearrow.errors import SettingsError
from judges import FireArrowBroker, fresh
from tests.integration.client.test_pausing import at, committed
from tests.interop.client.ours import until

pytestmark = pytest.mark.real

COUNT = 60
LARGE = "body.amount >= 50 && properties.region == 'eu'"
WANTED = [amount for amount in range(50, COUNT) if amount % 2]


async def fill(broker: FireArrowBroker, topic: str) -> None:
    async with Producer(at(broker), group=fresh("P")) as producer:
        messages = (
            Message.of(
                topic,
                json.dumps({"amount": amount, "lines": [{"sku": str(amount)}]}).encode(),
                properties={"region": "eu" if amount % 2 else "us"},
            )
            for amount in range(COUNT)
        )
        for message in messages:
            await producer.send(message)
        await producer.send(Message.of(topic, b"not json", properties={"region": "eu"}))
        long = json.dumps({"amount": 99, "text": "a" * 20_000}).encode()  # the producer compresses it
        await producer.send(Message.of(topic, long, properties={"region": "eu"}))


def amount_of(message: ReceivedMessage | blocking.ReceivedMessage) -> int:
    return int(json.loads(message.body)["amount"])


@pytest.mark.parametrize("ordered", [False, True])
def test_a_group_gets_what_passes_and_moves_behind_the_rest(broker: FireArrowBroker, ordered: bool) -> None:
    topic, group = broker.create_topic(fresh("cel"), 2), fresh("G")

    async def story() -> None:
        await fill(broker, topic)
        seen: list[int] = []

        async def handle(message: ReceivedMessage) -> None:
            seen.append(amount_of(message))

        async with Consumer(
            at(broker), group=group, topics={topic: cel(LARGE)}, start="first", ordered=ordered, wait_ready_ms=20_000
        ) as consumer:
            queues = [queue for queue in consumer.assignment if queue.topic == topic]
            assert len(queues) == 2
            running = asyncio.create_task(consumer.run(handle))
            await until(lambda: len(seen) == len(WANTED) + 1, "what passes", 30)
            assert sorted(seen) == [*WANTED, 99]
            await consumer.subscribe(topic, cel("body.amount == 1"))
            consumer.stop()
            await running
            await consumer.commit()
            assert sum(filter(None, (await committed(broker, group, queues)).values())) >= COUNT

    asyncio.run(story())


def test_pull_consumers_carry_it_or_register_it(broker: FireArrowBroker) -> None:
    topic = broker.create_topic(fresh("cel"), 1)

    async def story() -> None:
        await fill(broker, topic)
        async with PullConsumer(at(broker), group=fresh("G")) as consumer:
            (queue,) = await consumer.queues(topic)
            pulled = await consumer.pull_bytes(queue, 0, expression=cel("body.lines.exists(l, l.sku == '7')"))
            assert [amount_of_record(message.body) for message in pulled.messages()] == [7]
        async with PullConsumer(at(broker), group=fresh("G"), topics={topic: cel(LARGE)}, start="first") as member:
            found: list[int] = []
            while len(found) <= len(WANTED):
                found += [amount_of(message) for message in await member.poll(timeout_ms=10_000)]
            assert found == [*WANTED, 99]

    asyncio.run(story())


def amount_of_record(body: bytes) -> int:
    return int(json.loads(body)["amount"])


def test_the_blocking_consumer_has_it_too(broker: FireArrowBroker) -> None:
    topic = broker.create_topic(fresh("cel"), 1)
    asyncio.run(fill(broker, topic))
    wanted = {topic: blocking.cel("body.amount < 3 && body.amount > 0")}
    with blocking.Consumer(at(broker), group=fresh("G"), topics=wanted, start="first") as consumer:
        found = []
        for _ in range(2):
            message = next(consumer)
            found.append(amount_of(message))
            message.ack()
        assert found == [1, 2]


def test_an_expression_that_does_not_compile_is_refused_before_anything_is_sent() -> None:
    with pytest.raises(SettingsError, match=r"cel\('amount > 1'\): 'amount' at character 1 is not a variable"):
        cel("amount > 1")
