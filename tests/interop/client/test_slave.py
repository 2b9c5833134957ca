"""An Apache master with its slave: what our client does when the master goes, and when it comes back."""

import asyncio
from collections import Counter
from collections.abc import Iterator

import pytest

from firearrow.client import Consumer, Message, Producer, ReceivedMessage
from firearrow.client.consumer.settings import ConsumerOptions
from firearrow.errors import SendFailed
from firearrow.testing.apache import ApacheBroker, ApacheNameServer, fresh
from firearrow.testing.apache.artifacts import SERVER_VERSIONS
from firearrow.testing.apache.server import answers, wait_for
from firearrow.testing.apache.wire import ask
from tests.interop.client.ours import until

pytestmark = pytest.mark.apache

GET_TOPICS = 21
QUERY_OFFSET = 14
QUEUES = 2


@pytest.fixture(params=SERVER_VERSIONS)
def pair(request: pytest.FixtureRequest) -> Iterator[tuple[ApacheBroker, ApacheBroker, str]]:
    version, settings = str(request.param), {"slaveReadEnable": "true"}
    with (
        ApacheNameServer(version) as names,
        ApacheBroker(version, name_servers=[names.address], settings=settings) as master,
    ):
        topic = master.create_topic(fresh("pair"), QUEUES)
        with ApacheBroker(version, name_servers=[names.address], broker_id=1, settings=settings) as slave:
            # A slave of 5.x asks its master for topics once a minute.
            wait_for(lambda: topic.encode() in (answers(slave.address, GET_TOPICS) or b""), "the slave's topics", 100)
            yield master, slave, topic


def test_consumption_goes_on_from_the_slave(pair: tuple[ApacheBroker, ApacheBroker, str]) -> None:
    master, slave, topic = pair
    names, group = master.name_servers[0], fresh("G")
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
            slave.pause()
            await send_each(producer, topic, "lacking", 10)
            await asyncio.to_thread(master.kill)
            slave.resume()
            with pytest.raises(SendFailed) as caught:
                await producer.send(Message.of(topic, b"nobody"))
            assert caught.value.retryable

            go_on.set()
            await until(lambda: have_come(("second", 20)), "the second ones, from the slave", 60)
            assert max(seen.values()) == 1, "progress was not kept"
            assert not any(body.startswith("lacking") for body in seen)
            await consumer.commit()
            try:
                await until(lambda: committed(slave, group, topic) == 60, "offsets committed to the slave", 30)
            except AssertionError:
                flows = consumer._member.receiver.flows
                print(
                    {
                        str(q): (f.window.committable, f.window.next_offset, f.error, f.broker_id)
                        for q, f in flows.items()
                    },
                    consumer._member.receiver.offsets.table.all(),
                    consumer._member.receiver.offsets.table.unkept(),
                )
                for q in range(2):
                    print(ask(slave.address, QUERY_OFFSET, {"consumerGroup": group, "topic": topic, "queueId": str(q)}))
                raise

            await asyncio.to_thread(master.start)
            await send_at_last(producer, Message.of(topic, b"back-0"))
            await until(lambda: have_come(("lacking", 10), ("back", 1)), "what the slave lacked, and what is new", 60)
            consumer.stop()
            await running

    asyncio.run(story())


async def send_each(producer: Producer, topic: str, name: str, count: int) -> None:
    for number in range(count):
        assert (await producer.send(Message.of(topic, f"{name}-{number}".encode()))).is_ok


def committed(broker: ApacheBroker, group: str, topic: str) -> int:
    """How far a broker believes a group to be, all queues together."""
    told = [
        ask(broker.address, QUERY_OFFSET, {"consumerGroup": group, "topic": topic, "queueId": str(queue)})
        for queue in range(QUEUES)
    ]
    return sum(int(answer.fields.get("offset", 0)) for answer in told)


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
    """How far a broker's log goes, as its files show."""
    log = sorted((broker.store / "commitlog").glob("*"))
    if not log:
        return -1
    data = log[-1].read_bytes()
    return len(data.rstrip(b"\0"))
