"""The sink: rows of a batch or a stream -> messages of a topic, at least once.

    frame.write.format("rocketmq").option("nameServer", "host:9876").option("topic", "orders").mode("append").save()

The promise: when a batch is committed, a broker has acknowledged every row of it. A repeated task or batch sends its
rows again. Each message carries the identity of its row in a property (``FIREARROW_ROW_ID``) and goes to a queue that
follows from the identity, so that the consumer of that queue can drop repeated rows. The list of queues is fixed when
Spark ships the writer to its tasks, once a batch, so that all tasks and their repetitions choose the same queues (each
task looks up topics that are named by a column).

Rows of one partition that share a queue are stored in their order: a queue has one request in flight at a time; many
queues are written at once. While requests are in flight the next rows are encoded, by columns.
"""

import asyncio
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

from firearrow.client import MessageQueue
from firearrow.errors import FireArrowError, Unsupported
from firearrow.runtime.portal import Portal
from firearrow.spark.reach import require_checked_accounts
from firearrow.spark.sink.rows import Origin
from firearrow.spark.sink.sender import Sender, producer_for
from firearrow.spark.sink.shipments import RowTable
from firearrow.spark.sink.sink_options import SinkOptions, sink_options

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

MOST_ROWS: Final = 16_384
"""Rows that are encoded at once."""
RATE_STEP_S: Final = 0.1


@dataclass
class SendCommit(WriterCommitMessage):
    """The commit message of one task: what it sent."""

    rows: int
    requests: int


class FrozenQueues:
    """The options of a write, and the queues of its topic as they are when Spark ships the writer to its tasks."""

    def __init__(self, options: SinkOptions, names: Sequence[str]) -> None:
        options.shape.check(names)
        self.options = options
        self.queues: dict[str, tuple[MessageQueue, ...]] = {}

    def __getstate__(self) -> dict[str, Any]:
        # Pickled once a batch on the driver. The copy that only commits is never pickled and looks up no queues.
        if self.options.shape.topic and not self.queues:
            self.queues = {self.options.shape.topic: asyncio.run(_queues_now(self.options))}
        return self.__dict__

    def write(self, batches: "Iterator[pa.RecordBatch]", origin: Origin) -> SendCommit:
        """Send the rows of one partition."""
        with Portal("firearrow sink") as portal:
            sender = Sender(self.options, self.queues)
            portal.call(sender.open())
            try:
                rows = self._write(portal, sender, batches, origin)
            finally:
                portal.call(sender.close())
        return SendCommit(rows, sender.requests)

    def _write(self, portal: Portal, sender: Sender, batches: "Iterator[pa.RecordBatch]", origin: Origin) -> int:
        rows, under_way = 0, portal.spawn(sender.send([]))
        for batch in _parts(batches, self.options.rate_limit):
            table = RowTable(batch, self.options.shape, origin, rows)
            rows += len(table)
            queues, drawn = portal.call(sender.begin(table.topics, len(table)))
            lanes = table.lanes(queues, drawn, sender.most_bytes)
            under_way.result()
            under_way = portal.spawn(sender.send(lanes))
        under_way.result()
        return rows


def _parts(batches: "Iterator[pa.RecordBatch]", rate: float) -> "Iterator[pa.RecordBatch]":
    """Yield the rows in batches of limited size, or by time if their rate is limited."""
    step = min(MOST_ROWS, max(1, int(rate * RATE_STEP_S))) if rate else MOST_ROWS
    for batch in batches:
        for start in range(0, batch.num_rows, step):
            yield batch.slice(start, step)


class BatchWriter(DataSourceArrowWriter):
    """Writes a DataFrame once."""

    def __init__(self, options: Mapping[str, str], schema: "StructType", overwrite: bool) -> None:
        if overwrite:
            raise Unsupported("a topic cannot be overwritten: use mode('append')")
        self._frozen = FrozenQueues(sink_options(options), schema.fieldNames())
        self._job = self._frozen.options.job_id or f"write-{random.Random().getrandbits(64):016x}"

    def write(self, iterator: "Iterator[pa.RecordBatch]") -> SendCommit:
        """Send the rows of one partition, on an executor."""
        return self._frozen.write(iterator, Origin(self._job, 0, _task_partition()))


class StreamWriter(DataSourceStreamArrowWriter):
    """Writes the batches of a streaming query."""

    def __init__(self, options: Mapping[str, str], schema: "StructType", overwrite: bool) -> None:  # noqa: ARG002
        self._frozen = FrozenQueues(sink_options(options), schema.fieldNames())

    def write(self, iterator: "Iterator[pa.RecordBatch]") -> SendCommit:
        """Send the rows of one partition of a batch, on an executor."""
        query, batch = streaming_place()
        return self._frozen.write(iterator, Origin(query, batch, _task_partition()))

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's name
        """Do nothing: brokers have acknowledged all rows already."""

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's name
        """Do nothing: sent messages stay, and a repeated batch sends them again with the same identities."""


def streaming_place() -> tuple[str, int]:
    """Return the query and batch of this task."""
    from pyspark import TaskContext

    task = TaskContext.get()
    if task is None:
        raise FireArrowError("this runs outside a Spark task")
    query = task.getLocalProperty("sql.streaming.queryId")
    batch = task.getLocalProperty("streaming.sql.batchId")
    if query is None or batch is None:
        raise FireArrowError("Spark did not say which batch of which query this task belongs to")
    return query, int(batch)


def _task_partition() -> int:
    from pyspark import TaskContext

    task = TaskContext.get()
    return 0 if task is None else task.partitionId()


async def _queues_now(options: SinkOptions) -> tuple[MessageQueue, ...]:
    async with producer_for(options) as producer:
        queues = await producer.queues(options.shape.topic)
    await require_checked_accounts(options.connection, [options.shape.topic])
    return queues
