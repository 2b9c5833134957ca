"""`python -m benchmarks.spark.row_costs`: where the CPU time of a row goes, step by step, both ways.

Each step runs alone over the same rows, the cheapest of several rounds counts. Reading is pull (sockets, frames, the
task's own loop), decode (records to Arrow columns) and hand-over (batches that are ready in memory, read by Spark's
Python source and counted); *all of it* is a job of Spark over the topic, and includes its start. Writing is identities
and encoding, sending, and the same hand-over the other way.
"""

import argparse
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.spark.bare import Bare, Ready
from benchmarks.spark.cpu import Meter
from benchmarks.spark.places import fill, say
from benchmarks.spark.rows import SELECTED
from benchmarks.spark.worker import COLUMNS, SETTINGS
from firearrow.spark.link import link_of
from firearrow.spark.options import source_options
from firearrow.spark.session import open_session
from firearrow.spark.sink.rows import Origin
from firearrow.spark.sink.sender import Sender
from firearrow.spark.sink.shipments import RowTable
from firearrow.spark.sink.sink_options import sink_options
from firearrow.spark.sink.writer import FrozenQueues
from firearrow.spark.source.fetch import Fetch, Records
from firearrow.spark.source.plan import Span
from firearrow.spark.source.reader import chosen_bounds
from firearrow.spark.source.row_decoder import gaps, heads_of, joined, rows_of
from tests.spark.serving import Served, served

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROUNDS: Final = 3
TOPIC: Final = "costs"
TARGET: Final = "costs-written"
BATCH_ROWS: Final = 16_384


class Costs:
    """The steps of one size of body, with CPU in microseconds a row: their own with Spark's, and the broker's."""

    def __init__(self, broker: Served, spark: "SparkSession", body: int, rows: int, place: Path) -> None:
        self._broker = broker
        self._spark = spark
        self._rows = rows
        self._place = place / str(body)
        self._place.mkdir()
        self._topic = f"{TOPIC}-{body}"
        say(f"{rows} messages of {body} bytes")
        fill(broker.name_server, self._topic, body, rows)
        fill(broker.name_server, f"{TARGET}-{body}", body, 0)
        self._target = f"{TARGET}-{body}"
        self._options = source_options({"nameServer": broker.name_server, "subscribe": self._topic}, is_stream=False)
        self._records: list[Records] = []
        self._batches: list[pa.RecordBatch] = []

    def measure(self) -> Iterator[tuple[str, float, float]]:
        """Yield the name of each step and its costs."""
        steps: list[tuple[str, Callable[[], None]]] = [
            ("pull", self._pull),
            ("decode", self._decode),
            ("hand-over to Spark", self._hand_over),
            ("read, all of it", self._read),
            ("hand-over to Python", self._take),
            ("identities and encoding", self._encode),
            ("write, all of it", self._write),
        ]
        for name, step in steps:
            say(name)
            found = [self._measured(step) for _ in range(ROUNDS)]
            yield name, *min(found)

    def _measured(self, step: Callable[[], None]) -> tuple[float, float]:
        with Meter(self._broker.pid) as meter:
            step()
        figures = meter.figures()
        brokers = figures["broker_cpu_s"]  # it runs below this process
        return (figures["spark_cpu_s"] - brokers) * 1e6 / self._rows, brokers * 1e6 / self._rows

    def _pull(self) -> None:
        link = link_of(self._options.connection, self._options.fetching)
        bounds = chosen_bounds(link, self._options)
        spans = [Span(queue, *each) for queue, each in sorted(bounds.items())]
        fetch, found = Fetch(link, spans, self._options.fetching), []
        decoding = self._options.decoding
        while records := link.portal.call(fetch.next(decoding.batch_rows, decoding.batch_bytes)):
            found += records
        self._records = found

    def _decode(self) -> None:
        decoding, made = self._options.decoding, []
        for answers in joined(self._records, decoding.batch_bytes):
            heads = heads_of(answers)
            assert not gaps(answers, heads)
            made += list(rows_of(heads, COLUMNS, {}, answers[0].span.queue.broker_name, decoding))
        assert sum(batch.num_rows for batch in made) == self._rows
        self._batches = made

    def _hand_over(self) -> None:
        path = self._place / "ready.arrow"
        if not path.exists():
            with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, self._batches[0].schema) as writer:
                for batch in self._batches:
                    writer.write_batch(batch)
        ready = self._spark.read.format(Ready.name()).schema(SELECTED).load(str(path))
        ready.write.format("noop").mode("overwrite").save()

    def _read(self) -> None:
        reader = self._spark.read.format("rocketmq").schema(SELECTED)
        topic = reader.option("nameServer", self._broker.name_server).option("subscribe", self._topic).load()
        topic.write.format("noop").mode("overwrite").save()

    def _made(self) -> Path:
        """Rows for the sink, as Parquet."""
        path = self._place / "made"
        if not path.exists():
            columns = "keys string, body binary"
            reader = self._spark.read.format("rocketmq").schema(columns)
            topic = reader.option("nameServer", self._broker.name_server).option("subscribe", self._topic).load()
            topic.write.parquet(str(path))
        return path

    def _take(self) -> None:
        rows = self._spark.read.parquet(str(self._made()))
        rows.write.format(Bare.name()).mode("append").save()

    def _encode(self) -> None:
        options = sink_options({"nameServer": self._broker.name_server, "topic": self._target})
        frozen = FrozenQueues(options, ["body", "keys"])
        frozen.__getstate__()
        sender, ordinal = Sender(options, frozen.queues), 0
        link = link_of(self._options.connection, self._options.fetching)
        link.portal.call(sender.open())
        for batch in pq.read_table(self._made()).to_batches(BATCH_ROWS):
            table = RowTable(batch, options.shape, Origin("costs", 0, 0), ordinal)
            ordinal += len(table)
            queues, drawn = link.portal.call(sender.begin(table.topics, len(table)))
            table.lanes(queues, drawn, sender.most_bytes)
        link.portal.call(sender.close())

    def _write(self) -> None:
        rows = self._spark.read.parquet(str(self._made()))
        to = {"nameServer": self._broker.name_server, "topic": self._target}
        rows.write.format("rocketmq").options(**to).mode("append").save()


def main() -> None:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=500_000, help="rows of 100 bytes; of 1 KiB it is a quarter")
    count = parser.parse_args().rows
    os.environ["PYSPARK_PYTHON"] = sys.executable
    with tempfile.TemporaryDirectory(prefix="costs") as directory, served(Path(directory) / "store") as broker:
        spark = open_session("local[2]", SETTINGS, "row costs")
        spark.dataSource.register(Bare)
        spark.dataSource.register(Ready)
        print("| step | body | CPU us a row | broker's CPU us a row |\n|---|---|---|---|")
        for body, rows in ((100, count), (1024, count // 4)):
            for name, own, brokers in Costs(broker, spark, body, rows, Path(directory)).measure():
                print(f"| {name} | {body} | {own:.2f} | {brokers:.2f} |", flush=True)
        spark.stop()


if __name__ == "__main__":
    main()
