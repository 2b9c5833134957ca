"""The sink: rows of a batch or a stream -> messages of a topic, at least once.

    frame.write.format("rocketmq").option("nameServer", "host:9876").option("topic", "orders").mode("append").save()

What is promised: when a batch is committed, a broker has acknowledged every row of it. A task or a batch that is
repeated sends its rows again. Each message carries the identity of its row in a property (``FIREARROW_ROW_ID``), and
goes to a queue that follows from the identity, so that whoever consumes that queue can absorb the repeats. The list of
queues is fixed when Spark ships the writer to its tasks, once a batch, so that all tasks and their repeats choose alike
(topics named by a column are looked up by each task).

Rows of one partition that share a queue are stored in their order: a queue has one request under way at a time, and
many queues are written at once. While one chunk of rows is on its way the next is made into messages.
"""

import asyncio
import random
from collections.abc import Coroutine, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

from firearrow.client import Message, MessageQueue, Producer
from firearrow.client.producer.outgoing import weight
from firearrow.errors import FireArrowError, SendFailed, Unsupported
from firearrow.runtime.portal import Portal
from firearrow.spark.reach import client_tls, require_checked_accounts
from firearrow.spark.rows import Lane, Origin, Row, lanes_of, messages_of
from firearrow.spark.sinkoptions import SinkOptions, sink_options

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

FIRST_PAUSE_S: Final = 0.1
LONGEST_PAUSE_S: Final = 3.0
RATE_STEP_S: Final = 0.1


@dataclass
class Sent(WriterCommitMessage):
    """What one task sent."""

    rows: int
    requests: int


class FrozenQueues:
    """The options of a write, and the queues of its topic as they are when Spark ships the writer to its tasks."""

    def __init__(self, options: SinkOptions, names: Sequence[str]) -> None:
        options.shape.check(names)
        self.options = options
        self.queues: dict[str, tuple[MessageQueue, ...]] = {}

    def __getstate__(self) -> dict[str, Any]:
        # Pickled once a batch on the driver. The copy that only commits is never pickled and asks nobody.
        if self.options.shape.topic and not self.queues:
            self.queues = {self.options.shape.topic: asyncio.run(_queues_now(self.options))}
        return self.__dict__

    def write(self, batches: "Iterator[pa.RecordBatch]", origin: Origin) -> Sent:
        """Send the rows of one partition."""
        with Portal("firearrow sink") as portal:
            sender = Sender(self.options, dict(self.queues))
            portal.call(sender.open())
            try:
                rows = self._write(portal, sender, batches, origin)
            finally:
                portal.call(sender.close())
        return Sent(rows, sender.requests)

    def _write(self, portal: Portal, sender: "Sender", batches: "Iterator[pa.RecordBatch]", origin: Origin) -> int:
        rows, under_way = 0, portal.spawn(sender.send([]))
        for batch in batches:
            messages = messages_of(batch, self.options.shape, origin, rows)
            rows += len(messages)
            under_way.result()
            under_way = portal.spawn(sender.send(messages))
        under_way.result()
        return rows


