"""Messages in and out, by topic and by group. Java: ``BrokerMetricsManager.initRequestMetrics``.

Counts are those of `BrokerStats`, read when somebody asks: a send pays nothing for them. Only the sizes of records are
counted as records become visible, many at a time. There are samples by topic, and by topic and group, never by queue,
and at most `metricsOtelCardinalityLimit` in a metric, so that a page stays short however many topics there are.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from typing import Final, TypeVar

from firearrow.broker.statistics.counters import BrokerStats
from firearrow.broker.statistics.meters import TrafficCounts
from firearrow.broker.tables.topic_book import TopicBook
from firearrow.model import names
from firearrow.store.placement import Rows, UniformRows
from firearrow.telemetry.metrics import LINES_AT_ONCE, PAUSE, Family, Histogram, Labels, Sample

SIZES: Final = (1024, 4 * 1024, 512 * 1024, 1 << 20, 2 << 20, 4 << 20)
"""The bounds of record sizes, Apache's."""
_TYPES: Final = {
    names.HALF_TOPIC: "transaction",
    names.TIMER_TOPIC: "delay",
    names.SCHEDULE_TOPIC: "delay",
}


OTHER: Final = "_other_"
"""The topic, and the group, of everything beyond the limit."""
OF_GROUPS: Final = (
    ("get", "rocketmq_messages_out_total", "Messages handed out", False),
    ("get", "rocketmq_throughput_out_total", "Bytes handed out", True),
    ("dead", "rocketmq_send_to_dlq_messages_total", "Messages that became dead letters", False),
    ("back", "firearrow_messages_sent_back_total", "Messages that consumers sent back for a retry", False),
    ("filtered", "firearrow_messages_filtered_total", "Messages that the group's filter kept from it", False),
    ("judged", "firearrow_filter_judged_total", "Messages that an SQL or CEL filter judged", False),
    ("unjudged", "firearrow_filter_errors_total", "Messages for which a filter had no verdict", False),
)
"""Counters by topic and group: kind, name, help, and whether bytes are counted."""
K = TypeVar("K")
_APART: Final = (names.RETRY_PREFIX, names.DLQ_PREFIX)
"""Topics that Apache does not count as incoming."""


class RecordSizes:
    """The sizes of all records, counted as they become visible."""

    def __init__(self) -> None:
        self.histogram: Final = Histogram(SIZES)

    def arrived(self, rows: Rows) -> None:
        """Count records."""
        sizes = rows.sizes if type(rows) is UniformRows else [row[2] for row in rows]
        if not sizes:
            return
        histogram = self.histogram
        place = bisect_left(SIZES, max(sizes))
        if not place or SIZES[place - 1] < min(sizes):  # all lie between two bounds: `observe` all of them at once
            histogram.counts[place] += len(sizes)
            histogram.total += sum(sizes)
            return
        for size in sizes:
            histogram.observe(size)


class TrafficMetrics:
    """Messages and bytes that came and went. The first ``limit`` topics, and pairs, have samples of their own."""

    def __init__(self, stats: BrokerStats, topics: TopicBook, sizes: RecordSizes, limit: int) -> None:
        self._stats = stats
        self._topics = topics
        self._sizes = sizes
        self._limit = limit

    def families(self) -> Iterator[Family]:
        """Yield the metrics."""
        put = [(topic, counts) for topic, counts in self._stats.counts("put") if not topic.startswith(_APART)]
        for name, says, size in (
            ("rocketmq_messages_in_total", "Messages stored", False),
            ("rocketmq_throughput_in_total", "Bytes stored", True),
        ):
            samples = limited(_values(put, size=size), self._limit, self._topic, self._topic(OTHER))
            yield Family(name, "counter", says, samples)
        says = "Sizes of stored records in bytes, of all topics"
        yield Family("rocketmq_message_size", "histogram", says, [((), self._sizes.histogram)])
        for kind, name, says, size in OF_GROUPS:
            values = _values(self._stats.counts(kind), size=size)
            yield Family(name, "counter", says, limited(values, self._limit, _pair, group_labels(OTHER, OTHER)))

    def _topic(self, topic: str) -> Labels:
        return (
            ("topic", topic),
            ("message_type", _TYPES.get(topic) or self._declared(topic)),
            ("is_system", _flag(names.is_system_topic(topic))),
        )

    def _declared(self, topic: str) -> str:
        """Return the type that the topic was made for, by its attribute ``message.type``."""
        config = self._topics.get(topic)
        attributes = None if config is None else config.attributes
        declared = (attributes or {}).get("message.type", "normal").lower()
        return declared if declared in ("fifo", "delay", "transaction") else "normal"


def limited(
    values: Iterable[tuple[K, float]], limit: int, labels: Callable[[K], Labels], other: Labels
) -> Iterator[Sample | None]:
    """Yield samples: the first ``limit`` values with labels of their own, the sum of the others with ``other``."""
    rest, found = 0.0, False
    for number, (key, value) in enumerate(values):
        if number < limit:
            yield labels(key), value
        else:
            rest, found = rest + value, True
            if number % LINES_AT_ONCE == 0:
                yield PAUSE
    if found:
        yield other, rest


def _values(found: list[tuple[str, TrafficCounts]], *, size: bool) -> Iterator[tuple[str, int]]:
    return ((key, counts.size if size else counts.messages) for key, counts in found)


def _pair(key: str) -> Labels:
    topic, _, group = key.partition("@")
    return group_labels(topic, group)


@lru_cache(maxsize=16_384)
def group_labels(topic: str, group: str) -> Labels:
    """Return the labels of a group in a topic."""
    return (
        ("topic", topic),
        ("consumer_group", group),
        ("is_retry", _flag(topic.startswith(names.RETRY_PREFIX))),
        ("is_system", _flag(names.is_system_topic(topic) or names.is_system_group(group))),
    )


def _flag(value: bool) -> str:
    return "true" if value else "false"
