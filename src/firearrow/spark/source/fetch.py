"""Reads the spans of one task as records, in order, with many pulls in flight.

Runs on the loop of a `Link`; meanwhile the task's own thread turns arrived records into rows. A few spans are read at
once, each with several pulls ahead (`client.consumer.range_reader`), because Apache's brokers return 32 messages a pull
and queues may be many and short. Memory is bounded by the number of spans in progress and of waiting answers of each.

Missing messages are a `Loss`: offsets below the broker's first (retention), a queue that ends too early, a deleted log
file, a queue that the topic has lost by shrinking and the broker does not let us read. The reader decides whether a
loss fails the job. If a replica lags, the reader waits a little, then asks the
master.
"""

import asyncio
from collections.abc import AsyncGenerator, Coroutine, Sequence
from contextlib import aclosing
from typing import Any, Final

from msgspec import Struct

from firearrow.client import MessageQueue, PulledBytes, PullStatus
from firearrow.client.consumer.range_reader import read_range
from firearrow.errors import QueueHidden
from firearrow.spark.link import Link
from firearrow.spark.options import FetchOptions
from firearrow.spark.source.plan import Loss, Span

SPANS_AT_ONCE: Final = 4
ANSWERS_AHEAD: Final = 4
ENOUGH: Final = 4
"""The fraction of a batch that is turned into rows without waiting for more; smaller batches cost more a row."""
REPLICA_PATIENCE_S: Final = 5.0
REPLICA_PAUSE_S: Final = 0.1


class Records(Struct, frozen=True):
    """Records as they lie in a log, all of one span, from one offset to the next; or, with a loss, missing offsets."""

    span: Span
    begin: int
    next_offset: int
    body: bytes = b""
    goes_over: bool = False
    """Whether some records may lie behind the span's end."""
    loss: Loss | None = None


class Fetch:
    """Reads the spans of a task."""

    def __init__(self, link: Link, spans: Sequence[Span], fetching: FetchOptions) -> None:
        self._link = link
        self._spans = spans
        self._fetching = fetching
        self.is_filtered = fetching.is_filtered
        self._lanes: list[asyncio.Queue[Records | BaseException | None]] = []
        self._tasks: list[asyncio.Task[None]] = []
        self._started = self._current = 0

    async def next(self, rows: int, most_bytes: int) -> list[Records]:
        """Return the next records, about ``rows`` or ``most_bytes`` of one or several spans; none at the end."""
        found: list[Records] = []
        held = size = 0
        while self._current < len(self._spans) and held < rows and size < most_bytes:
            self._start_some()
            lane = self._lanes[self._current]
            if lane.empty() and held >= rows // ENOUGH:
                break  # return a smaller batch now instead of waiting for a full one
            got = await lane.get()
            if isinstance(got, BaseException):
                raise got
            if got is None:
                self._current += 1
                continue
            held += got.next_offset - got.begin
            size += len(got.body)
            found.append(got)
        return found

    async def close(self) -> None:
        """Cancel pulls in flight."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _start_some(self) -> None:
        loop = asyncio.get_running_loop()
        while self._started < min(self._current + SPANS_AT_ONCE, len(self._spans)):
            lane: asyncio.Queue[Records | BaseException | None] = asyncio.Queue(ANSWERS_AHEAD)
            self._lanes.append(lane)
            self._tasks.append(loop.create_task(self._fill(lane, self._spans[self._started])))
            self._started += 1

    async def _fill(self, lane: "asyncio.Queue[Records | BaseException | None]", span: Span) -> None:
        try:
            async with aclosing(self._read(span)) as answers:
                async for records in answers:
                    await lane.put(records)
        except Exception as error:  # noqa: BLE001 - handed to whoever reads
            await lane.put(error)
        else:
            await lane.put(None)

    async def _read(self, span: Span) -> AsyncGenerator[Records, None]:
        cursor = span.begin
        try:
            async with aclosing(self._answers(span)) as answers:
                async for pulled in answers:
                    begin, loss = cursor, self._loss_of(span, cursor, pulled)
                    if loss is not None:
                        yield Records(span, begin, loss.end, loss=loss)
                        begin = loss.end
                    if pulled.status is PullStatus.FOUND:
                        reached = max(begin, min(pulled.next_offset, span.end))
                        yield Records(span, begin, reached, pulled.body, pulled.next_offset > span.end)
                    cursor = max(cursor, pulled.next_offset)
            early = await self._early_end(span, cursor) if cursor < span.end else None
        except QueueHidden as hidden:
            early = Loss(span.queue, cursor, span.end, str(hidden))
        if early is not None:
            yield Records(span, cursor, span.end, loss=early)

    def _answers(self, span: Span) -> AsyncGenerator[PulledBytes, None]:
        def ask(offset: int, most: int) -> Coroutine[Any, Any, PulledBytes]:
            return self._pull(span, offset, most)

        fetching = self._fetching
        return read_range(ask, span.begin, span.end, fetching.max_messages, fetching.in_flight)

    async def _pull(self, span: Span, offset: int, most: int) -> PulledBytes:
        if not self._fetching.from_replica:
            return await self._ask(span.queue, offset, most)
        loop = asyncio.get_running_loop()
        until = loop.time() + REPLICA_PATIENCE_S
        while loop.time() < until:
            pulled = await self._ask(span.queue, offset, most, from_replica=True)
            if pulled.status is not PullStatus.NOTHING_NEW or pulled.max_offset >= span.end:
                return pulled
            await asyncio.sleep(REPLICA_PAUSE_S)
        return await self._ask(span.queue, offset, most)

    async def _ask(self, queue: MessageQueue, offset: int, most: int, *, from_replica: bool = False) -> PulledBytes:
        return await self._link.pull(queue, offset, most, self._fetching, from_replica=from_replica)

    def _loss_of(self, span: Span, cursor: int, pulled: PulledBytes) -> Loss | None:
        """Return the loss between ``cursor`` and the next offset of an answer."""
        if pulled.min_offset > cursor and pulled.status is not PullStatus.NOTHING_NEW:
            reason = f"the broker's first message is {pulled.min_offset} now; retention deleted those before it"
            return Loss(span.queue, cursor, min(pulled.min_offset, span.end), reason)
        if self.is_filtered or pulled.next_offset <= cursor:
            return None
        if pulled.status is PullStatus.NOTHING_MATCHED:
            reason = "the files of the log that held them are deleted"
            return Loss(span.queue, cursor, min(pulled.next_offset, span.end), reason)
        return None

    async def _early_end(self, span: Span, cursor: int) -> Loss:
        pulled = await self._ask(span.queue, cursor, 1)
        return Loss(span.queue, cursor, span.end, _why_early(span.queue, pulled))


def _why_early(queue: MessageQueue, pulled: PulledBytes) -> str:
    if pulled.min_offset > pulled.max_offset - 1 and pulled.max_offset == 0:
        return f"broker {queue.broker_name} has no messages in this queue; its topic or store was created again"
    return f"the queue ends at {pulled.max_offset}; its broker or topic was created again, or lost its last messages"
