"""Consumers get the messages of the sink's batches one by one: at Apache's brokers of both versions and at ours."""

import pickle
from collections import Counter

import pyarrow as pa
import pytest

from firearrow.model import StoredMessage
from firearrow.spark.sink.rows import ROW_ID_PROPERTY, Origin
from firearrow.spark.sink.sink_options import sink_options
from firearrow.spark.sink.writer import FrozenQueues, SendCommit
from judges import ApacheBroker, FireArrowBroker, Judge, Payload, fresh
from judges.server_process import wait_for
from tests.interop.client.ours import report
from tests.spark.serving import held

pytestmark = [pytest.mark.apache, pytest.mark.real]

COUNT = 300
TAGS = ["A", "B"]
STRINGS = pa.map_(pa.string(), pa.string())


def rows(payload: Payload, **more: pa.Array) -> pa.RecordBatch:
    numbers = range(COUNT)
    columns = {
        "body": pa.array([payload.body(number) for number in numbers]),
        "keys": pa.array([payload.key(number) for number in numbers]),
        "tags": pa.array([TAGS[number % 2] for number in numbers]),
        "row_id": pa.array([f"row-{number}" for number in numbers]),
        "properties": pa.array([[("number", str(number)), ("ключ", "ü")] for number in numbers], STRINGS),
    }
    return pa.RecordBatch.from_pydict(columns | more)


def write(broker: ApacheBroker, topic: str, batch: pa.RecordBatch, **options: str) -> SendCommit:
    given = {"nameServer": broker.name_servers[0], "topic": topic, **options}
    shipped = pickle.loads(pickle.dumps(FrozenQueues(sink_options(given), batch.schema.names)))
    assert isinstance(shipped, FrozenQueues)
    return shipped.write(iter([batch]), Origin("q", 0, 0))


def test_consumers_get_the_rows_one_by_one(broker: ApacheBroker, java: Judge) -> None:
    topic, payload = broker.create_topic(fresh("sunk")), Payload(fresh("spark"))
    sent = write(broker, topic, rows(payload), batchBytes="10000")
    assert sent.rows == COUNT
    assert sent.requests < COUNT / 5, "they travelled in batches"
    expected = report(payload, COUNT, TAGS)
    received = java.receive(topic, COUNT)
    received.assert_exactly(expected)
    received.assert_tags_and_keys(expected)
    java.receive(topic, COUNT // 2, expression="A").assert_exactly(expected.where(lambda number: number % 2 == 0))


def test_every_property_is_there_and_repeats_go_to_the_same_queue(broker: ApacheBroker) -> None:
    topic, payload = broker.create_topic(fresh("sunk")), Payload(fresh("spark"))
    for _ in range(2):
        write(broker, topic, rows(payload))
    copies = 1 if isinstance(broker, FireArrowBroker) else 2  # ours answers a repeat with its first copy
    found = dict[tuple[int, int], StoredMessage]()

    def has_all() -> bool:
        found.update(held(broker.name_servers[0], topic))
        return len(found) >= copies * COUNT

    wait_for(has_all, "the broker to show the rows in its queues")  # Apache's broker fills them after it has answered
    places = Counter((queue, message.properties[ROW_ID_PROPERTY]) for (queue, _), message in found.items())
    assert len(places) == COUNT
    assert set(places.values()) == {copies}
    assert len({message.properties["UNIQ_KEY"] for message in found.values()}) == copies * COUNT
    for queue in {queue for queue, _ in found}:
        numbers = [int(message.properties["number"]) for (at, _), message in sorted(found.items()) if at == queue]
        first = numbers[: len(numbers) // copies]
        assert numbers == copies * sorted(first), "rows of a queue keep their order"
    for message in found.values():
        number = int(message.properties["number"])
        own = {"number", "ключ", "KEYS", "TAGS", ROW_ID_PROPERTY}
        assert message.body == payload.body(number)
        assert {name: value for name, value in message.properties.items() if name in own} == {
            "number": str(number),
            "ключ": "ü",
            "KEYS": payload.key(number),
            "TAGS": TAGS[number % 2],
            ROW_ID_PROPERTY: f"row-{number}",
        }


def test_delayed_rows_travel_alone_among_the_others(broker: ApacheBroker, java: Judge) -> None:
    topic, payload = broker.create_topic(fresh("sunk")), Payload(fresh("spark"))
    levels = pa.array([1 if number % 50 == 0 else 0 for number in range(COUNT)], pa.int32())
    sent = write(broker, topic, rows(payload, delay_level=levels))
    assert sent.requests > COUNT / 50
    received = java.receive(topic, COUNT)
    received.assert_exactly(report(payload, COUNT, TAGS))
    late = [message for message in received.messages if message.stored_ms - message.born_ms >= 900]
    assert len(late) == COUNT / 50
