"""The counters of a broker: messages stored and handed out, by topic and by group. Java: ``BrokerStatsManager``,
``StoreStatsService``, ``BrokerStats``.

A number is read by its Java names, a statistic and a key, as ``mqadmin statsAll`` asks for it. Handlers add to plain
counters; every ten seconds `sample` records all counters, in steps, because there may be very many.
"""

import asyncio
from collections.abc import Collection, Iterable, Iterator
from typing import Final

from firearrow.broker.statistics.history import CountHistory
from firearrow.broker.statistics.meters import DAY_MS, HOUR_MS, MINUTE_MS, Meter, SpanGrowth, TrafficCounts
from firearrow.protocol.bodies.admin.stats import BrokerStatsData, BrokerStatsItem
from firearrow.runtime.turn import breathe

TOPIC_PUT_NUMS: Final = "TOPIC_PUT_NUMS"
TOPIC_PUT_SIZE: Final = "TOPIC_PUT_SIZE"
GROUP_GET_NUMS: Final = "GROUP_GET_NUMS"
GROUP_GET_SIZE: Final = "GROUP_GET_SIZE"
SEND_BACK_NUMS: Final = "SNDBCK_PUT_NUMS"
GROUP_FILTERED_NUMS: Final = "GROUP_FILTERED_NUMS"
"""Messages that the filters of a group kept from it. Apache has no such statistic, nor the four below."""
GROUP_FILTER_JUDGED_NUMS: Final = "GROUP_FILTER_JUDGED_NUMS"
GROUP_FILTER_STEPS: Final = "GROUP_FILTER_STEPS"
GROUP_FILTER_ERROR_NUMS: Final = "GROUP_FILTER_ERROR_NUMS"
GROUP_FILTER_MICROS: Final = "GROUP_FILTER_MICROS"
BROKER_PUT_NUMS: Final = "BROKER_PUT_NUMS"
BROKER_GET_NUMS: Final = "BROKER_GET_NUMS"
PAUSE_S: Final = 0.002
SPANS_MS: Final = (10_000, MINUTE_MS, 10 * MINUTE_MS)


STATISTICS: Final = {
    TOPIC_PUT_NUMS: ("put", 0),
    TOPIC_PUT_SIZE: ("put", 1),
    GROUP_GET_NUMS: ("get", 0),
    GROUP_GET_SIZE: ("get", 1),
    SEND_BACK_NUMS: ("back", 0),
    GROUP_FILTERED_NUMS: ("filtered", 0),
    GROUP_FILTER_JUDGED_NUMS: ("judged", 0),
    GROUP_FILTER_STEPS: ("judged", 1),
    GROUP_FILTER_ERROR_NUMS: ("unjudged", 0),
    GROUP_FILTER_MICROS: ("unjudged", 1),
}
"""The counter of every statistic, and whether the statistic counts messages or bytes."""
KINDS: Final = ("put", "get", "back", "dead", "filtered", "judged", "unjudged")
"""The kinds of counters; ``unjudged`` counts messages without a verdict, and the microseconds of all verdicts."""
ROWS_AT_ONCE: Final = 250


class _Family:
    """Counters of one kind, by topic or by topic and group."""

    def __init__(self, history: CountHistory) -> None:
        self._history = history
        self._rows: dict[str, tuple[TrafficCounts, int]] = {}
        self._gone = TrafficCounts()
        """The sums of the counters of deleted topics."""

    def of(self, key: str) -> TrafficCounts:
        known = self._rows.get(key)
        if known is None:
            counts = TrafficCounts()
            known = self._rows[key] = (counts, self._history.add(counts))
        return known[0]

    def items(self) -> list[tuple[str, TrafficCounts]]:
        return [(key, counts) for key, (counts, _) in self._rows.items()]

    def row(self, key: str) -> int | None:
        known = self._rows.get(key)
        return None if known is None else known[1]

    def forget(self, topics: Collection[str]) -> Iterator[None]:
        """Remove the counters of deleted topics, in steps over `ROWS_AT_ONCE` counters."""
        keys = list(self._rows)
        for first in range(0, len(keys), ROWS_AT_ONCE):
            for key in keys[first : first + ROWS_AT_ONCE]:
                if key.partition("@")[0] in topics and key in self._rows:
                    self._remove(key)
            yield

    def _remove(self, key: str) -> None:
        counts, row = self._rows.pop(key)
        self._gone.messages += counts.messages
        self._gone.size += counts.size
        self._history.remove(row)

    def sums(self) -> Iterator[tuple[int, int]]:
        """Yield partial sums of messages and bytes, over `ROWS_AT_ONCE` counters a step."""
        rows = list(self._rows.values())
        yield self._gone.messages, self._gone.size
        for first in range(0, len(rows), ROWS_AT_ONCE):
            some = [counts for counts, _ in rows[first : first + ROWS_AT_ONCE]]
            yield sum([one.messages for one in some]), sum([one.size for one in some])


