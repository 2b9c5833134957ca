"""Views over a real broker, by its topics and by its files: delays, transactions, dead letters, newest rows."""

import asyncio
from collections.abc import Iterator
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from firearrow import Consumer, Message, Producer
from firearrow.admin import Admin
from firearrow.client import ReceivedMessage, TransactionState
from firearrow.errors import NoSuchName
from firearrow.spark.pipelines import views
from firearrow.testing.blocking import Cluster

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.real


class RolledBack(Exception):
    """Ends a transaction."""


TOPICS = ["orders", "later", "paid", "%DLQ%kitchen", "%RETRY%bar", "SCHEDULE_TOPIC_XXXX", "rmq_sys_wheel_timer"]
TOPICS += ["RMQ_SYS_TRANS_HALF_TOPIC", "RMQ_SYS_TRANS_OP_HALF_TOPIC"]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with Cluster(directory=tmp_path_factory.mktemp("cluster")) as running:
        running.create_topic("orders", queues=2)
        running.create_topic("later", queues=1)
        running.create_topic("paid", queues=1)
        asyncio.run(_fill(running.address))
        yield running


async def _fill(address: str) -> None:
    await _send(address)
    await _transactions(address)
    async with Admin(address) as admin:
        await _dead_letters(address, admin)
        await _retries(address)
        async with asyncio.timeout(30):
            while (await admin.topics.describe("later")).messages < 1:  # noqa: ASYNC110 - the delayed one
                await asyncio.sleep(0.1)


async def _send(address: str) -> None:
    async with Producer(address, group="shop") as producer:
        for number in range(6):
            await producer.send(Message.of("orders", b"v%d" % number, keys=f"k{number % 2}"))
        await producer.send(Message.of("later", b"soon", delay_level=1))
        await producer.send(Message.of("later", b"in two hours", delay_level=18))
        await producer.send(Message.of("later", b"in an hour", delay=timedelta(hours=1)))


async def _transactions(address: str) -> None:
    async def check(_message: object) -> TransactionState:
        return TransactionState.UNKNOWN

    async with Producer(address, group="payers", check=check) as producer:
        async with producer.transaction(Message.of("paid", b"yes")):
            pass
        with pytest.raises(RolledBack):
            async with producer.transaction(Message.of("paid", b"no")):
                raise RolledBack
        pending = producer.transaction(Message.of("paid", b"perhaps"))
        await pending.__aenter__()


async def _dead_letters(address: str, admin: Admin) -> None:
    async def fail(_message: ReceivedMessage) -> None:
        raise ValueError("no")

    async def dead() -> int:
        try:
            return (await admin.topics.describe("%DLQ%kitchen")).messages
        except NoSuchName:
            return 0

    consumer = Consumer(address, group="kitchen", topics="orders", start="first", max_reconsume_times=0)
    async with consumer, asyncio.timeout(60):
        running = asyncio.create_task(consumer.run(fail))
        while await dead() < 6:  # noqa: ASYNC110
            await asyncio.sleep(0.05)
        consumer.stop()
        await running


async def _retries(address: str) -> None:
    """Put a message back, and take it at the second delivery."""
    taken = asyncio.Event()

    async def fail_first(message: ReceivedMessage) -> None:
        if message.body == b"yes":
            if message.reconsume_times == 0:
                raise ValueError("not now")
            taken.set()

    consumer = Consumer(address, group="bar", topics="paid", start="first", max_reconsume_times=3)
    async with consumer, asyncio.timeout(60):
        running = asyncio.create_task(consumer.run(fail_first))
        await taken.wait()
        consumer.stop()
        await running


@pytest.mark.parametrize("door", ["topics", "files"])
def test_views_tell_what_a_broker_holds(spark: "SparkSession", cluster: Cluster, door: str) -> None:
    if door == "files":
        rows = spark.read.format("rocketmq-store").load(str(cluster.directory / "broker-a"))
    else:
        options = {"nameServer": cluster.address, "subscribe": ",".join(TOPICS)}
        rows = spark.read.format("rocketmq").options(**options).load()
    assert views.register(rows, "my_") == [
        "my_delayed",
        "my_transactions",
        "my_retries",
        "my_dead_letters",
        "my_current",
    ]
    ask = spark.sql
    waiting = "SELECT cast(body AS string), target_topic, is_delivered, due > store_timestamp FROM my_delayed"
    assert sorted(map(tuple, ask(waiting).collect())) == [
        ("in an hour", "later", False, True),
        ("in two hours", "later", False, True),
        ("soon", "later", True, True),
        ("yes", "%RETRY%bar", True, True),
    ]
    states = "SELECT cast(body AS string), target_topic, state FROM my_transactions"
    assert sorted(map(tuple, ask(states).collect())) == [
        ("no", "paid", views.ROLLED_BACK),
        ("perhaps", "paid", views.PENDING),
        ("yes", "paid", views.COMMITTED),
    ]
    dead = "SELECT consumer_group, origin_topic, count(*) FROM my_dead_letters GROUP BY ALL"
    assert list(map(tuple, ask(dead).collect())) == [("kitchen", "orders", 6)]
    again = "SELECT consumer_group, origin_topic, reconsume_times, cast(body AS string) FROM my_retries"
    assert list(map(tuple, ask(again).collect())) == [("bar", "paid", 1, "yes")]
    (origin,) = ask("SELECT origin_message_id FROM my_retries").collect()[0]
    ids = "SELECT message_id FROM {rows} WHERE topic = 'paid' AND cast(body AS string) = 'yes'"
    assert [row.message_id for row in spark.sql(ids, rows=rows).collect()] == [origin]
    newest = "SELECT keys, cast(body AS string) FROM my_current WHERE topic = 'orders'"
    assert sorted(map(tuple, ask(newest).collect())) == [("k0", "v4"), ("k1", "v5")]
