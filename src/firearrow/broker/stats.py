"""What a broker counts: what is stored and handed out, by topic and by group. Java: ``BrokerStatsManager``,
``StoreStatsService``, ``BrokerStats``.

Numbers are read by their Java names: a statistic and a key, as ``mqadmin statsAll`` asks for them. Handlers add to
plain counters; every ten seconds `sample` takes them over into meters with a history.
"""

from collections.abc import Iterator
from typing import Final

from firearrow.broker.meters import DAY_MS, HOUR_MS, MINUTE_MS, Counts, Meter, Span
from firearrow.protocol.bodies.stats import BrokerStatsData, BrokerStatsItem

TOPIC_PUT_NUMS: Final = "TOPIC_PUT_NUMS"
TOPIC_PUT_SIZE: Final = "TOPIC_PUT_SIZE"
GROUP_GET_NUMS: Final = "GROUP_GET_NUMS"
GROUP_GET_SIZE: Final = "GROUP_GET_SIZE"
SEND_BACK_NUMS: Final = "SNDBCK_PUT_NUMS"
BROKER_PUT_NUMS: Final = "BROKER_PUT_NUMS"
BROKER_GET_NUMS: Final = "BROKER_GET_NUMS"
SPANS_MS: Final = (10_000, MINUTE_MS, 10 * MINUTE_MS)


class BrokerStats:
    """The counters of one broker."""

    def __init__(self, cluster: str, started_ms: int) -> None:
        self.started_ms: Final = started_ms
        self._cluster = cluster
        self._puts: dict[str, Counts] = {}
        self._gets: dict[tuple[str, str], Counts] = {}
        self._sent_back: dict[tuple[str, str], Counts] = {}
        self._misses = 0
        self._hits = 0
        self._meters: dict[tuple[str, str], Meter] = {}
        self.put = Meter(started_ms)
        self.put_size = Meter(started_ms)
        self.got = Meter(started_ms)
        self.found = Meter(started_ms)
        self.missed_pulls = Meter(started_ms)
        self._days = (0, 0, 0, 0)
        self._sampled_ms = started_ms

    # ---- counting

    def of_topic(self, topic: str) -> Counts:
        """What is stored for a topic, to be added to."""
        counts = self._puts.get(topic)
        if counts is None:
            counts = self._puts[topic] = Counts()
        return counts

    def pulled(self, group: str, topic: str, messages: int, size: int) -> None:
        """A pull found messages."""
        self._hits += 1
        counts = self._gets.get((topic, group))
        if counts is None:
            counts = self._gets[topic, group] = Counts()
        counts.messages += messages
        counts.size += size

    def missed(self) -> None:
        """A pull found none."""
        self._misses += 1

    def sent_back(self, group: str, topic: str) -> None:
        """A consumer sent a message back."""
        counts = self._sent_back.setdefault((topic, group), Counts())
        counts.messages += 1

    def forget_topic(self, topic: str) -> None:
        """Drop the numbers of a topic that is gone; the sums of the broker keep them."""
        for name, key in [known for known in self._meters if known[1].partition("@")[0] == topic]:
            del self._meters[name, key]

    # ---- sampling

    def sample(self, now_ms: int) -> None:
        """Take the counters over into the meters."""
        self.refresh()
        for meter in (self.put, self.put_size, self.got, self.found, self.missed_pulls):
            meter.sample(now_ms)
        for meter in self._meters.values():
            meter.sample(now_ms)
        self._sampled_ms = now_ms

    def refresh(self) -> None:
        """Bring the sums up to date."""
        for (name, key), total, events in self._totals():
            meter = self._meters.get((name, key))
            if meter is None:
                meter = self._meters[name, key] = Meter(self._sampled_ms)
            meter.total, meter.events = total, events
        self.put.total = self.put.events = sum(counts.messages for counts in self._puts.values())
        self.put_size.total = sum(counts.size for counts in self._puts.values())
        self.put_size.events = self.put.total
        self.got.total = self.got.events = sum(counts.messages for counts in self._gets.values())
        self.found.total = self.found.events = self._hits
        self.missed_pulls.total = self.missed_pulls.events = self._misses

    def _totals(self) -> Iterator[tuple[tuple[str, str], int, int]]:
        for topic, counts in self._puts.items():
            yield (TOPIC_PUT_NUMS, topic), counts.messages, counts.messages
            yield (TOPIC_PUT_SIZE, topic), counts.size, counts.messages
        for (topic, group), counts in self._gets.items():
            yield (GROUP_GET_NUMS, f"{topic}@{group}"), counts.messages, counts.messages
            yield (GROUP_GET_SIZE, f"{topic}@{group}"), counts.size, counts.messages
        for (topic, group), counts in self._sent_back.items():
            yield (SEND_BACK_NUMS, f"{topic}@{group}"), counts.messages, counts.messages

    # ---- asking

    def rates(self, meter: Meter, now_ms: int) -> str:
        """How many a second over ten seconds, a minute and ten minutes, as Apache writes them."""
        self.refresh()
        return " ".join(str(meter.over(span, now_ms).per_second) for span in SPANS_MS)

    def view(self, name: str, key: str, now_ms: int) -> BrokerStatsData | None:
        """One statistic over a minute, an hour and a day."""
        self.refresh()
        meter = self._broker_meter(name, key) or self._meters.get((name, key))
        if meter is None:
            return None
        spans = [_item(meter.over(span, now_ms)) for span in (MINUTE_MS, HOUR_MS, DAY_MS)]
        return BrokerStatsData(stats_minute=spans[0], stats_hour=spans[1], stats_day=spans[2])

    def _broker_meter(self, name: str, key: str) -> Meter | None:
        if key != self._cluster:
            return None
        return {BROKER_PUT_NUMS: self.put, BROKER_GET_NUMS: self.got}.get(name)

    def topic_put_tps(self, topic: str, now_ms: int) -> float:
        """Messages a second that were stored for a topic in the last minute."""
        meter = self._meters.get((TOPIC_PUT_NUMS, topic))
        return meter.over(MINUTE_MS, now_ms).per_second if meter else 0.0

    def consume_tps(self, group: str, topic: str, now_ms: int) -> float:
        """Messages a second that a group took of a topic in the last minute."""
        meter = self._meters.get((GROUP_GET_NUMS, f"{topic}@{group}"))
        return meter.over(MINUTE_MS, now_ms).per_second if meter else 0.0

    # ---- days

    @property
    def days(self) -> tuple[int, int, int, int]:
        """Stored and handed out until yesterday's morning and until this morning."""
        return self._days

    def begin_day(self) -> None:
        """It is midnight."""
        self.refresh()
        _, put, _, got = self._days
        self._days = (put, self.put.total, got, self.got.total)


def _item(span: Span) -> BrokerStatsItem:
    return BrokerStatsItem(sum=span.total, tps=span.per_second, avgpt=span.per_event)
