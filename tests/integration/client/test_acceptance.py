"""``accept`` at a broker process, with and without await: what it rejects is acknowledged, counted and not handled."""

import asyncio
import threading

import pytest

from firearrow import Message, blocking, fastjson
from firearrow.client import Consumer, Producer, ReceivedMessage
from firearrow.protocol.bodies.group.running_info import ConsumerRunningInfo
from firearrow.protocol.requests.group.push import GetConsumerRunningInfo
from firearrow.serializers import Json
from judges import FireArrowBroker, fresh
from tests.integration.client.test_pausing import at, committed
from tests.interop.client.ours import until

pytestmark = pytest.mark.real

COUNT = 30
"""Numbers 0 to 29; those below 10 are rejected."""


async def fill(broker: FireArrowBroker, topic: str) -> None:
    async with Producer(at(broker), group=fresh("P"), serializer=Json(int).encode) as producer:
        await producer.send_batch(producer.message(topic, number) for number in range(COUNT))


@pytest.mark.parametrize("ordered", [False, True])
def test_rejected_messages_leave_no_backlog(broker: FireArrowBroker, ordered: bool) -> None:
    topic, group = broker.create_topic(fresh("accepted"), 2), fresh("G")

    async def story() -> None:
        seen: list[int] = []

        async def accept(message: ReceivedMessage[int]) -> bool:
            await asyncio.sleep(0)
            return message.value >= 10

        async def handle(message: ReceivedMessage[int]) -> None:
            seen.append(message.value)

        await fill(broker, topic)
        consumer = Consumer(
            at(broker),
            group=group,
            topics=topic,
            start="first",
            deserializer=Json(int).decode,
            accept=accept,
            ordered=ordered,
        )
        async with consumer:
            running = asyncio.create_task(consumer.run(handle))
            await until(lambda: len(seen) + consumer.rejected == COUNT, "every message", 30)
            assert sorted(seen) == list(range(10, COUNT))
            queues = [queue for queue in consumer.assignment if queue.topic == topic]
            consumer.stop()
            await running
            await consumer.commit()
            assert sum(filter(None, (await committed(broker, group, queues)).values())) == COUNT

    asyncio.run(story())


def test_an_error_of_accept_brings_the_message_again(broker: FireArrowBroker) -> None:
    topic, group = broker.create_topic(fresh("accepted"), 1), fresh("G")

    async def story() -> None:
        seen: list[tuple[bytes, int]] = []

        def accept(message: ReceivedMessage) -> bool:
            if message.reconsume_times == 0:
                raise LookupError("the list of customers cannot be read")
            return True

        async def handle(message: ReceivedMessage) -> None:
            seen.append((message.body, message.reconsume_times))
            consumer.stop()

        async with Producer(at(broker), group=fresh("P")) as producer:
            await producer.send(Message.of(topic, b"m"))
        async with Consumer(at(broker), group=group, topics=topic, start="first", accept=accept) as consumer:
            await asyncio.wait_for(consumer.run(handle), 60)
            assert seen == [(b"m", 1)]
            assert (consumer.failures, consumer.rejected) == (1, 0)

    asyncio.run(story())


def test_the_blocking_consumers_have_it_too(broker: FireArrowBroker) -> None:
    topic, numbers = broker.create_topic(fresh("accepted"), 1), Json(int)
    asyncio.run(fill(broker, topic))

    def accept(message: blocking.ReceivedMessage[int]) -> bool:
        return message.value >= 10

    seen: list[int] = []
    with blocking.Consumer(
        at(broker), group=fresh("G"), topics=topic, start="first", deserializer=numbers.decode, accept=accept
    ) as consumer:
        everything = threading.Event()

        def handle(messages: list[blocking.ReceivedMessage[int]]) -> None:
            seen.extend(message.value for message in messages)
            if len(seen) == COUNT - 10:
                everything.set()
                consumer.stop()

        consumer.run_batches(handle, size=8)
        assert everything.is_set()
        assert consumer.rejected == 10
    with blocking.PullConsumer(at(broker), group=fresh("G"), deserializer=numbers.decode, accept=accept) as puller:
        puller.assign(puller.queues(topic))
        puller.seek_to_begin()
        assert [next(puller).value for _ in range(COUNT - 10)] == list(range(10, COUNT))
        assert puller.rejected == 10


def test_operators_see_the_counts(broker: FireArrowBroker) -> None:
    topic, group = broker.create_topic(fresh("accepted"), 1), fresh("G")

    async def story() -> None:
        await fill(broker, topic)
        async with Consumer(
            at(broker), group=group, topics=topic, start="first", accept=lambda _message: False
        ) as consumer:
            running = asyncio.create_task(consumer.run(print))
            await until(lambda: consumer.rejected == COUNT, "every message", 30)
            request = GetConsumerRunningInfo(consumer_group=group, client_id=consumer.client_id)
            broker_address = consumer._member.instance.routes.master(consumer.assignment[0].broker_name)
            assert broker_address is not None
            answer = await consumer._member.instance.caller.call(broker_address, request)
            counts = fastjson.decode(bytes(answer.body), ConsumerRunningInfo).properties
            assert counts["rejectedMessages"] == str(COUNT)
            assert counts["failedDeliveries"] == "0"
            consumer.stop()
            await running

    asyncio.run(story())
