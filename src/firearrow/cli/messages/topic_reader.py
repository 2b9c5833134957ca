"""Reads a topic without a group: chosen queues, between two offsets or times; nothing is committed.

Stored messages of all queues are merged by store time, so that they read like one log. New messages (``follow``) are
printed as they arrive.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from heapq import heapify, heappop, heapreplace
from typing import Final

from msgspec import Struct

from firearrow.cli.times import time_ms
from firearrow.client import Bounds, MessageQueue, PullConsumer, PullStatus
from firearrow.client.consumer.subscription import EVERYTHING, Expression, subscription
from firearrow.errors import FireArrowError, NoSuchName
from firearrow.model import StoredMessage
from firearrow.runtime.clock import SystemClock

WAIT_MS: Final = 15_000
READ_AHEAD: Final = 64
"""Most messages that wait to be printed when following."""

RETRY_S: Final = 1.0
"""Back-off before a broker that did not answer is asked again."""

NO_TIME: Final = 1 << 62
NO_END: Final = 1 << 62

GRACE_MS: Final = 1_000
"""Milliseconds for which reading goes on after the end of a span of time: a message of that span may still arrive."""

Found = tuple[StoredMessage, MessageQueue]
Come = asyncio.Queue[Found | FireArrowError | None]
"""Messages of followed queues; None for a queue that has reached its end."""


class ReadOrder(Struct, frozen=True):
    """The messages to read. ``start`` and ``to`` are first, last, an offset or a time; empty means the default."""

    topic: str
    start: str = ""
    to: str = ""
    queue: str = ""
    expression: Expression = EVERYTHING
    limit: int = 0
    follow: bool = False


class Reader:
    """Reads the messages that a ``ReadOrder`` describes."""

    def __init__(self, consumer: PullConsumer, look: ReadOrder) -> None:
        self._consumer = consumer
        self._look = look
        self._wanted = subscription(look.topic, look.expression, version=0)
        self._earliest_ms = 0
        self._latest_ms = NO_TIME

    async def messages(self) -> AsyncGenerator[Found]:
        """Yield messages one by one, until the end or the limit."""
        ranges = await self._ranges()
        count = 0
        source = self._following(ranges) if self._look.follow else self._merged(ranges)
        async with aclosing(source):
            async for found in source:
                yield found
                count += 1
                if self._look.limit and count >= self._look.limit:
                    return

    async def _ranges(self) -> dict[MessageQueue, Bounds]:
        look, bounds = self._look, await self._consumer.bounds(self._look.topic)
        if look.queue:
            bounds = {q: each for q, each in bounds.items() if look.queue == f"{q.broker_name}:{q.queue_id}"}
            if not bounds:
                raise NoSuchName(f"there is no queue {look.queue} of {look.topic}; firearrow topic describe lists them")
        starts = await self._places(look.start or ("last" if look.follow else "first"), bounds)
        ends = {queue: NO_END if look.follow else each.end for queue, each in bounds.items()}
        if _is_time(look.to):
            self._latest_ms = time_ms(look.to, SystemClock().now_ms())
        elif look.to:
            wanted = await self._places(look.to, bounds)
            ends = {queue: min(wanted[queue], end) for queue, end in ends.items()}
        return {queue: Bounds(max(starts[queue], each.first), ends[queue]) for queue, each in bounds.items()}

    async def _places(self, text: str, bounds: dict[MessageQueue, Bounds]) -> dict[MessageQueue, int]:
        if text == "first":
            return {queue: each.first for queue, each in bounds.items()}
        if text == "last":
            return {queue: each.end for queue, each in bounds.items()}
        if not _is_time(text):
            return dict.fromkeys(bounds, int(text))
        held = [queue for queue, each in bounds.items() if each.end > each.first]
        self._earliest_ms = time_ms(text, SystemClock().now_ms())
        found = await self._consumer.offsets_at(held, self._earliest_ms)
        return {queue: found.get(queue, each.first) for queue, each in bounds.items()}

    def _wants(self, message: StoredMessage) -> bool:
        # Brokers of 4.9 find the last message for every time after it, and hash tags.
        return message.store_timestamp >= self._earliest_ms and self._wanted.wants(message.tag)

    async def _read(self, queue: MessageQueue, offset: int, end: int) -> AsyncIterator[StoredMessage]:
        while offset < end:
            pulled = await self._consumer.pull_bytes(queue, offset, expression=self._look.expression)
            for message in pulled.messages():
                if message.store_timestamp >= self._latest_ms:
                    return
                if offset <= message.queue_offset < end and self._wants(message):
                    yield message
            if pulled.next_offset <= offset and pulled.status is PullStatus.NOTHING_NEW:
                return
            offset = max(pulled.next_offset, offset)

    async def _merged(self, ranges: dict[MessageQueue, Bounds]) -> AsyncGenerator[Found]:
        heads: list[tuple[int, MessageQueue, int, StoredMessage, AsyncIterator[StoredMessage]]] = []
        for queue, each in ranges.items():
            source = self._read(queue, each.first, each.end)
            if (message := await anext(source, None)) is not None:
                heads.append((message.store_timestamp, queue, message.queue_offset, message, source))
        heapify(heads)
        while heads:
            _, queue, _, message, source = heads[0]
            yield message, queue
            if (following := await anext(source, None)) is None:
                heappop(heads)
            else:
                heapreplace(heads, (following.store_timestamp, queue, following.queue_offset, following, source))

    async def _following(self, ranges: dict[MessageQueue, Bounds]) -> AsyncGenerator[Found]:
        come: Come = asyncio.Queue(READ_AHEAD)
        # No TaskGroup: a generator may not be left by way of one.
        tasks = [asyncio.create_task(self._follow(queue, each, come)) for queue, each in ranges.items()]
        try:
            unfinished = len(tasks)
            while unfinished:
                found = await come.get()
                if isinstance(found, FireArrowError):
                    raise found
                if found is None:
                    unfinished -= 1
                else:
                    yield found
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _follow(self, queue: MessageQueue, bounds: Bounds, come: Come) -> None:
        offset, is_over = bounds.first, False
        while offset < bounds.end and not is_over:
            left_ms = self._latest_ms + GRACE_MS - SystemClock().now_ms()
            wait_ms = min(WAIT_MS, max(left_ms, 0))
            try:
                pulled = await self._consumer.pull_bytes(
                    queue, offset, expression=self._look.expression, wait_ms=wait_ms
                )
            except FireArrowError as error:
                if not error.retryable:
                    await come.put(error)
                    return
                await asyncio.sleep(RETRY_S)
                continue
            is_over = pulled.status is PullStatus.NOTHING_NEW and left_ms <= 0
            for message in pulled.messages():
                is_over = is_over or message.store_timestamp >= self._latest_ms
                is_inside = not is_over and offset <= message.queue_offset < bounds.end
                if is_inside and self._wants(message):
                    await come.put((message, queue))
            offset = pulled.next_offset
        await come.put(None)


def _is_time(text: str) -> bool:
    return bool(text) and text not in ("first", "last") and not (text.isascii() and text.isdigit())
