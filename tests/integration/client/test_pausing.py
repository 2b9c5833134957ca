"""Pauses, a rebalance listener and values at a broker process, with and without await."""

import asyncio
import threading
from collections.abc import Sequence

import pytest

from firearrow import blocking
from firearrow.client import Consumer, MessageQueue, Producer, PullConsumer, RebalanceListener, ReceivedMessage
from firearrow.serializers import Json
from judges import FireArrowBroker, fresh
from tests.interop.client.ours import until

pytestmark = pytest.mark.real

COUNT = 50


def at(broker: FireArrowBroker) -> str:
    return broker.name_servers[0]


class Heard(RebalanceListener):
    """Remembers the queues of one topic, in a thread or on the loop."""

    def __init__(self, topic: str) -> None:
        self.topic = topic
        self.queues: set[MessageQueue] = set()
        self.threads: set[str] = set()

    def on_assigned(self, queues: Sequence[MessageQueue]) -> None:
        self.threads.add(threading.current_thread().name)
        self.queues |= {queue for queue in queues if queue.topic == self.topic}

    def on_revoked(self, queues: Sequence[MessageQueue]) -> None:
        self.queues -= set(queues)


async def committed(broker: FireArrowBroker, group: str, queues: list[MessageQueue]) -> dict[MessageQueue, int | None]:
    async with PullConsumer(at(broker), group=group) as looker:
        return {queue: await looker.committed(queue) for queue in queues}


def test_a_paused_member_keeps_its_queues_and_its_offset(broker: FireArrowBroker) -> None:
    topic, group, numbers = broker.create_topic(fresh("paused"), 4), fresh("G"), Json(int)

    async def story() -> None:
        seen: set[int] = set()

        async def handle(message: ReceivedMessage[int]) -> None:
            seen.add(message.value)

        heard, heard_too = Heard(topic), Heard(topic)
        first = Consumer(
            at(broker), group=group, topics=topic, start="first", deserializer=numbers.decode, rebalance_listener=heard
        )
        second = Consumer(
            at(broker), group=group, topics=topic, deserializer=numbers.decode, rebalance_listener=heard_too
        )
        async with first, Producer(at(broker), group=fresh("P"), serializer=numbers.encode) as producer:
            running = [asyncio.create_task(first.run(handle))]
            await until(lambda: len(heard.queues) == 4, "four queues", 30)
            first.pause(topic)
            await producer.send_batch(producer.message(topic, number) for number in range(COUNT))
            await first.commit()
            assert set((await committed(broker, group, sorted(heard.queues))).values()) <= {None, 0}
            assert not seen
            async with second:  # the paused member keeps its share, and the other one handles its own
                running.append(asyncio.create_task(second.run(handle)))
                await until(lambda: len(heard.queues) == len(heard_too.queues) == 2, "two queues each", 30)
                assert [queue for queue in first.paused if queue.topic == topic] == sorted(heard.queues)
                first.resume(topic)
                await until(lambda: seen == set(range(COUNT)), "all messages", 30)
                for consumer in (first, second):
                    consumer.stop()
                await asyncio.gather(*running)
            assert not heard_too.queues
            await until(lambda: len(heard.queues) == 4, "the queues of the one that left", 30)
            await first.commit()
            offsets = await committed(broker, group, sorted(heard.queues))
            assert sum(offset or 0 for offset in offsets.values()) == COUNT
        assert not heard.queues

    asyncio.run(story())


def test_the_same_without_await(broker: FireArrowBroker) -> None:
    topic, group, texts = broker.create_topic(fresh("paused"), 2), fresh("G"), Json(str)
    heard, came, seen = Heard(topic), threading.Event(), []
    with (
        blocking.Producer(at(broker), group=fresh("P"), serializer=texts.encode) as producer,
        blocking.Consumer(
            at(broker), group=group, topics=topic, start="first", deserializer=texts.decode, rebalance_listener=heard
        ) as consumer,
    ):
        consumer.pause()

        def handle(message: blocking.ReceivedMessage[str]) -> None:
            seen.append(message.value)
            came.set()

        worker = threading.Thread(target=consumer.run, args=(handle,))
        worker.start()
        result = producer.send_value(topic, "one espresso", tag="new")
        assert result.is_ok
        assert not came.wait(2)
        assert consumer.paused == consumer.assignment
        consumer.resume()
        assert came.wait(30)
        assert seen == ["one espresso"]
        assert heard.threads == {f"{group} rebalance"}
        consumer.stop()
        worker.join(30)
    assert not heard.queues