class BrokerStats:
    """The counters of one broker."""

    def __init__(self, cluster: str, started_ms: int) -> None:
        self.started_ms: Final = started_ms
        self._cluster = cluster
        self._history = CountHistory(started_ms)
        self._families = {kind: _Family(self._history) for kind in KINDS}
        self._gets = self._families["get"]
        self._misses = 0
        self._hits = 0
        self.put = Meter(started_ms)
        self.put_size = Meter(started_ms)
        self.got = Meter(started_ms)
        self.found = Meter(started_ms)
        self.missed_pulls = Meter(started_ms)
        self._days = (0, 0, 0, 0)
        self._deleted: set[str] = set()
        self._forgetting = asyncio.Lock()

    # ---- counting

    def of_topic(self, topic: str) -> TrafficCounts:
        """Return the counter of messages stored for a topic; the caller adds to it."""
        return self._families["put"].of(topic)

    def stored(self, topic: str, messages: int, size: int) -> None:
        """Count messages that were stored for a topic, and their bytes."""
        counts = self.of_topic(topic)
        counts.messages += messages
        counts.size += size

    def pulled(self, group: str, topic: str, messages: int, size: int) -> None:
        """Count a pull that found messages."""
        self._hits += 1
        counts = self._gets.of(f"{topic}@{group}")
        counts.messages += messages
        counts.size += size

    def filtered(self, group: str, topic: str, messages: int) -> None:
        """Count messages that a filter kept from a group."""
        if messages:
            self._families["filtered"].of(f"{topic}@{group}").messages += messages

    def judged(self, group: str, topic: str, messages: int, steps: int, errors: int, microseconds: int) -> None:
        """Count what the filter of a group, by SQL92 or CEL, has cost; ``errors`` are messages without a verdict."""
        key = f"{topic}@{group}"
        judged, unjudged = self._families["judged"].of(key), self._families["unjudged"].of(key)
        judged.messages += messages
        judged.size += steps
        unjudged.messages += errors
        unjudged.size += microseconds

    def missed(self) -> None:
        """Count a pull that found no message."""
        self._misses += 1

    def sent_back(self, group: str, topic: str) -> None:
        """Count a send-back."""
        self._families["back"].of(f"{topic}@{group}").messages += 1

    def died(self, group: str, topic: str) -> None:
        """Count a message that became a dead letter of a group."""
        self._families["dead"].of(f"{topic}@{group}").messages += 1

    def counts(self, kind: str) -> list[tuple[str, TrafficCounts]]:
        """Return the counters of a kind, by topic or by ``topic@group``."""
        return self._families[kind].items()

    async def forget_topics(self, topics: Iterable[str]) -> None:
        """Remove the counters of deleted topics; the broker's sums keep their values.

        That looks at all counters, in steps. Deletions that are asked for meanwhile share the next look.
        """
        self._deleted.update(topics)
        async with self._forgetting:
            deleted, self._deleted = self._deleted, set()
            for family in self._families.values() if deleted else ():
                for _ in family.forget(deleted):
                    await breathe()

    # ---- sampling

    async def sample(self, now_ms: int) -> None:
        """Record the current values of all counters."""
        await self.refresh()
        for meter in (self.put, self.put_size, self.got, self.found, self.missed_pulls):
            meter.sample(now_ms)
        for _ in self._history.sample(now_ms):
            await asyncio.sleep(PAUSE_S)

    async def refresh(self) -> None:
        """Bring the sums up to date."""
        put, size = await _sum(self._families["put"])
        got, _ = await _sum(self._families["get"])
        self.put.total = self.put.events = self.put_size.events = put
        self.put_size.total = size
        self.got.total = self.got.events = got
        self.found.total = self.found.events = self._hits
        self.missed_pulls.total = self.missed_pulls.events = self._misses

    # ---- asking; call `refresh` before the sums are read

    def rates(self, meter: Meter, now_ms: int) -> str:
        """Return the rates per second over ten seconds, a minute and ten minutes, as Apache writes them."""
        return " ".join(str(meter.over(span, now_ms).per_second) for span in SPANS_MS)

    def view(self, name: str, key: str, now_ms: int) -> BrokerStatsData | None:
        """Return one statistic over a minute, an hour and a day."""
        spans = [self._over(name, key, span, now_ms) for span in (MINUTE_MS, HOUR_MS, DAY_MS)]
        minute, hour, day = (None if span is None else _item(span) for span in spans)
        if minute is None or hour is None or day is None:
            return None
        return BrokerStatsData(stats_minute=minute, stats_hour=hour, stats_day=day)

    def _over(self, name: str, key: str, span_ms: int, now_ms: int) -> SpanGrowth | None:
        meter = {BROKER_PUT_NUMS: self.put, BROKER_GET_NUMS: self.got}.get(name) if key == self._cluster else None
        if meter is not None:
            return meter.over(span_ms, now_ms)
        kind, which = STATISTICS.get(name, ("", 0))
        row = self._families[kind].row(key) if kind else None
        return None if row is None else self._history.over(row, span_ms, now_ms)[which]

    def topic_put_tps(self, topic: str, now_ms: int) -> float:
        """Return the messages per second stored for a topic in the last minute."""
        span = self._over(TOPIC_PUT_NUMS, topic, MINUTE_MS, now_ms)
        return span.per_second if span else 0.0

    def consume_tps(self, group: str, topic: str, now_ms: int) -> float:
        """Return the messages per second that a group pulled from a topic in the last minute."""
        span = self._over(GROUP_GET_NUMS, f"{topic}@{group}", MINUTE_MS, now_ms)
        return span.per_second if span else 0.0

    # ---- days

    @property
    def days(self) -> tuple[int, int, int, int]:
        """Stored up to the midnight before last and up to the last midnight; then handed out, at the same times."""
        return self._days

    async def begin_day(self) -> None:
        """Record the sums at midnight."""
        await self.refresh()
        _, put, _, got = self._days
        self._days = (put, self.put.total, got, self.got.total)


def _item(span: SpanGrowth) -> BrokerStatsItem:
    return BrokerStatsItem(sum=span.total, tps=span.per_second, avgpt=span.per_event)


async def _sum(family: _Family) -> tuple[int, int]:
    messages = size = 0
    for more_messages, more_size in family.sums():
        messages, size = messages + more_messages, size + more_size
        await breathe()
    return messages, size
