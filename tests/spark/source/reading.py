"""Reading as Spark does, without Spark: plan on one side, ship what a task gets, read on the other."""

import pickle
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from firearrow.blocking import Message, Producer, PullConsumer
from firearrow.spark.options import source_options, store_options
from firearrow.spark.schema import NAMES
from firearrow.spark.source.reader import SpanPartition, TopicsReader
from firearrow.spark.source.store_files import StoreReader
from firearrow.spark.source.stream import TopicsStreamReader

PATIENCE_S = 60.0


def wait_until(is_so: Callable[[], bool], what: str) -> None:
    """Look again and again."""
    until = time.monotonic() + PATIENCE_S
    while not is_so():
        assert time.monotonic() < until, f"in vain: {what}"
        time.sleep(0.02)


def send(address: str, messages: Sequence[Message]) -> None:
    """Send, and wait until queues show it: Apache builds them behind the log."""
    topics = {message.topic for message in messages}
    with PullConsumer(address, group="reading-test") as looker, Producer(address, group="sending-test") as producer:
        before = {topic: _rows(looker, topic) for topic in topics}
        for at in range(0, len(messages), 30):
            producer.send_batch(messages[at : at + 30])
        for topic in topics:
            wanted = before[topic] + sum(message.topic == topic for message in messages)
            wait_until(lambda topic=topic, wanted=wanted: _rows(looker, topic) >= wanted, f"{wanted} rows in {topic}")  # type: ignore[misc]


def _rows(looker: PullConsumer, topic: str) -> int:
    return sum(bounds.end for bounds in looker.bounds(topic).values())


def numbered(topic: str, count: int, start: int = 0) -> list[Message]:
    """Messages whose bodies are numbers, with tags A, B and C in turn, and keys."""
    return [
        Message.of(topic, b"%d" % each, tag="ABC"[each % 3], keys=[f"k{each}"], properties={"a": str(each % 10)})
        for each in range(start, start + count)
    ]


def table_of(batches: Sequence[pa.RecordBatch], columns: Sequence[str]) -> dict[str, list[Any]]:
    """Rows by column."""
    if not batches:
        return {name: [] for name in columns}
    found: dict[str, list[Any]] = pa.Table.from_batches(batches).to_pydict()
    return found


def read(options: Mapping[str, str], columns: Sequence[str] = NAMES) -> dict[str, list[Any]]:
    """Topics in one job."""
    reader = TopicsReader(source_options(options, is_stream=False), tuple(columns))
    shipped = pickle.loads(pickle.dumps(reader))
    parts = pickle.loads(pickle.dumps(reader.partitions()))
    return table_of([batch for part in parts for batch in shipped.read(part)], columns)


def numbers(options: Mapping[str, str]) -> list[int]:
    """The bodies as numbers, sorted."""
    return sorted(int(body) for body in read(options, ["body"])["body"])


def parts(options: Mapping[str, str]) -> list[SpanPartition]:
    """The tasks of a job."""
    found = TopicsReader(source_options(options, is_stream=False), ("body",)).partitions()
    return [part for part in found if isinstance(part, SpanPartition)]


def stream(options: Mapping[str, str], columns: Sequence[str] = ("body",)) -> TopicsStreamReader:
    """A stream's reader, as it lives on the driver."""
    return TopicsStreamReader(source_options(options, is_stream=True), tuple(columns))


def rows_between(reader: TopicsStreamReader, start: Any, end: Any) -> list[int]:
    """The bodies of a micro-batch as numbers, sorted."""
    found = [batch for part in reader.partitions(start, end) for batch in pickle.loads(pickle.dumps(reader)).read(part)]
    return sorted(int(body) for body in table_of(found, ["body"])["body"])


def read_store(options: Mapping[str, str], columns: Sequence[str] = NAMES) -> dict[str, list[Any]]:
    """Store files in one job."""
    reader = StoreReader(store_options(options), tuple(columns))
    shipped = pickle.loads(pickle.dumps(reader))
    planned = pickle.loads(pickle.dumps(reader.partitions()))
    return table_of([batch for part in planned for batch in shipped.read(part)], columns)
