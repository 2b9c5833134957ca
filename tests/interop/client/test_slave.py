"""An Apache master with its slave: what our client does when the master goes, and when it comes back.

A slave of 5.5.0 takes a minute to know its topics, so each commit tries one version (`slices.rotating`).
"""

import asyncio
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from typing import NamedTuple

import pytest

from firearrow.client import Consumer, Message, Producer, PullConsumer, PulledBytes, ReceivedMessage
from firearrow.client.consumer.broker_queries import PullOrder
from firearrow.client.consumer.settings import ConsumerOptions
from firearrow.errors import FireArrowError, SendFailed
from judges import ApacheBroker, ApacheNameServer, fresh
from judges.install.artifacts import SERVER_VERSIONS
from judges.server_process import answers, wait_for
from judges.wire import UPDATE_BROKER_SETTINGS, ask
from tests.interop.client.ours import until
from tests.interop.client.slices import rotating

pytestmark = pytest.mark.apache

GET_TOPICS = 21
QUERY_OFFSET = 14
QUEUES = 2


class Pair(NamedTuple):
    """A master with its slave, and two topics that both have."""

    master: ApacheBroker
    slave: ApacheBroker
    told: str
    gone: str


@pytest.fixture(scope="module", params=rotating(SERVER_VERSIONS))
def pair(request: pytest.FixtureRequest) -> Iterator[Pair]:
    version, settings = str(request.param), {"slaveReadEnable": "true"}
    with (
        ApacheNameServer(version) as names,
        ApacheBroker(version, name_servers=[names.address], settings=settings) as master,
    ):
        topics = [master.create_topic(fresh(name), QUEUES) for name in ("told", "gone")]
        with ApacheBroker(version, name_servers=[names.address], broker_id=1, settings=settings) as slave:
            # A slave of 5.x asks its master for topics once a minute.
            wait_for(
                lambda: all(topic.encode() in (answers(slave.address, GET_TOPICS) or b"") for topic in topics),
                "the slave's topics",
                100,
            )
            yield Pair(master, slave, *topics)


def test_a_slave_is_read_when_its_master_says_so_and_when_the_caller_does(pair: Pair) -> None:
    master, slave, topic, names = pair.master, pair.slave, pair.told, pair.master.name_servers[0]

    async def story() -> None:
        seen: set[bytes] = set()
        asked: set[int] = set()

        async def handle(message: ReceivedMessage) -> None:
            seen.add(message.body)

        async with Producer(names, group=fresh("P")) as producer:
            await producer.send_batch(Message.of(topic, b"%d" % n) for n in range(100))
        await until(lambda: log_end(slave) == log_end(master), "the slave's copy", 60)
        async with PullConsumer(names, group=fresh("G")) as looker:
            queues = await looker.queues(topic)
            master.pause()
            try:
                pulls = [await looker.pull_bytes(queue, 0, broker_id=1, timeout_ms=10_000) for queue in queues]
            finally:
                master.resume()
            assert sum(len(pulled.messages()) for pulled in pulls) >= 32

        # A master whose memory counts as small sends everybody who is behind to its slave.
        ask(master.address, UPDATE_BROKER_SETTINGS, body=b"accessMessageInMemoryMaxRatio=0")
        try:
            async with Consumer(names, group=fresh("G"), topics=topic, start="first", pull_batch=4) as consumer:
                puller = consumer._member.receiver.puller
                pull = puller.pull

                async def noted(order: PullOrder) -> PulledBytes:
                    asked.add(order.broker_id)
                    return await pull(order)

                puller.pull = noted  # type: ignore[method-assign]
                running = asyncio.create_task(consumer.run(handle))
                await until(lambda: len(seen) == 100, "all messages", 60)
                consumer.stop()
                await running
        finally:
            ask(master.address, UPDATE_BROKER_SETTINGS, body=b"accessMessageInMemoryMaxRatio=40")
        assert 1 in asked

    asyncio.run(story())


