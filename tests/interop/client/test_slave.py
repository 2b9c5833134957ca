"""An Apache master with its slave: what our client does when the master goes, and when it comes back."""

import asyncio
from collections.abc import Iterator
from contextlib import suppress

import pytest

from firearrow.client import Consumer, Message, Producer, PullConsumer
from firearrow.errors import ConnectionFailed, SendFailed
from firearrow.testing.apache import ApacheBroker, ApacheNameServer, fresh
from firearrow.testing.apache.artifacts import SERVER_VERSIONS
from firearrow.testing.apache.server import answers, wait_for
from tests.interop.client.ours import Collector, until

pytestmark = pytest.mark.apache

GET_TOPICS = 21


@pytest.fixture(params=SERVER_VERSIONS)
def pair(request: pytest.FixtureRequest) -> Iterator[tuple[ApacheBroker, ApacheBroker, str]]:
    version, settings = str(request.param), {"slaveReadEnable": "true"}
    with (
        ApacheNameServer(version) as names,
        ApacheBroker(version, name_servers=[names.address], settings=settings) as master,
    ):
        topic = master.create_topic(fresh("pair"), 2)
        with ApacheBroker(version, name_servers=[names.address], broker_id=1, settings=settings) as slave:
            # A slave of 5.x asks its master for topics once a minute.
            wait_for(lambda: topic.encode() in (answers(slave.address, GET_TOPICS) or b""), "the slave's topics", 100)
            yield master, slave, topic


def test_consumption_goes_on_from_the_slave(pair: tuple[ApacheBroker, ApacheBroker, str]) -> None:
    master, slave, topic = pair
    names, group = master.name_servers[0], fresh("G")

    async def at_slave(consumer: PullConsumer) -> int:
        """How many messages the slave has."""
        pulls = [await consumer.pull_bytes(queue, 0, max_messages=64) for queue in await consumer.queues(topic)]
        return sum(len(pulled.messages()) for pulled in pulls)

    async def story() -> None:
        collector = Collector()
        async with Producer(names, group=fresh("P"), poll_name_server_ms=1000) as producer:
            await producer.send_batch(Message.of(topic, b"%d" % n) for n in range(20))
            await producer.send_batch(Message.of(topic, b"%d" % n) for n in range(20, 40))
            await until(lambda: slave_has(slave) == slave_has(master), "the slave's copy", 60)
            await asyncio.to_thread(master.kill)
            with pytest.raises(SendFailed) as caught:
                await producer.send(Message.of(topic, b"nobody"))
            assert caught.value.retryable

            async with PullConsumer(names, group=fresh("G"), poll_name_server_ms=1000) as looker:
                with suppress(ConnectionFailed):  # name servers may list the master for a moment yet
                    await at_slave(looker)
                assert await at_slave(looker) == 40
            async with Consumer(names, group=group, topics=topic, start="first", poll_name_server_ms=1000) as consumer:
                running = asyncio.create_task(consumer.run(collector))
                await until(lambda: collector.accepted >= 40, "all messages from the slave", 60)
                await consumer.commit()
                await asyncio.to_thread(master.start)
                await send_at_last(producer, Message.of(topic, b"back"))
                await until(lambda: any(d.size == 4 for d in collector.deliveries), "what the new master took", 60)
                consumer.stop()
                await running

    asyncio.run(story())


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


def slave_has(broker: ApacheBroker) -> int:
    """How far a broker's log goes, as its files show."""
    log = sorted((broker.store / "commitlog").glob("*"))
    if not log:
        return -1
    data = log[-1].read_bytes()
    return len(data.rstrip(b"\0"))
