"""Queues that a topic has lost by shrinking: a stream and a job read every row of them, at our broker and Apache's."""

import asyncio

import pytest

from firearrow.admin import Admin
from firearrow.blocking import PullConsumer
from firearrow.spark.link import close_links
from firearrow.spark.source.reader import DataLost
from judges import ApacheBroker, fresh
from tests.spark.source.reading import numbered, numbers, rows_between, send, stream, wait_until

pytestmark = [pytest.mark.apache, pytest.mark.real]

ROWS = 200


def at(broker: ApacheBroker) -> str:
    return broker.name_servers[0]


def told(broker: ApacheBroker, topic: str, **more: str) -> dict[str, str]:
    return {"nameServer": at(broker), "subscribe": topic, "startingOffsets": "earliest", **more}


def with_queues(broker: ApacheBroker, topic: str, count: int) -> None:
    """Give a topic another number of queues; return when routes show it."""

    async def change() -> None:
        async with Admin(at(broker)) as admin:
            await admin.topics.update(topic, queues=count)

    asyncio.run(change())
    with PullConsumer(at(broker), group="hidden-test", poll_name_server_ms=100) as looker:
        wait_until(lambda: len(looker.queues(topic)) == count, f"{count} queues of {topic}")


def filled(broker: ApacheBroker, queues: int = 4) -> str:
    topic = broker.create_topic(fresh("hidden"), queues)
    send(at(broker), numbered(topic, ROWS))
    return topic


def test_a_stream_reads_what_a_shrink_has_hidden(broker: ApacheBroker) -> None:
    topic = filled(broker)
    start = stream(told(broker, topic)).initialOffset()
    close_links()
    with_queues(broker, topic, 1)
    send(at(broker), numbered(topic, 30, ROWS))

    reader = stream(told(broker, topic))
    end = reader.latestOffset(start, None)

    assert rows_between(reader, start, end) == list(range(ROWS + 30))
    assert reader.latestOffset(end, None) == end


def test_a_stream_with_a_new_checkpoint_and_a_job_read_it_too(broker: ApacheBroker) -> None:
    topic = filled(broker, queues=6)
    with_queues(broker, topic, 2)

    reader = stream(told(broker, topic, tags="A || B"))
    start = reader.initialOffset()

    wanted = list(range(ROWS))
    assert numbers(told(broker, topic)) == wanted
    assert rows_between(reader, start, reader.latestOffset(start, None)) == [each for each in wanted if each % 3 != 2]


def test_times_and_offsets_choose_rows_of_hidden_queues(broker: ApacheBroker) -> None:
    topic = filled(broker)
    with_queues(broker, topic, 1)

    held = stream(told(broker, topic)).latestOffset(None, None)[topic][broker.name]

    assert sorted(held) == ["0", "1", "2", "3"]
    of_two = numbers(
        {**told(broker, topic), "startingOffsets": f'{{"{topic}": {{"{broker.name}": {{"2": {held["2"]}}}}}}}'}
    )
    assert len(of_two) == ROWS - held["2"]
    assert numbers(
        {**told(broker, topic), "startingOffsets": "", "startingTimestamp": "2020-01-01T00:00:00+00:00"}
    ) == list(range(ROWS))


def test_a_topic_that_grows_and_shrinks_is_read_once(broker: ApacheBroker) -> None:
    topic = broker.create_topic(fresh("hidden"), 2)
    reader = stream(told(broker, topic, maxOffsetsPerTrigger="37"))
    start, seen, sent = reader.initialOffset(), [], 0
    for queues in (5, 1, 3, 2, 6, 1):
        send(at(broker), numbered(topic, 60, sent))
        sent += 60
        with_queues(broker, topic, queues)
        end = reader.latestOffset(start, None)
        seen += rows_between(reader, start, end)
        start = end
    while (end := reader.latestOffset(start, None)) != start:
        seen += rows_between(reader, start, end)
        start = end
    assert sorted(seen) == list(range(sent))


def test_a_queue_that_is_gone_with_its_topic_is_told(broker: ApacheBroker) -> None:
    """A topic made again with fewer queues: the others had messages, and the log has them no longer."""
    topic = filled(broker)
    reader = stream(told(broker, topic))
    end = reader.latestOffset(reader.initialOffset(), None)
    close_links()

    async def delete() -> None:
        async with Admin(at(broker)) as admin:
            await admin.topics.delete(topic)

    asyncio.run(delete())
    broker.create_topic(topic, 1)
    with PullConsumer(at(broker), group="hidden-test", poll_name_server_ms=100) as looker:
        wait_until(lambda: [each.end for each in looker.bounds(topic).values()] == [0], "an empty queue")

    with pytest.raises(DataLost, match="queue 3 has changed"):
        stream(told(broker, topic)).latestOffset(end, None)