def test_consumption_goes_on_from_the_slave(pair: Pair) -> None:
    master, slave, topic = pair.master, pair.slave, pair.gone
    names, group = master.name_servers[0], fresh("G")
    # A name server of 4.9 takes no topics from a slave that starts without its master, so there it is only paused. The
    # system may take copies for it meanwhile, so that it lacks nothing in the end.
    is_old = master.version.startswith("4.")
    # It reads hardly ahead, so that what comes while handlers are held is not read from the master.
    options = ConsumerOptions(
        start="first", pull_batch=1, pull_threshold=1, workers=2, poll_name_server_ms=1000, rebalance_ms=2000
    )

    async def story() -> None:
        seen: Counter[str] = Counter()
        go_on = asyncio.Event()
        go_on.set()

        async def handle(message: ReceivedMessage) -> None:
            await go_on.wait()
            seen[message.body.decode()] += 1

        def have_come(*names: tuple[str, int]) -> bool:
            return {f"{name}-{n}" for name, count in names for n in range(count)} <= set(seen)

        async with (
            Producer(names, group=fresh("P"), poll_name_server_ms=1000) as producer,
            Consumer(names, group=group, topics=topic, **options) as consumer,
        ):
            running = asyncio.create_task(consumer.run(handle))
            await send_each(producer, topic, "first", 40)
            await until(lambda: have_come(("first", 40)), "the first messages", 60)
            await consumer.commit()
            go_on.clear()
            await send_each(producer, topic, "second", 20)
            await until(lambda: log_end(slave) == log_end(master), "the slave's copy", 60)
            await asyncio.to_thread(slave.pause if is_old else slave.kill)
            await send_each(producer, topic, "lacking", 10)
            await asyncio.to_thread(master.kill)
            await asyncio.to_thread(slave.resume if is_old else slave.start)
            with pytest.raises(SendFailed) as caught:
                await producer.send(Message.of(topic, b"nobody"))
            assert caught.value.retryable

            go_on.set()
            await until(lambda: have_come(("second", 20)), "the second ones, from the slave", 60)
            assert max(seen.values()) == 1, "progress was not kept"
            assert is_old or not any(body.startswith("lacking") for body in seen)
            with suppress(FireArrowError):  # the master may be listed for a moment yet; it is committed again later
                await consumer.commit()
            # Name servers that miss the end of a connection list a dead master for two minutes.
            try:
                await until(lambda: sum(committed(slave, group, topic)) == len(seen), "offsets at the slave", 150)
            except AssertionError as late:
                known = consumer._member.receiver.offsets.table
                told = f"the slave has {committed(slave, group, topic)}, the consumer {known.all()}, {set(seen)} came"
                raise AssertionError(f"{late}: {told}; not kept are {known.unkept()}") from late

            await asyncio.to_thread(master.start)
            await send_at_last(producer, Message.of(topic, b"back-0"))
            await until(lambda: have_come(("lacking", 10), ("back", 1)), "what the slave lacked, and what is new", 60)
            consumer.stop()
            await running

    asyncio.run(story())


async def send_each(producer: Producer, topic: str, name: str, count: int) -> None:
    for number in range(count):
        assert (await producer.send(Message.of(topic, f"{name}-{number}".encode()))).is_ok


def committed(broker: ApacheBroker, group: str, topic: str) -> list[int]:
    """The offsets that a broker has of a group, queue by queue."""
    told = [
        ask(broker.address, QUERY_OFFSET, {"consumerGroup": group, "topic": topic, "queueId": str(queue)})
        for queue in range(QUEUES)
    ]
    return [int(answer.fields.get("offset", 0)) for answer in told]


async def send_at_last(producer: Producer, message: Message) -> None:
    """Send as soon as somebody takes the message."""
    async with asyncio.timeout(30):
        while True:
            try:
                await producer.send(message)
            except SendFailed:
                await asyncio.sleep(0.1)
            else:
                return


def log_end(broker: ApacheBroker) -> int:
    """The end of a broker's log, as its files show."""
    log = sorted((broker.store / "commitlog").glob("*"))
    if not log:
        return -1
    data = log[-1].read_bytes()
    return len(data.rstrip(b"\0"))
