"""A topic that one of its brokers shows no longer: its rows are read, or the loss is told, never passed over."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from typing import NamedTuple

import pytest

from firearrow.admin import Admin
from firearrow.model.flags import PERM_READ, PERM_WRITE
from firearrow.protocol.requests.admin.topic import DeleteTopicInBroker, UpdateAndCreateTopic
from firearrow.spark.link import close_links
from firearrow.spark.source.reader import DataLost
from judges import ApacheBroker, fresh
from tests.spark.source.conftest import APACHE, OURS
from tests.spark.source.reading import PATIENCE_S, numbered, numbers, rows_between, send, stream
from tests.spark.topic_changes import serving

pytestmark = [pytest.mark.apache, pytest.mark.real]

ROWS = 200
BROKER = "broker-b"
LENIENT = {"failOnDataLoss": "false"}


class Place(NamedTuple):
    """A topic with queues on two brokers."""

    address: str
    topic: str


@pytest.fixture(scope="module", params=[OURS, APACHE])
def brokers(request: pytest.FixtureRequest) -> Iterator[list[ApacheBroker]]:
    with serving(request.param) as made:
        yield made


@pytest.fixture
def place(brokers: list[ApacheBroker]) -> Place:
    topic = fresh("orders")
    for broker in brokers:
        broker.create_topic(topic, 2)
    made = Place(brokers[0].name_servers[0], topic)
    send(made.address, numbered(topic, ROWS))
    return made


def told(place: Place, **more: str) -> dict[str, str]:
    return {"nameServer": place.address, "subscribe": place.topic, "startingOffsets": "earliest", **more}


def do(place: Place, act: Callable[[Admin, str], Awaitable[None]], *, is_routed: bool = True) -> None:
    """Change the topic, and wait until its route has changed, if that tells the change; streams begin anew then."""

    async def run() -> None:
        async with Admin(place.address) as admin:
            before = await admin.brokers.route(place.topic)
            await act(admin, place.topic)
            async with asyncio.timeout(PATIENCE_S):
                while is_routed and await admin.brokers.route(place.topic) == before:  # noqa: ASYNC110
                    await asyncio.sleep(0.02)

    asyncio.run(run())
    close_links()


async def without_queues(admin: Admin, topic: str) -> None:
    """Leave the topic without queues on one broker."""
    master = next(each for each in await admin.brokers.masters() if each.name == BROKER)
    request = UpdateAndCreateTopic(
        topic=topic,
        default_topic="TBW102",
        read_queue_nums=0,
        write_queue_nums=0,
        perm=PERM_READ | PERM_WRITE,
        topic_filter_type="SINGLE_TAG",
        order=False,
    )
    await admin.brokers.ask(master.at, request)


async def deleted(admin: Admin, topic: str) -> None:
    """Delete the topic on one broker."""
    master = next(each for each in await admin.brokers.masters() if each.name == BROKER)
    await admin.brokers.ask(master.at, DeleteTopicInBroker(topic=topic))


def permitted(perm: int) -> Callable[[Admin, str], Awaitable[None]]:
    """Change the permission of the topic on one broker."""
    return lambda admin, topic: admin.topics.update(topic, broker=BROKER, perm=perm)


def rows_of_broker(place: Place, start: dict[str, object]) -> set[int]:
    """The rows that the broker has."""
    reader = stream(told(place))
    end = reader.latestOffset(start, None)
    kept = {**end, place.topic: {**end[place.topic], BROKER: start[place.topic][BROKER]}}  # type: ignore[index]
    return set(range(ROWS)) - set(rows_between(reader, start, kept))


def test_a_broker_on_which_the_topic_has_no_queues_is_read(place: Place) -> None:
    start = stream(told(place)).initialOffset()
    do(place, without_queues)
    reader = stream(told(place))
    assert rows_between(reader, start, reader.latestOffset(start, None)) == list(range(ROWS))
    assert numbers(told(place)) == list(range(ROWS))


def test_a_broker_that_permits_no_writes_is_read(place: Place) -> None:
    start = stream(told(place)).initialOffset()
    do(place, permitted(PERM_READ))
    reader = stream(told(place))
    assert rows_between(reader, start, reader.latestOffset(start, None)) == list(range(ROWS))
    assert numbers(told(place)) == list(range(ROWS))


def test_a_broker_that_permits_no_reads_is_told(place: Place, caplog: pytest.LogCaptureFixture) -> None:
    start = stream(told(place)).initialOffset()
    there = rows_of_broker(place, start)
    end = stream(told(place)).latestOffset(start, None)
    assert there
    do(place, permitted(PERM_WRITE))
    named = rf"{place.topic} on {BROKER}, queue 0 may not be read, and its messages from 0 on are unread"
    with pytest.raises(DataLost, match=named):
        stream(told(place)).latestOffset(start, None)
    with pytest.raises(DataLost, match=named):
        stream(told(place)).partitions(start, end)
    with pytest.raises(DataLost, match=named):
        numbers(told(place))

    others = sorted(set(range(ROWS)) - there)
    lenient = stream(told(place, **LENIENT))
    later = lenient.latestOffset(start, None)
    assert rows_between(lenient, start, later) == others
    assert numbers(told(place, **LENIENT)) == others
    assert lenient.latestOffset(later, None) == later
    assert any("may not be read" in record.message for record in caplog.records)

    do(place, permitted(PERM_READ | PERM_WRITE))
    strict = stream(told(place))
    assert rows_between(strict, later, strict.latestOffset(later, None)) == sorted(there), "its offsets were kept"


@pytest.mark.parametrize("is_new", [True, False], ids=["started again", "running"])
def test_a_topic_that_is_deleted_on_one_broker_is_told(place: Place, is_new: bool) -> None:
    reader, running = stream(told(place)), stream(told(place, **LENIENT))
    start = reader.initialOffset()
    there = rows_of_broker(place, start)
    do(place, deleted, is_routed=False)
    if is_new:
        reader, running = stream(told(place)), stream(told(place, **LENIENT))
    with pytest.raises(DataLost, match=f"topic {place.topic} is deleted on {BROKER}"):
        reader.latestOffset(start, None)
    end = running.latestOffset(start, None)
    assert rows_between(running, start, end) == sorted(set(range(ROWS)) - there)
