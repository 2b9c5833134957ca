"""The sink against a real broker: without Spark where Spark adds nothing, and through it."""

import pickle
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql.types import BinaryType, StringType, StructField, StructType

from firearrow.errors import NoRoute, SendFailed, SettingsError, Unsupported
from firearrow.spark.sink.rows import ROW_ID_PROPERTY, Origin
from firearrow.spark.sink.sink_options import sink_options
from firearrow.spark.sink.writer import BatchWriter, FrozenQueues, StreamWriter
from tests.spark.serving import Served, held, served

ORIGIN = Origin("q", 0, 0)
SCHEMA = StructType([StructField("body", BinaryType()), StructField("sharding_key", StringType())])


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(tmp_path_factory.mktemp("broker")) as running:
        yield running


def batches(count: int, rows: int = 500, body: bytes = b"") -> Iterator[pa.RecordBatch]:
    for start in range(0, count, rows):
        numbers = range(start, min(start + rows, count))
        yield pa.RecordBatch.from_pydict(
            {"body": [b"%d" % number + body for number in numbers], "keys": [f"k{number}" for number in numbers]}
        )


def shipped(options: dict[str, str]) -> FrozenQueues:
    """As a task gets it."""
    copy = pickle.loads(pickle.dumps(FrozenQueues(sink_options(options), ["body", "keys"])))
    assert isinstance(copy, FrozenQueues)
    return copy


def test_every_row_is_stored_once_and_in_order_of_its_queue(broker: Served) -> None:
    writer = shipped({"nameServer": broker.name_server, "topic": "plain", "batchBytes": "20000"})
    assert len(writer.queues["plain"]) == 4, "the queues are fixed when the writer is shipped"
    sent = writer.write(batches(3000), ORIGIN)
    assert sent.rows == 3000
    assert sent.requests >= 8, "every queue has some requests"
    found = held(broker.name_server, "plain")
    assert sorted(int(message.body) for message in found.values()) == list(range(3000))
    for queue in range(4):
        bodies = [int(message.body) for (number, _), message in sorted(found.items()) if number == queue]
        assert bodies == sorted(bodies)
        assert bodies
    ids = {message.properties[ROW_ID_PROPERTY] for message in found.values()}
    assert len(ids) == 3000


def test_rows_travel_in_few_requests_with_all_their_parts(broker: Served) -> None:
    count = 40_000
    rows = pa.RecordBatch.from_pydict(
        {
            "body": [f"body {number}" for number in range(count)],
            "keys": [[f"k{number}", "all"] for number in range(count)],
            "tags": [None if number % 3 else "third" for number in range(count)],
            "properties": pa.array(
                [[("n", str(number)), ("TAGS", "kept")] for number in range(count)], pa.map_("string", "string")
            ),
            "row_id": [f"id-{number}" for number in range(count)],
        }
    )
    writer = shipped({"nameServer": broker.name_server, "topic": "parts"})
    sent = writer.write(iter([rows]), ORIGIN)
    assert sent.rows == count
    assert sent.requests < count / 500
    found = held(broker.name_server, "parts")
    assert len(found) == count
    assert len({message.properties["UNIQ_KEY"] for message in found.values()}) == count
    for message in found.values():
        number = int(message.properties["n"])
        assert message.body == b"body %d" % number
        assert message.properties["KEYS"] == f"k{number} all"
        assert message.properties["TAGS"] == ("kept" if number % 3 else "third")
        assert message.properties[ROW_ID_PROPERTY] == f"id-{number}"


@pytest.mark.parametrize("repeats", ["keep", "drop"])
def test_a_repeat_sends_the_same_identities_to_the_same_queues(broker: Served, repeats: str) -> None:
    options = {"nameServer": broker.name_server, "topic": f"twice-{repeats}", "repeats": repeats}
    for step in (500, 30):  # the repeat has other batches
        shipped(options).write(batches(200, step), ORIGIN)
    alone = {"delay_level": pa.array([1], pa.int32()), "body": [b"alone"]}
    for _ in range(2):
        shipped(options).write(iter([pa.RecordBatch.from_pydict(alone)]), Origin("q", 1, 0))
    found = held(broker.name_server, f"twice-{repeats}")
    places = Counter((queue, message.properties[ROW_ID_PROPERTY]) for (queue, _), message in found.items())
    assert len(places) >= 200
    assert set(places.values()) == ({2} if repeats == "keep" else {1})


def test_a_broker_that_is_killed_costs_time_and_no_rows(tmp_path: Path) -> None:
    with served(tmp_path) as mortal:
        shipped({"nameServer": mortal.name_server, "topic": "mortal"}).write(batches(1), Origin("first", 0, 0))
        writer = shipped({"nameServer": mortal.name_server, "topic": "mortal", "batchBytes": "4000"})
        first_sent = threading.Event()

        def slowly() -> Iterator[pa.RecordBatch]:
            for number, batch in enumerate(batches(4000)):
                if number == 3:
                    first_sent.set()
                yield batch

        def cut() -> None:
            first_sent.wait()
            mortal.kill()
            mortal.start()

        cutting = threading.Thread(target=cut)
        cutting.start()
        writer.write(slowly(), ORIGIN)
        cutting.join()
        found = held(mortal.name_server, "mortal").values()
        ids = {(each.properties[ROW_ID_PROPERTY], each.properties["UNIQ_KEY"]) for each in found}
    assert len({identity for identity, _ in ids}) == len(found) == 4001, "every row is stored once"


def test_failures_are_typed(broker: Served, tmp_path: Path) -> None:
    with served(tmp_path) as gone:
        writer = shipped(
            {"nameServer": gone.name_server, "topic": "gone", "retryTimeoutMs": "300", "sendTimeoutMs": "200"}
        )
    with pytest.raises((SendFailed, NoRoute)):
        writer.write(batches(10), ORIGIN)
    with pytest.raises(Unsupported, match="cannot be overwritten"):
        BatchWriter({"nameServer": broker.name_server, "topic": "x"}, SCHEMA, True)
    with pytest.raises(SettingsError, match="needs a topic"):
        StreamWriter({"nameServer": broker.name_server}, SCHEMA, False)


def test_the_rate_is_kept(broker: Served) -> None:
    writer = shipped({"nameServer": broker.name_server, "topic": "slow", "rateLimit": "1000"})
    began = time.monotonic()
    writer.write(batches(1000), ORIGIN)
    assert time.monotonic() - began > 0.85, "1,000 messages at 1,000 a second"
