"""Many at once: a thousand senders, a hundred consumers, a hundred handlers of one queue; and nothing left behind."""

import asyncio
import os
import threading
from collections import Counter

import pytest

from firearrow import blocking
from firearrow.client import Consumer, Message, Producer, ReceivedMessage
from judges import FireArrowBroker, fresh
from tests.integration.client.test_workers import members
from tests.interop.client.ours import until

pytestmark = pytest.mark.real

TASKS = 1000
CONSUMERS = 100
WAIT_S = 0.05


def at(broker: FireArrowBroker) -> str:
    return broker.name_servers[0]


def left_behind() -> tuple[int, int, int]:
    """Threads, descriptors and tasks of this process."""
    return threading.active_count(), len(os.listdir("/proc/self/fd")), len(asyncio.all_tasks())


def test_a_thousand_tasks_send_and_a_hundred_members_receive(broker: FireArrowBroker) -> None:
    topic, group = broker.create_topic(fresh("many"), CONSUMERS), fresh("G")

    async def story() -> None:
        before, seen = left_behind(), Counter[bytes]()

        async def handle(message: ReceivedMessage) -> None:
            seen[message.body] += 1

        consumers = [
            Consumer(at(broker), group=group, topics=topic, start="first", rebalance_ms=2000) for _ in range(CONSUMERS)
        ]
        await asyncio.gather(*(consumer.open() for consumer in consumers))
        running = [asyncio.create_task(consumer.run(handle)) for consumer in consumers]

        def queues() -> list[int]:
            return [sum(queue.topic == topic for queue in consumer.assignment) for consumer in consumers]

        await until(lambda: queues() == [1] * CONSUMERS, "a queue for each", 120)
        assert len(set(members(broker, group))) == CONSUMERS
        assert len({consumer.client_id for consumer in consumers}) == CONSUMERS

        async with Producer(at(broker), group=fresh("P"), send_timeout_ms=30_000) as producer:
            sends = (producer.send(Message.of(topic, b"%d" % number)) for number in range(TASKS))
            results = await asyncio.gather(*sends)
        assert len({result.message_id for result in results}) == TASKS
        await until(lambda: len(seen) == TASKS, "all messages", 60)
        assert set(seen.values()) == {1}
        for consumer in consumers:
            consumer.stop()
        await asyncio.gather(*running)
        await asyncio.gather(*(consumer.close() for consumer in consumers))
        assert left_behind() == before

    asyncio.run(story())


def test_a_hundred_handlers_of_one_queue_are_about_a_hundred_times_as_fast(broker: FireArrowBroker) -> None:
    async def rate(workers: int, count: int) -> float:
        topic, seen = broker.create_topic(fresh("waiting"), 1), 0
        async with (
            Producer(at(broker), group=fresh("P")) as producer,
            Consumer(at(broker), group=fresh("G"), topics=topic, start="first", workers=workers) as consumer,
        ):
            await producer.send_batch(Message.of(topic, b"x") for _ in range(count))
            loop, begun = asyncio.get_running_loop(), 0.0

            async def handle(_message: ReceivedMessage) -> None:
                nonlocal seen, begun
                begun = begun or loop.time()
                await asyncio.sleep(WAIT_S)
                seen += 1
                if seen == count:
                    consumer.stop()

            await consumer.run(handle)
            return count / (loop.time() - begun)

    one, hundred = asyncio.run(rate(1, 20)), asyncio.run(rate(100, 2000))
    print(f"one handler {one:.1f}/s, a hundred {hundred:.1f}/s: {hundred / one:.1f} times")
    assert hundred > 30 * one  # near 100 on a quiet machine


def test_nothing_is_left_behind_and_nothing_is_lost_by_closing(broker: FireArrowBroker) -> None:
    topic, group, count = broker.create_topic(fresh("closing")), fresh("G"), 500

    async def story() -> None:
        before, seen = left_behind(), Counter[bytes]()
        async with Producer(at(broker), group=fresh("P"), linger_ms=5) as producer:
            sends = [asyncio.create_task(producer.send(Message.of(topic, b"%d" % n))) for n in range(count)]
            await asyncio.sleep(0)
        assert all(result.is_ok for result in await asyncio.gather(*sends)), "closing sends what lingers"
        assert left_behind() == before

        async def handle(message: ReceivedMessage) -> None:
            await asyncio.sleep(0.01)
            seen[message.body] += 1

        rounds = 0
        while len(seen) < count:  # closed again and again in the middle of its work
            rounds += 1
            options = {"start": "first", "drain_ms": 5000}
            async with Consumer(at(broker), group=group, topics=topic, **options) as consumer:  # type: ignore[call-overload]
                running = asyncio.create_task(consumer.run(handle))
                goal = min(len(seen) + count // 4, count)
                await until(lambda goal=goal: len(seen) >= goal, f"{goal} messages")  # type: ignore[misc]
            await running
            assert left_behind() == before
        assert len(seen) == count
        assert max(seen.values()) == 1, "what was handled before closing was committed"
        assert rounds > 1

    asyncio.run(story())


def test_the_blocking_twin_leaves_no_thread_behind(broker: FireArrowBroker) -> None:
    topic = broker.create_topic(fresh("threads"))
    before: tuple[int, int] | None = None
    for _ in range(5):
        with (
            blocking.Producer(at(broker), group=fresh("P")) as producer,
            blocking.Consumer(at(broker), group=fresh("G"), topics=topic, start="first") as consumer,
        ):
            producer.send(blocking.Message.of(topic, b"x"))
            with next(consumer).process():
                pass
        left = threading.active_count(), len(os.listdir("/proc/self/fd"))
        assert left == (before or left)
        before = left  # the first loop of a process opens descriptors that every later one shares
