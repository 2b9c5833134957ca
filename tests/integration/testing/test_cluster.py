"""The testing kit, used as a user would: a real cluster in the test's own process."""

import asyncio
import inspect
import threading
from pathlib import Path

import pytest

from firearrow import Consumer, Message, Producer, blocking
from firearrow.admin import Admin
from firearrow.client import ReceivedMessage
from firearrow.errors import AlreadyExists, NoRoute, NoSuchName, SettingsError
from firearrow.testing import Cluster
from firearrow.testing import blocking as testing_blocking

pytestmark = pytest.mark.real


async def handle(_message: ReceivedMessage) -> None:
    return


def bodies(numbers: range) -> set[bytes]:
    return {b"%d" % number for number in numbers}


def test_messages_go_in_and_out() -> None:
    async def scenario() -> None:
        async with Cluster() as cluster, Producer(cluster.address) as producer:
            await cluster.create_topic("orders", queues=2)
            for number in range(10):
                await producer.send(Message.of("orders", b"%d" % number, tag="new"))
            assert {message.body for message in await cluster.messages("orders")} == bodies(range(10))
            options = {"start": "first", "persist_ms": 50}
            async with Consumer(cluster.address, group="kitchen", topics="orders", **options) as consumer:  # type: ignore[call-overload]
                running = asyncio.create_task(consumer.run(handle))
                await cluster.consumed("kitchen", "orders")
                consumer.stop()
                await running

    asyncio.run(scenario())


def test_a_killed_broker_has_everything_when_it_is_back() -> None:
    async def scenario() -> None:
        async with Cluster(brokers=2) as cluster, Producer(cluster.address) as producer:
            await cluster.create_topic("orders")
            for number in range(20):
                await producer.send(Message.of("orders", b"%d" % number))
            await cluster.kill_broker("broker-a")
            for number in range(20, 40):
                await producer.send(Message.of("orders", b"%d" % number))
            with pytest.raises(NoRoute):
                await cluster.kill_broker("broker-a")
            await cluster.start_broker("broker-a")
            assert {message.body for message in await cluster.messages("orders")} == bodies(range(40))

    asyncio.run(scenario())


def test_servers_restart_on_their_ports() -> None:
    async def scenario() -> None:
        async with Cluster(name_servers=2) as cluster, Producer(cluster.address) as producer:
            await cluster.create_topic("orders")
            before = cluster.broker_address()
            await cluster.restart_broker()
            await cluster.stop_name_server(0)
            await producer.send(Message.of("orders", b"0"))
            await cluster.start_name_server(0)
            await producer.send(Message.of("orders", b"1"))
            assert cluster.broker_address() == before
            assert len(await cluster.messages("orders")) == 2

    asyncio.run(scenario())


def test_data_stays_in_a_directory_of_its_own_and_goes_without_one(tmp_path: Path) -> None:
    async def scenario() -> Path:
        for expected in (1, 2):
            async with Cluster(directory=tmp_path) as cluster, Producer(cluster.address) as producer:
                await producer.send(Message.of("orders", b"again"))
                assert len(await cluster.messages("orders")) == expected
        async with Cluster() as cluster:
            assert cluster.directory.exists()
        return cluster.directory

    assert not asyncio.run(scenario()).exists()


def test_mistakes_say_what_to_do() -> None:
    async def scenario() -> None:
        async with Cluster(settings={"messageDelayLevel": "1s 2s"}) as cluster:
            await cluster.create_topic("orders")
            with pytest.raises(AlreadyExists, match="update it instead"):
                await cluster.create_topic("orders")
            with pytest.raises(NoSuchName, match="broker-a"):
                await cluster.stop_broker("broker-z")
            with pytest.raises(NoSuchName, match="topic list"):
                await cluster.admin.topics.describe("nothing")
            await Producer(cluster.address).close()
            async with Producer(cluster.address) as producer:
                await producer.send(Message.of("orders", b"unread"))
            with pytest.raises(TimeoutError, match="has committed nothing"):
                await cluster.consumed("nobody", "orders", timeout_s=0.2)

    asyncio.run(scenario())
    with pytest.raises(SettingsError, match="messageDelayLevel"):
        Cluster(settings={"messageDelayLevels": "1s"})
    with pytest.raises(SettingsError, match="at least one broker"):
        Cluster(brokers=0)


def test_the_blocking_cluster_has_a_thread_of_its_own() -> None:
    threads = threading.active_count()
    with testing_blocking.Cluster() as cluster:
        cluster.create_topic("orders")
        with blocking.Producer(cluster.address) as producer:
            producer.send(Message.of("orders", b"one"))
        cluster.restart_broker()
        assert [message.body for message in cluster.messages("orders")] == [b"one"]
    assert threading.active_count() == threads


def test_the_blocking_cluster_is_the_other_name_by_name() -> None:
    def surface(kind: type) -> dict[str, list[tuple[str, object]]]:
        methods = {name: each for name, each in vars(kind).items() if not name.startswith("_")}
        return {
            name: [(p.name, p.default) for p in inspect.signature(each).parameters.values()] if callable(each) else []
            for name, each in methods.items()
        }

    twin, original = surface(testing_blocking.Cluster), surface(Cluster)
    del original["admin"]  # an asynchronous object
    assert twin == original


def test_the_plugin_gives_a_cluster_a_topic_and_a_group(
    firearrow_address: str, firearrow_topic: str, firearrow_group: str
) -> None:
    async def scenario() -> bytes:
        async with Producer(firearrow_address) as producer:
            await producer.send(Message.of(firearrow_topic, b"hello"))
        async with Consumer(
            firearrow_address, group=firearrow_group, topics=firearrow_topic, start="first"
        ) as consumer:
            async for message in consumer:
                async with message.process():
                    return message.body
        raise AssertionError("the consumer was stopped")

    assert asyncio.run(scenario()) == b"hello"


def test_every_test_has_a_topic_of_its_own(
    firearrow_cluster: testing_blocking.Cluster, firearrow_topic: str, firearrow_group: str
) -> None:
    assert firearrow_cluster.messages(firearrow_topic) == []
    assert firearrow_group != firearrow_topic


def test_an_administrator_signs_with_its_keys() -> None:
    async def scenario() -> None:
        async with Cluster() as cluster, Admin(cluster.address, access_key="me", secret_key="mine") as admin:
            (member,) = await admin.brokers.list()
            assert member.is_master
            assert member.address == cluster.broker_address()
            assert await admin.groups.list() == []
            assert not await admin.topics.exists("orders")

    asyncio.run(scenario())
    with pytest.raises(SettingsError, match="belong together"):
        Admin("127.0.0.1:1", access_key="me")
