"""Topics and offsets at size: holds of the loop, paced sends, and what one more of them costs."""

import asyncio
import time
from collections.abc import Iterator
from statistics import median

from benchmarks.size.brokers import QUEUES, broker_with, commit, commit_offsets, make_some, send_to_each, topic_name
from benchmarks.size.probe import Probe, Seen, connect, run, written_bytes
from benchmarks.size.table import Row, at_most, times
from benchmarks.versus.contestants import FireArrowInEarnest

SMALL_TOPICS = 10
RATE = 200.0
HOLD_MS = 20.0
WATCH_S = 35.0
"""Longer than every period of the broker: offsets 5 s, statistics 10 s, registration 30 s."""
ONE_MORE = 20
SETTLE_S = 3.0
COST_MS, COST_KIB = 20.0, 64.0
"""Below this nobody cares what one more costs."""


async def _one_more(broker: FireArrowInEarnest, topics: int) -> tuple[float, float]:
    """Milliseconds and KiB written for one more topic, the median of some."""
    line = await connect(broker.port)
    took, wrote = [], []
    for number in range(topics, topics + ONE_MORE):
        before, began = written_bytes(broker.pid), time.perf_counter()
        await make_some(line, range(number, number + 1))
        took.append((time.perf_counter() - began) * 1000)
        wrote.append((written_bytes(broker.pid) - before) / 1024)
    return median(took), median(wrote)


async def _watch_topics(broker: FireArrowInEarnest, topics: int, seconds: float) -> tuple[Seen, Seen, float, float]:
    await send_to_each(broker.port, topics)
    cost = await _one_more(broker, topics)
    await asyncio.sleep(SETTLE_S)
    probe = Probe(broker.port, broker.pid)
    idle = await probe.watch(seconds)
    names = tuple(topic_name(number) for number in range(0, topics, max(topics // 100, 1)))
    return idle, await probe.watch(seconds, rate=RATE, topics=names), *cost


def of_topics(topics: int, seconds: float = WATCH_S) -> Iterator[Row]:
    """A broker with many topics beside one with ten."""
    found = []
    for count in (SMALL_TOPICS, topics):
        with broker_with(count) as (broker, _):
            found.append(run(_watch_topics(broker, count, seconds)))
    (idle, paced, ms, kib), (large_idle, large_paced, large_ms, large_kib) = found
    name = f"{topics:,} topics"
    yield at_most(f"{name}: longest hold while idle", "ms", idle.hold_ms, large_idle.hold_ms, HOLD_MS)
    yield at_most(f"{name}: longest hold at {RATE:g} sends/s", "ms", paced.hold_ms, large_paced.hold_ms, HOLD_MS)
    yield times(f"{name}: paced sends, p99", "ms", paced.p99_ms, large_paced.p99_ms, 2, 1.0)
    yield at_most(f"{name}: paced sends refused", "", paced.refused, large_paced.refused, 0)
    yield times(f"{name}: one more topic", "ms", ms, large_ms, 2, COST_MS)
    yield times(f"{name}: written for one more", "KiB", kib, large_kib, 2, COST_KIB)


async def _watch_offsets(broker: FireArrowInEarnest, groups: int, topics: int, seconds: float) -> tuple[Seen, float]:
    await send_to_each(broker.port, topics)
    await commit_offsets(broker.port, groups, topics)
    await asyncio.sleep(SETTLE_S)
    line = await connect(broker.port)
    names = tuple(topic_name(number) for number in range(topics))
    watching = asyncio.create_task(Probe(broker.port, broker.pid).watch(seconds, rate=RATE, topics=names))
    before, offset = written_bytes(broker.pid), 1
    while not watching.done():
        offset += 1
        line.transport.write(commit("group-00000", topic_name(0), 0, offset % 2))
        await asyncio.sleep(0.1)
    return watching.result(), (written_bytes(broker.pid) - before) / 1024


def of_offsets(offsets: int, seconds: float = WATCH_S) -> Iterator[Row]:
    """A broker with many offsets, of which one changes all the time, beside one with few."""
    topics = 100
    found = []
    for groups in (1, offsets // topics // QUEUES):
        with broker_with(topics) as (broker, _):
            found.append(run(_watch_offsets(broker, groups, topics, seconds)))
    (small, _), (large, _) = found
    name = f"{offsets:,} offsets"
    yield at_most(f"{name}: longest hold", "ms", small.hold_ms, large.hold_ms, HOLD_MS)
    yield times(f"{name}: paced sends, p99", "ms", small.p99_ms, large.p99_ms, 2, 1.0)
    yield at_most(f"{name}: paced sends refused", "", small.refused, large.refused, 0)