class Sender:
    """Sends chunks of messages, each queue's in order, and tries again what a broker did not take."""

    def __init__(self, options: SinkOptions, queues: dict[str, tuple[MessageQueue, ...]]) -> None:
        self.requests = 0
        self._options = options
        self._queues = queues
        self._producer = _producer(options)
        self._due = 0.0

    async def open(self) -> None:
        """Open the producer."""
        await self._producer.open()

    async def close(self) -> None:
        """Close the producer."""
        await self._producer.close()

    async def send(self, messages: Sequence[Row]) -> None:
        """Send messages; return when brokers have acknowledged all of them."""
        for topic in {row.message.topic: None for row in messages}:
            if topic not in self._queues:
                self._queues[topic] = await self._producer.queues(topic)
        rate = self._options.rate_limit
        step = max(1, int(rate * RATE_STEP_S)) if rate else max(1, len(messages))
        for start in range(0, len(messages), step):
            some = messages[start : start + step]
            await self._hold_back(len(some))
            await _all(self._send_lane(lane) for lane in lanes_of(some, self._queues))

    async def _hold_back(self, count: int) -> None:
        if self._options.rate_limit:
            now = asyncio.get_running_loop().time()
            await asyncio.sleep(max(0.0, self._due - now))
            self._due = max(self._due, now) + count / self._options.rate_limit

    async def _send_lane(self, lane: Lane) -> None:
        done = 0
        while done < len(lane.messages):
            end = self._reach(lane.messages, done)
            await self._send_chunk(lane.messages[done:end], lane.queue)
            done = end

    def _reach(self, messages: Sequence[Message], start: int) -> int:
        """How far from ``start`` on messages fit into one request; one always does."""
        size = weight(messages[start])
        for end in range(start + 1, len(messages)):
            size += weight(messages[end])
            if size > self._options.batch_bytes:
                return end
        return len(messages)

    async def _send_chunk(self, messages: Sequence[Message], queue: MessageQueue) -> None:
        loop = asyncio.get_running_loop()
        deadline, pause = loop.time() + self._options.retry_timeout_ms / 1000, FIRST_PAUSE_S
        while messages:
            self.requests += 1
            try:
                await self._producer.send_batch(messages, queue=queue)
            except SendFailed as failure:
                messages = messages[failure.stored :]
                if not failure.retryable or loop.time() + pause > deadline:
                    raise
                await asyncio.sleep(pause)
                pause = min(2 * pause, LONGEST_PAUSE_S)
            else:
                return


async def _all(works: Iterable[Coroutine[Any, Any, None]]) -> None:
    """Wait for all of them, also when one fails: nothing goes on behind the caller's back."""
    for outcome in await asyncio.gather(*works, return_exceptions=True):
        if isinstance(outcome, BaseException):
            raise outcome


class BatchWriter(DataSourceArrowWriter):
    """Writes a DataFrame once."""

    def __init__(self, options: Mapping[str, str], schema: "StructType", overwrite: bool) -> None:
        if overwrite:
            raise Unsupported("a topic cannot be overwritten: use mode('append')")
        self._frozen = FrozenQueues(sink_options(options), schema.fieldNames())
        self._job = self._frozen.options.job_id or f"write-{random.Random().getrandbits(64):016x}"

    def write(self, iterator: "Iterator[pa.RecordBatch]") -> Sent:
        """Send the rows of one partition, on an executor."""
        return self._frozen.write(iterator, Origin(self._job, 0, _task_partition()))


class StreamWriter(DataSourceStreamArrowWriter):
    """Writes the batches of a streaming query."""

    def __init__(self, options: Mapping[str, str], schema: "StructType", overwrite: bool) -> None:  # noqa: ARG002
        self._frozen = FrozenQueues(sink_options(options), schema.fieldNames())

    def write(self, iterator: "Iterator[pa.RecordBatch]") -> Sent:
        """Send the rows of one partition of a batch, on an executor."""
        query, batch = streaming_place()
        return self._frozen.write(iterator, Origin(query, batch, _task_partition()))

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's name
        """Everything is acknowledged already; there is nothing left to do."""

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's name
        """What was sent stays sent: a repeat of the batch sends it again with the same identities."""


def streaming_place() -> tuple[str, int]:
    """The query and batch that this task belongs to."""
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


def _producer(options: SinkOptions) -> Producer:
    reach = options.connection
    return Producer(
        reach.name_server,
        group=options.group,
        send_timeout_ms=options.send_timeout_ms,
        tls=client_tls(reach),
        access_key=reach.access_key,
        secret_key=reach.secret_key,
        security_token=reach.security_token,
    )


async def _queues_now(options: SinkOptions) -> tuple[MessageQueue, ...]:
    async with _producer(options) as producer:
        queues = await producer.queues(options.shape.topic)
    await require_checked_accounts(options.connection, [options.shape.topic])
    return queues


def batch_writer(options: Mapping[str, str], schema: "StructType", *, overwrite: bool) -> BatchWriter:
    """What ``DataSource.writer`` returns."""
    return BatchWriter(options, schema, overwrite)


def stream_writer(options: Mapping[str, str], schema: "StructType", *, overwrite: bool) -> StreamWriter:
    """What ``DataSource.streamWriter`` returns."""
    return StreamWriter(options, schema, overwrite)
