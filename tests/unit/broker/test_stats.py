"""Statistics: what they say, what they cost at size, and that a forgotten topic stays forgotten."""

import asyncio
import tracemalloc

import pytest

from firearrow.broker.statistics import history as counthistory
from firearrow.broker.statistics.counters import BrokerStats
from firearrow.broker.statistics.history import CountHistory
from firearrow.broker.statistics.meters import DAY_MS, HOUR_MS, MINUTE_MS, SAMPLE_MS, TrafficCounts

MANY = 50_000
MEASURED = 2_000
BUDGET = 64 << 20


def sample(stats: BrokerStats, now_ms: int) -> None:
    asyncio.run(stats.sample(now_ms))


@pytest.mark.usefixtures("no_pauses")
def test_a_forgotten_topic_stays_forgotten() -> None:
    stats = BrokerStats("c", 0)
    stats.of_topic("T").messages += 3
    stats.pulled("g", "T", 2, 20)
    stats.sent_back("g", "T")
    sample(stats, SAMPLE_MS)
    asyncio.run(stats.forget_topics(["T"]))
    sample(stats, 2 * SAMPLE_MS)
    for name, key in (("TOPIC_PUT_NUMS", "T"), ("GROUP_GET_NUMS", "T@g"), ("SNDBCK_PUT_NUMS", "T@g")):
        assert stats.view(name, key, 3 * SAMPLE_MS) is None
    assert (stats.put.total, stats.got.total) == (3, 2), "the sums of the broker keep what was counted"
    stats.of_topic("U").messages += 1
    view = stats.view("TOPIC_PUT_NUMS", "U", 3 * SAMPLE_MS)
    assert view is not None
    assert view.stats_day is not None
    assert view.stats_day.sum == 1, "a row that another had begins at zero"


@pytest.mark.usefixtures("no_pauses")
def test_fifty_thousand_topics_that_groups_read_fit_their_budget() -> None:
    """All of them busy, for a day."""
    tracemalloc.start()
    try:
        stats = BrokerStats("c", 0)
        for number in range(MEASURED):
            stats.of_topic(f"orders-of-shop-{number:06d}")
        for hour in range(25):
            for step in range(1, 8):
                for number in range(MEASURED):
                    stats.of_topic(f"orders-of-shop-{number:06d}").messages += 1_000_000
                    stats.pulled("some-group", f"orders-of-shop-{number:06d}", 1, 100)
                sample(stats, hour * HOUR_MS + step * 8 * MINUTE_MS)
        used, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert used * MANY / MEASURED < BUDGET


def test_a_moment_is_taken_in_steps() -> None:
    history = CountHistory(0)
    for _ in range(3 * counthistory.ROWS_AT_ONCE):
        history.add(TrafficCounts())
    assert len(list(history.sample(SAMPLE_MS))) == 3


def test_spans_count_from_the_last_moment_that_is_old_enough_or_from_the_counters_birth() -> None:
    history, old = CountHistory(0), TrafficCounts()
    row = history.add(old)
    now_ms = 0
    for _ in range(3 * 8640 // 2):
        now_ms += SAMPLE_MS
        old.messages += 10
        old.size += 1000
        list(history.sample(now_ms))
    messages, size = history.over(row, MINUTE_MS, now_ms)
    assert (messages.total, messages.per_second, size.per_event) == (60, 1.0, 100.0)
    assert history.over(row, HOUR_MS, now_ms)[0].per_second == pytest.approx(1.0)
    assert history.over(row, DAY_MS, now_ms)[0].per_second == pytest.approx(1.0)
    assert 24 * 360 <= history.over(row, DAY_MS, now_ms)[0].total / 10 <= 26 * 360
    young = TrafficCounts()
    later = history.add(young)
    young.messages += 5
    assert history.over(later, DAY_MS, now_ms + 5_000)[0] == (5, 1.0, 1.0)


@pytest.fixture
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("firearrow.broker.statistics.counters.PAUSE_S", 0)
