"""Queues that begin anew below, at and above the place of a stream: told, or gone on with, never skipped."""

import asyncio
import time
from typing import Any

import pytest

from firearrow.admin import Admin
from firearrow.blocking import PullConsumer
from firearrow.errors import NoRoute
from firearrow.spark.link import close_links
from firearrow.spark.source.reader import DataLost
from firearrow.testing.blocking import Cluster
from judges import ApacheBroker, fresh
from tests.spark.source.reading import numbered, rows_between, send, stream, wait_until

pytestmark = [pytest.mark.apache, pytest.mark.real]

OLD = 100
LENIENT = {"failOnDataLoss": "false"}


def at(broker: ApacheBroker) -> str:
    return broker.name_servers[0]


def told(broker: ApacheBroker, topic: str, **more: str) -> dict[str, str]:
    return {"nameServer": at(broker), "subscribe": topic, "startingOffsets": "earliest", **more}


def make_anew(broker: ApacheBroker, topic: str) -> None:
    """Delete a topic of one queue and create it again."""

    async def delete() -> None:
        async with Admin(at(broker)) as admin:
            await admin.topics.delete(topic)

    asyncio.run(delete())
    broker.create_topic(topic, 1)
    with PullConsumer(at(broker), group="anew-test", poll_name_server_ms=100) as looker:
        wait_until(lambda: [bounds.end for bounds in looker.bounds(topic).values()] == [0], "an empty queue")


def archived(broker: ApacheBroker) -> tuple[str, Any]:
    """A topic with old messages, and the checkpoint of a stream that has read all of them."""
    topic = broker.create_topic(fresh("anew"), 1)
    send(at(broker), numbered(topic, OLD))
    reader = stream(told(broker, topic))
    start = reader.initialOffset()
    end = reader.latestOffset(start, None)
    assert rows_between(reader, start, end) == list(range(OLD))
    close_links()
    return topic, end


@pytest.mark.parametrize("count", [0, 60, OLD, 130])
def test_a_topic_made_anew_is_told_however_far_it_has_grown(broker: ApacheBroker, count: int) -> None:
    topic, checkpoint = archived(broker)
    make_anew(broker, topic)
    if count:
        send(at(broker), numbered(topic, count, 1000))
    reader = stream(told(broker, topic))
    with pytest.raises(DataLost, match=rf"{topic} on {broker.name}, queue 0 has changed: .* continues at {OLD}"):
        reader.latestOffset(checkpoint, None)


@pytest.mark.parametrize("count", [60, OLD, 130])
def test_a_topic_made_anew_is_read_from_its_first_message_when_losses_may_be_passed_over(
    broker: ApacheBroker, count: int
) -> None:
    topic, checkpoint = archived(broker)
    make_anew(broker, topic)
    send(at(broker), numbered(topic, count, 1000))
    reader = stream(told(broker, topic, maxOffsetsPerTrigger="50", **LENIENT))
    seen, start = [], checkpoint
    while (end := reader.latestOffset(start, None)) != start:
        rows = rows_between(reader, start, end)
        assert rows == rows_between(stream(told(broker, topic, **LENIENT)), start, end), "also when it is repeated"
        seen += rows
        start = end
    assert seen == list(range(1000, 1000 + count))


def test_a_batch_that_is_repeated_reads_no_messages_of_another_queue(broker: ApacheBroker) -> None:
    topic = broker.create_topic(fresh("anew"), 1)
    send(at(broker), numbered(topic, OLD))
    reader = stream(told(broker, topic))
    start = reader.initialOffset()
    end = reader.latestOffset(start, None)
    close_links()  # killed before the batch was read
    make_anew(broker, topic)
    send(at(broker), numbered(topic, OLD + 30, 1000))
    with pytest.raises(DataLost, match="has changed"):
        stream(told(broker, topic)).partitions(start, end)
    lenient = stream(told(broker, topic, **LENIENT))
    assert rows_between(lenient, start, end) == [], "these offsets mean messages that are gone"
    later = lenient.latestOffset(end, None)
    assert rows_between(lenient, end, later) == list(range(1000, 1000 + OLD + 30))


def test_a_checkpoint_without_marks_opens_and_tells_a_queue_that_ends_before_it(broker: ApacheBroker) -> None:
    topic, checkpoint = archived(broker)
    old = {topic: checkpoint[topic]}
    with_times = {topic: checkpoint[topic], "@stored": checkpoint["@stored"]}
    reader = stream(told(broker, topic))
    assert reader.latestOffset(with_times, None) == with_times, "of a version that kept no places and no lives"
    assert reader.latestOffset(old, None) == old
    send(at(broker), numbered(topic, 5, OLD))
    later = reader.latestOffset(old, None)
    assert rows_between(reader, old, later) == list(range(OLD, OLD + 5))
    make_anew(broker, topic)
    with pytest.raises(DataLost, match="the queue ends at 0"):
        stream(told(broker, topic)).latestOffset(old, None)


