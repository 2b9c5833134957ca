"""Operators' requests to our consumer, by way of Apache's brokers and Apache's tools."""

import asyncio

import pytest

from firearrow.client import Consumer, Message, Producer, ReceivedMessage, sql
from judges import ApacheBroker, Mqadmin, fresh
from judges.install.artifacts import SERVER_VERSIONS
from judges.shared import SharedServers
from tests.interop.client.ours import Collector, until

pytestmark = pytest.mark.apache


@pytest.fixture(scope="module", params=SERVER_VERSIONS)
def version(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def apache(shared_servers: SharedServers, version: str) -> ApacheBroker:
    return shared_servers.broker(version)


@pytest.fixture
def admin(shared_servers: SharedServers, version: str) -> Mqadmin:
    return shared_servers.mqadmin(version)


def test_a_running_consumer_is_moved_shown_and_given_messages(apache: ApacheBroker, admin: Mqadmin) -> None:
    topic, group, names = apache.create_topic(fresh("operated"), 2), fresh("G"), apache.name_servers[0]

    async def operate() -> None:
        async with (
            Producer(names, group=fresh("P")) as producer,
            Consumer(names, group=group, topics=topic, start="first") as consumer,
        ):
            collector = Collector()
            running = asyncio.create_task(consumer.run(collector))
            results = await producer.send_batch(Message.of(topic, b"%d" % n) for n in range(10))
            await until(lambda: collector.accepted == 10, "all messages")
            await consumer.commit()

            shown = await asyncio.to_thread(admin.run, f"consumerProgress -n {names} -g {group}")
            assert consumer.client_id.split("@")[0] in shown or topic in shown
            told = await asyncio.to_thread(admin.run, f"consumerStatus -n {names} -g {group} -i {consumer.client_id}")
            assert topic in told
            assert "PROP_CONSUMEORDERLY" in told

            of_topic = f"-t {topic}" if apache.version.startswith("5.") else ""
            one = f"{of_topic} -i {results[0].offset_message_id}"
            said = await asyncio.to_thread(
                admin.run, f"queryMsgById -n {names} {one} -g {group} -d {consumer.client_id}"
            )
            assert "CR_SUCCESS" in said
            assert collector.accepted == 11

            await asyncio.to_thread(admin.run, f"resetOffsetByTime -n {names} -g {group} -t {topic} -s 0")
            await until(lambda: collector.accepted >= 21, "all messages again")
            consumer.stop()
            await running

    asyncio.run(operate())


def test_brokers_filter_by_properties(apache: ApacheBroker) -> None:
    topic, names = apache.create_topic(fresh("sql"), 2), apache.name_servers[0]

    async def filtered() -> None:
        seen: list[bytes] = []

        async def handle(message: ReceivedMessage) -> None:
            seen.append(message.body)

        async with (
            Producer(names, group=fresh("P")) as producer,
            Consumer(names, group=fresh("G"), start="first") as consumer,
        ):
            await consumer.subscribe(topic, sql("size > 5"))
            running = asyncio.create_task(consumer.run(handle))
            await producer.send_batch(Message.of(topic, b"%d" % n, properties={"size": str(n)}) for n in range(10))
            await until(lambda: len(seen) >= 4, "the large ones")
            await asyncio.sleep(0.2)
            consumer.stop()
            await running
        assert sorted(seen) == [b"6", b"7", b"8", b"9"]

    asyncio.run(filtered())
