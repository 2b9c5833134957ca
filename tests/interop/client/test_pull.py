"""Our pull consumer at Apache's brokers and ours."""

import asyncio
import hashlib

import pytest

from firearrow.client import Bounds, MessageQueue, Producer, PullConsumer, PullStatus, ReceivedMessage
from judges import ApacheBroker, FireArrowBroker, Payload, fresh
from tests.interop.client.ours import bodies, send

pytestmark = pytest.mark.apache

COUNT = 60


def at(broker: ApacheBroker) -> str:
    return broker.name_servers[0]


def digests(payload: Payload, count: int = COUNT) -> set[str]:
    return {payload.digest(index) for index in range(count)}


async def polled(consumer: PullConsumer, count: int) -> list[ReceivedMessage]:
    """So many messages, in as many polls as it takes: a poll hands out what has come, not all that will."""
    seen: list[ReceivedMessage] = []
    while len(seen) < count:
        more = await consumer.poll(count - len(seen))
        assert more, f"{len(seen)} of {count} came"
        seen += more
    return seen


async def built(consumer: PullConsumer, queue: MessageQueue, count: int) -> None:
    """Wait until a queue shows what was acknowledged: brokers build queues behind the log."""
    async with asyncio.timeout(30):
        while (await consumer.bounds(queue.topic))[queue].end < count:  # noqa: ASYNC110 - another process's work
            await asyncio.sleep(0.02)


def test_queues_are_read_from_wherever_one_likes(broker: ApacheBroker) -> None:
    topic, payload = broker.create_topic(fresh("pulled")), Payload(fresh("ours"))

    async def read() -> None:
        await send(at(broker), bodies(payload, COUNT, topic))
        async with PullConsumer(at(broker), group=fresh("G"), start="first") as consumer:
            queues = await consumer.queues(topic)
            await consumer.assign(queues)
            seen = []
            async for message in consumer:
                seen.append(message)
                if len(seen) == COUNT:
                    break
            assert {hashlib.sha256(message.body).hexdigest() for message in seen} == digests(payload)
            assert await consumer.poll(timeout_ms=100) == []

            first = queues[0]
            mine = [message.queue_offset for message in seen if message.queue == first]
            await consumer.seek(first, mine[3])
            again = await polled(consumer, len(mine) - 3)
            assert [message.queue_offset for message in again] == mine[3:]
            await consumer.seek_to_begin(first)
            assert (await consumer.poll())[0].queue_offset == mine[0]
            await consumer.seek_to_end(first)
            assert await consumer.poll(timeout_ms=100) == []
            stamp = next(message.store_timestamp for message in seen if message.queue == first)
            await consumer.seek_to_time(stamp, first)
            # Of several messages of one millisecond, brokers of 4.9 find any.
            found = (await consumer.poll())[0]
            assert found.store_timestamp == stamp
            assert found.queue_offset == mine[0] or broker.version.startswith("4.")

    asyncio.run(read())


def test_offsets_are_committed_when_told_and_found_by_the_next(broker: ApacheBroker) -> None:
    topic, payload, group = broker.create_topic(fresh("commit"), 1), Payload(fresh("ours")), fresh("G")
    queue = MessageQueue(topic, broker.name, 0)

    async def read() -> None:
        await send(at(broker), bodies(payload, 10, topic))
        async with PullConsumer(at(broker), group=group, start="first", auto_commit=False) as consumer:
            await consumer.assign([queue])
            assert [message.queue_offset for message in await polled(consumer, 4)] == [0, 1, 2, 3]
            await consumer.commit()
            assert await consumer.committed(queue) == 4
            assert [message.queue_offset for message in await polled(consumer, 4)] == [4, 5, 6, 7]
        async with PullConsumer(at(broker), group=group, start="first") as consumer:
            await consumer.assign([queue])
            assert (await consumer.poll(1))[0].queue_offset == 4
            assert consumer.position(queue) == 5
            await consumer.commit({queue: 9})
            assert await consumer.committed(queue) == 9

    asyncio.run(read())


def test_members_that_subscribe_share_the_queues(broker: ApacheBroker) -> None:
    topic, payload, group = broker.create_topic(fresh("lite")), Payload(fresh("ours")), fresh("G")

    async def read() -> None:
        await send(at(broker), bodies(payload, COUNT, topic, ["A", "B"]))
        async with PullConsumer(at(broker), group=group, topics={topic: "A"}, start="first") as consumer:
            seen: list[ReceivedMessage] = []
            while len(seen) < COUNT // 2:
                seen += await consumer.poll()
            wanted = {payload.digest(index) for index in range(0, COUNT, 2)}
            assert {hashlib.sha256(message.body).hexdigest() for message in seen} == wanted

    asyncio.run(read())


def test_single_requests_for_tools(broker: ApacheBroker) -> None:
    topic, payload = broker.create_topic(fresh("bytes"), 2), Payload(fresh("ours"))
    queue = MessageQueue(topic, broker.name, 1)

    async def read() -> None:
        async with (
            Producer(at(broker), group=fresh("P")) as producer,
            PullConsumer(at(broker), group=fresh("G")) as consumer,
        ):
            for message in bodies(payload, 5, topic):
                await producer.send(message, queue=queue)
            await built(consumer, queue, 5)
            assert await consumer.bounds(topic) == {
                MessageQueue(topic, broker.name, 0): Bounds(0, 0),
                queue: Bounds(0, 5),
            }
            pulls = await asyncio.gather(*(consumer.pull_bytes(queue, offset) for offset in range(5)))
            assert [len(pulled.messages()) for pulled in pulls] == [5, 4, 3, 2, 1]
            assert pulls[0].body.endswith(pulls[4].body)
            assert (pulls[0].next_offset, pulls[0].max_offset) == (5, 5)
            assert (await consumer.pull_bytes(queue, 5)).status is PullStatus.NOTHING_NEW
            assert (await consumer.pull_bytes(queue, 99)).status is PullStatus.OFFSET_MOVED
            at_first = await consumer.offsets_at([queue], 0)
            assert at_first == {queue: 0}

    asyncio.run(read())


def test_a_stretch_of_a_queue_is_read_with_many_pulls_under_way(broker: ApacheBroker) -> None:
    topic, payload = broker.create_topic(fresh("range"), 1), Payload(fresh("ours"))
    queue, count = MessageQueue(topic, broker.name, 0), 500

    async def read() -> None:
        async with (
            Producer(at(broker), group=fresh("P")) as producer,
            PullConsumer(at(broker), group=fresh("G")) as consumer,
        ):
            await producer.send_batch(bodies(payload, count, topic))
            await built(consumer, queue, count)
            for begin, end, most in ((0, count, 65_536), (3, 400, 7), (490, 10_000, 32), (5, 6, 1)):
                answers = [pulled async for pulled in consumer.pull_range(queue, begin, end, max_messages=most)]
                offsets = [message.queue_offset for pulled in answers for message in pulled.messages()]
                assert offsets == list(range(begin, min(end, count))), (begin, end, most)
            if isinstance(broker, FireArrowBroker):
                whole = await consumer.pull_bytes(queue, 0, max_messages=65_536, max_bytes=4 << 20)
                assert len(whole.messages()) == count

    asyncio.run(read())
