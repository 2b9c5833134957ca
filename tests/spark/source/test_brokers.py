"""Brokers that go, come back and are new while a stream runs."""

from collections.abc import Iterator

import pytest

from firearrow.blocking import MessageQueue, Producer
from firearrow.testing.blocking import Cluster
from tests.spark.source.reading import numbered, rows_between, stream, wait_until

pytestmark = pytest.mark.real

QUICK = {"fetchRetries": "2", "fetchRetryIntervalMs": "10", "startingOffsets": "earliest"}


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with Cluster(brokers=["broker-a", "broker-b"]) as running:
        yield running


def send_to(cluster: Cluster, topic: str, broker: str, number: int) -> None:
    with Producer(cluster.address, group="brokers-test") as producer:
        producer.send(numbered(topic, 1, number)[0], queue=MessageQueue(topic, broker, 0))


def test_a_stream_lives_on_while_brokers_go_and_come_back(cluster: Cluster) -> None:
    topic = cluster.create_topic("moving", queues=1)
    for number, broker in enumerate(("broker-a", "broker-b")):
        send_to(cluster, topic, broker, number)
    reader = stream({"nameServer": cluster.address, "subscribe": topic, **QUICK})
    start = reader.initialOffset()
    end = reader.latestOffset(start, None)
    assert rows_between(reader, start, end) == [0, 1]

    cluster.stop_broker("broker-b")
    send_to(cluster, topic, "broker-a", 2)
    wait_until(lambda: reader.latestOffset(end, None) != end, "rows of the broker that is left")
    later = reader.latestOffset(end, None)
    assert later[topic]["broker-b"] == end[topic]["broker-b"], "the queue that is away keeps its place"
    assert rows_between(reader, end, later) == [2]

    cluster.start_broker("broker-b")
    send_to(cluster, topic, "broker-b", 3)
    wait_until(lambda: reader.latestOffset(later, None) != later, "rows of the broker that is back")
    assert rows_between(reader, later, reader.latestOffset(later, None)) == [3]


def test_nothing_is_new_while_nobody_can_be_asked(cluster: Cluster) -> None:
    topic = cluster.create_topic("silent", queues=1)
    send_to(cluster, topic, "broker-a", 0)
    reader = stream({"nameServer": cluster.address, "subscribe": topic, **QUICK})
    end = reader.latestOffset(reader.initialOffset(), None)
    cluster.stop_broker("broker-a")
    cluster.stop_broker("broker-b")
    assert reader.latestOffset(end, None) == end
    cluster.start_broker("broker-a")
    cluster.start_broker("broker-b")
    send_to(cluster, topic, "broker-b", 1)
    wait_until(lambda: reader.latestOffset(end, None) != end, "rows again")
    assert rows_between(reader, end, reader.latestOffset(end, None)) == [1]
