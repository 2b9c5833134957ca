"""The lag of groups, summed over the queues of a topic. Java: ``ConsumerLagCalculator``.

Lag in messages is computed when somebody asks. The age of the oldest unread message needs a read of the store: it is
sampled in the background every `SAMPLE_S` seconds, with one look at every queue that has unread messages, and one read
of a record for a group and topic. Of more than `QUEUES_LOOKED_AT` such queues, the first ones are looked at.

Unlike Apache, groups without members have a lag too, as long as the broker knows their offsets.
"""

import asyncio
from collections.abc import Callable, Iterator
from typing import Final

from firearrow.broker.metrics.traffic import OTHER, group_labels, limited
from firearrow.broker.tables.changed_rows import Key
from firearrow.broker.tables.offsets import OffsetTable
from firearrow.broker.tables.topic_book import TopicBook
from firearrow.errors import FireArrowError
from firearrow.runtime.clock import Clock
from firearrow.runtime.turn import Pace
from firearrow.store.queue.consume_queue import ENTRY
from firearrow.store.store import Store
from firearrow.telemetry.metrics import Family, Sample

SAMPLE_S: Final = 10.0
QUEUES_LOOKED_AT: Final = 64
QUEUES_AT_ONCE: Final = 100
"""Queues looked at in one turn of the loop."""


class LagMetrics:
    """The lag of every group of a broker; run `run` as a task."""

    def __init__(self, limit: int, *, offsets: OffsetTable, topics: TopicBook, store: Store, clock: Clock) -> None:
        self._limit = limit
        self._offsets: OffsetTable = offsets
        self._topics: TopicBook = topics
        self._store: Store = store
        self._clock = clock
        self._oldest_ms: dict[tuple[str, str], int] = {}
        """The store time of the oldest unread message, by topic and group; only for groups with unread messages."""

    def families(self) -> Iterator[Family]:
        """Yield the metrics."""
        pairs = [pair for pair in self._offsets.pairs() if self._topics.get(pair[0]) is not None]
        for name, says, value in (
            ("rocketmq_consumer_lag_messages", "Messages stored and not consumed by the group", self._lag),
            ("rocketmq_consumer_lag_latency", "Milliseconds since the oldest of them was stored", self._age),
            ("rocketmq_consumer_inflight_messages", "Messages pulled and not committed", self._in_flight),
            ("rocketmq_consumer_ready_messages", "Messages stored and not pulled by the group", self._ready),
        ):
            yield Family(name, "gauge", says, self._samples(pairs, value))

    def _samples(self, pairs: list[Key], value: Callable[[str, str], float]) -> Iterator[Sample | None]:
        values = ((pair, value(*pair)) for pair in pairs)
        return limited(values, self._limit, lambda pair: group_labels(*pair), group_labels(OTHER, OTHER))

    def _age(self, topic: str, group: str) -> int:
        stored_ms = self._oldest_ms.get((topic, group))
        return 0 if stored_ms is None else max(self._clock.now_ms() - stored_ms, 0)

    def _lag(self, topic: str, group: str) -> int:
        end_of, lag = self._store.max_offset, 0
        for queue, offset in self._offsets.of(group, topic).items():
            lag += max(end_of(topic, queue) - offset, 0)
        return lag

    def _in_flight(self, topic: str, group: str) -> int:
        return self._offsets.in_flight(group, topic)

    def _ready(self, topic: str, group: str) -> int:
        end_of, pulled = self._store.max_offset, self._offsets.pulled
        queues = list(self._offsets.of(group, topic))
        return sum(max(end_of(topic, queue) - pulled(group, topic, queue), 0) for queue in queues)

    async def _behind(self, topic: str, group: str, pace: Pace) -> list[tuple[int, int]]:
        """Return the first queues with unread messages, with their committed offsets."""
        end_of, behind = self._store.max_offset, list[tuple[int, int]]()
        for queue, at in list(self._offsets.of(group, topic).items()):
            if end_of(topic, queue) > at:
                behind.append((queue, at))
                if len(behind) == QUEUES_LOOKED_AT:
                    break
            await pace.did()
        return behind

    async def run(self) -> None:
        """Sample the ages of unread messages until cancelled."""
        while True:
            await self.sample()
            await asyncio.sleep(SAMPLE_S)

    async def sample(self) -> None:
        """Look for the oldest unread message of every group and topic."""
        found: dict[tuple[str, str], int] = {}
        pace = Pace(QUEUES_AT_ONCE)
        for topic, group in self._offsets.pairs():
            behind = await self._behind(topic, group, pace)
            if behind and self._topics.get(topic) is not None:
                try:
                    stored_ms = await self._oldest(topic, behind)
                except FireArrowError:
                    continue  # a topic that is being deleted, or a queue that cannot be read now
                if stored_ms > 0:
                    found[topic, group] = stored_ms
            await pace.did()
        self._oldest_ms = found

    async def _oldest(self, topic: str, behind: list[tuple[int, int]]) -> int:
        """Return when the oldest of the next messages of these queues was stored: the first one in the log."""
        queues, first = self._store.queues, None
        for queue_id, offset in behind:
            queue = queues.find(topic, queue_id)
            if queue is None:
                continue
            at = max(offset, self._store.min_offset(topic, queue_id))
            entry = await queues.entries(queue, at, 1)
            if entry:
                physical = ENTRY.unpack_from(entry)[0]
                first = (physical, queue, at) if first is None or physical < first[0] else first
        return 0 if first is None else await self._store.lookups.store_ms(first[1], first[2])