def test_a_broker_with_an_empty_store_is_told() -> None:
    """``firearrow dev`` started again: other messages stand at the same offsets and places."""
    with Cluster() as first:
        topic = first.create_topic("orders", queues=1)
        send(first.address, numbered(topic, 50))
        reader = stream({"nameServer": first.address, "subscribe": topic, "startingOffsets": "earliest"})
        checkpoint = reader.latestOffset(reader.initialOffset(), None)
        close_links()
    with Cluster() as second:
        second.create_topic("orders", queues=1)
        send(second.address, numbered(topic, 75))
        reader = stream({"nameServer": second.address, "subscribe": topic})
        with pytest.raises(DataLost, match=r"another message stands at 49|the topic was created again"):
            reader.latestOffset(checkpoint, None)
        lenient = stream({"nameServer": second.address, "subscribe": topic, **LENIENT})
        assert rows_between(lenient, checkpoint, lenient.latestOffset(checkpoint, None)) == list(range(75))


def delete(broker: ApacheBroker, topic: str) -> None:
    """Delete a topic; return when name servers do not know it."""

    async def do() -> bool:
        async with Admin(at(broker)) as admin:
            await admin.topics.delete(topic)
            return await admin.brokers.route(topic) is None

    assert asyncio.run(do())
    close_links()


def test_a_deleted_topic_is_told_at_once(broker: ApacheBroker) -> None:
    topic, checkpoint = archived(broker)
    delete(broker, topic)
    begin = time.monotonic()
    with pytest.raises(DataLost, match=f"topic {topic} is deleted"):
        stream(told(broker, topic)).latestOffset(checkpoint, None)
    assert time.monotonic() - begin < 5


def test_a_deleted_topic_is_told_to_a_query_that_runs(broker: ApacheBroker) -> None:
    topic, checkpoint = archived(broker)
    reader = stream(told(broker, topic))
    assert reader.latestOffset(checkpoint, None) == checkpoint

    async def do() -> None:
        async with Admin(at(broker)) as admin:
            await admin.topics.delete(topic)

    asyncio.run(do())
    with pytest.raises(DataLost, match=f"topic {topic} is deleted"):
        reader.latestOffset(checkpoint, None)


def test_a_deleted_topic_does_not_stop_a_run_with_a_fixed_end(broker: ApacheBroker) -> None:
    """Trigger.AvailableNow, which is how ``pipeline archive`` runs without ``--every``."""
    topic, other = (broker.create_topic(fresh("deleted"), 1) for _ in range(2))
    send(at(broker), [*numbered(topic, 10), *numbered(other, 10, 100)])
    both = told(broker, f"{topic},{other}")
    reader = stream(both)
    start = reader.initialOffset()
    end = reader.latestOffset(start, None)
    delete(broker, topic)
    send(at(broker), numbered(other, 5, 110))

    strict = stream(both)
    strict.prepareForTriggerAvailableNow()
    with pytest.raises(DataLost, match=f"topic {topic} is deleted"):
        strict.latestOffset(end, None)
    lenient = stream({**both, **LENIENT})
    lenient.prepareForTriggerAvailableNow()
    send(at(broker), numbered(other, 5, 115))
    later = lenient.latestOffset(end, None)
    assert rows_between(lenient, end, later) == list(range(110, 115)), "the end of the run stays"

    with pytest.raises(DataLost, match=f"topic {topic} is deleted"):
        stream(both).partitions(start, end)
    assert rows_between(stream({**both, **LENIENT}), start, end) == list(range(100, 110)), "a repeated batch"


def test_a_run_with_a_fixed_end_fails_for_a_topic_without_a_broker() -> None:
    """It would end without rows of the topic, as if there were none."""
    checkpoint = {"orders": {"broker-gone": {"0": 5}}}
    with Cluster() as cluster:
        reader = stream({"nameServer": cluster.address, "subscribe": "orders"})
        reader.prepareForTriggerAvailableNow()
        with pytest.raises(NoRoute, match="no name server knows a broker of topic orders"):
            reader.latestOffset(checkpoint, None)
        assert (
            stream({"nameServer": cluster.address, "subscribe": "orders"}).latestOffset(checkpoint, None) == checkpoint
        )
    close_links()


def test_a_deleted_topic_does_not_stop_the_others(broker: ApacheBroker, caplog: pytest.LogCaptureFixture) -> None:
    topic, other = (broker.create_topic(fresh("deleted"), 1) for _ in range(2))
    send(at(broker), [*numbered(topic, 10), *numbered(other, 10, 100)])
    reader = stream(told(broker, f"{topic},{other}"))
    start = reader.latestOffset(reader.initialOffset(), None)
    delete(broker, topic)
    send(at(broker), numbered(other, 5, 110))

    lenient = stream(told(broker, f"{topic},{other}", **LENIENT))
    end = lenient.latestOffset(start, None)

    assert rows_between(lenient, start, end) == list(range(110, 115))
    assert lenient.latestOffset(end, None) == end
    assert [record.message for record in caplog.records if "is deleted" in record.message] == [
        f"data was lost, failOnDataLoss is false: topic {topic} is deleted; messages that were not read are gone"
    ]
    with pytest.raises(DataLost, match=f"topic {topic} is deleted"):
        stream(told(broker, f"{topic},{other}")).latestOffset(end, None)
    by_pattern = {"nameServer": at(broker), "subscribePattern": f"{topic}|{other}"}
    with pytest.raises(DataLost, match=f"topic {topic} is deleted"):
        stream(by_pattern).latestOffset(end, None)
