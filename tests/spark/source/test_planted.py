"""Faults that a review found in the sources, put back: a job or a stream at a real broker must show each."""

import asyncio
from collections.abc import Callable, Iterable

import pytest

pytest.importorskip("pyspark")

from firearrow.admin import Admin
from firearrow.client import MessageQueue
from firearrow.client.consumer.hidden_queues import HiddenQueues, QueueExtent
from firearrow.client.consumer.log_consumer import LogConsumer
from firearrow.errors import FireArrowError
from firearrow.spark.link import close_links
from firearrow.spark.source.reader import DataLost
from firearrow.testing.blocking import Cluster
from tests.spark.source import test_broker_changes as brokers_tests
from tests.spark.source.reading import numbered, numbers, rows_between, send, stream

pytestmark = pytest.mark.real

ROWS = 60


def only_routed_queues_are_read(patch: pytest.MonkeyPatch) -> None:
    """H1: queues that a topic has lost by shrinking are not asked for."""
    held_queues = LogConsumer.held_queues

    async def routed(
        self: LogConsumer, topic: str, known: Iterable[MessageQueue] = ()
    ) -> dict[MessageQueue, QueueExtent]:
        shown = await self.queues(topic)
        return {queue: held for queue, held in (await held_queues(self, topic, known)).items() if queue in shown}

    patch.setattr(LogConsumer, "held_queues", routed)


def queues_without_messages_are_not_missed(patch: pytest.MonkeyPatch) -> None:
    """H1: a queue of the checkpoint of which the log has nothing any more just has nothing new."""
    held = HiddenQueues.held

    async def unknown(
        self: HiddenQueues, broker: str, topic: str, _known: object = ()
    ) -> dict[MessageQueue, QueueExtent]:
        return await held(self, broker, topic)

    patch.setattr(HiddenQueues, "held", unknown)


def brokers_are_those_of_read_queues(patch: pytest.MonkeyPatch) -> None:
    """H1: a broker on which the topic has no queues is not asked."""
    held_queues = LogConsumer.held_queues

    async def asked(
        self: LogConsumer, topic: str, known: Iterable[MessageQueue] = ()
    ) -> dict[MessageQueue, QueueExtent]:
        shown = {queue.broker_name for queue in await self.queues(topic)}
        held = await held_queues(self, topic, known)
        return {queue: each for queue, each in held.items() if queue.broker_name in shown}

    patch.setattr(LogConsumer, "held_queues", asked)


def told(cluster: Cluster, **more: str) -> dict[str, str]:
    return {"nameServer": cluster.address, "subscribe": "orders", "startingOffsets": "earliest", **more}


def change(cluster: Cluster, *, queues: int = 0) -> None:
    """Give the topic another number of queues, or delete it."""

    async def do() -> None:
        async with Admin(cluster.address) as admin:
            if queues:
                await admin.topics.update("orders", queues=queues)
            else:
                await admin.topics.delete("orders")

    asyncio.run(do())
    close_links()


def a_shrunk_topic_is_read_whole(cluster: Cluster) -> None:
    cluster.create_topic("orders", queues=3)
    send(cluster.address, numbered("orders", ROWS))
    start = stream(told(cluster)).initialOffset()
    change(cluster, queues=1)
    reader = stream(told(cluster))
    assert rows_between(reader, start, reader.latestOffset(start, None)) == list(range(ROWS))
    assert numbers(told(cluster)) == list(range(ROWS))


def a_topic_made_again_with_fewer_queues_is_told(cluster: Cluster) -> None:
    cluster.create_topic("orders", queues=3)
    reader = stream(told(cluster))
    send(cluster.address, numbered("orders", ROWS))
    end = reader.latestOffset(reader.initialOffset(), None)
    change(cluster)
    cluster.create_topic("orders", queues=1)
    with pytest.raises(DataLost, match="queue 2 has changed"):
        stream(told(cluster)).latestOffset(end, None)


def a_broker_without_queues_is_read(_one: Cluster) -> None:
    with Cluster(brokers=2) as cluster:
        cluster.create_topic("orders", queues=1)
        send(cluster.address, numbered("orders", ROWS))
        brokers_tests.do(brokers_tests.Place(cluster.address, "orders"), brokers_tests.without_queues)
        assert numbers(told(cluster)) == list(range(ROWS))


Plant = Callable[[pytest.MonkeyPatch], None]
Scenario = Callable[[Cluster], None]
PLANTED: list[tuple[Plant, Scenario]] = [
    (only_routed_queues_are_read, a_shrunk_topic_is_read_whole),
    (brokers_are_those_of_read_queues, a_broker_without_queues_is_read),
    (queues_without_messages_are_not_missed, a_topic_made_again_with_fewer_queues_is_told),
]


def run(scenario: Scenario) -> None:
    with Cluster() as cluster:
        try:
            scenario(cluster)
        finally:
            close_links()


@pytest.mark.parametrize(("plant", "scenario"), PLANTED, ids=[plant.__name__ for plant, _ in PLANTED])
def test_a_planted_fault_is_seen(plant: Plant, scenario: Scenario, monkeypatch: pytest.MonkeyPatch) -> None:
    run(scenario)
    plant(monkeypatch)
    with pytest.raises((AssertionError, pytest.fail.Exception, FireArrowError)):
        run(scenario)
