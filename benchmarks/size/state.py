"""Topics and offsets at size: holds of the loop, paced sends, and what one more of them costs."""

import asyncio
import time
from collections.abc import Iterator
from statistics import median
from typing import NamedTuple

from benchmarks.size.brokers import QUEUES, broker_with, commit, commit_offsets, make_some, send_to_each, topic_name
from benchmarks.size.probe import Probe, Seen, connect, run, written_bytes
from benchmarks.size.table import HOLD_MS, Row, at_most, paced, times
from benchmarks.versus.contestants import FireArrowInEarnest

SMALL_TOPICS = 10
RATE = 200.0
WATCH_S = 35.0
"""Longer than every period of the broker: offsets 5 s, statistics 10 s, registration 30 s."""
ONE_MORE = 20
SETTLE_S = 3.0
QUIET_S, QUIET_BYTES = 8.0, 4096
"""Longer than the period in which queues are flushed, and more than a checkpoint is."""
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
    line.transport.close()
    return median(took), median(wrote)


async def _settled(broker: FireArrowInEarnest, most_s: float) -> None:
    """Wait until everything that was put is flushed: until nothing more is written for longer than a flush waits."""
    written, since = -1, time.perf_counter()
    while time.perf_counter() - since < min(QUIET_S, most_s):
        now = written_bytes(broker.pid)
        if now - written > QUIET_BYTES:
            written, since = now, time.perf_counter()
        await asyncio.sleep(0.5)


class Looks(NamedTuple):
    """The measurements of one broker."""

    new: Seen
    """While the files of all queues are made."""
    idle: Seen
    paced: Seen
    changed: Seen
    """While all queues are flushed."""
    ms: float
    kib: float


async def _watch_topics(broker: FireArrowInEarnest, topics: int, seconds: float) -> Looks:
    probe = Probe(broker.port, broker.pid)
    names = tuple(topic_name(number) for number in range(0, topics, max(topics // 100, 1)))
    await send_to_each(broker.port, topics)
    new = await probe.watch(seconds, rate=RATE, topics=names)
    await _settled(broker, seconds)
    ms, kib = await _one_more(broker, topics)
    await asyncio.sleep(min(SETTLE_S, seconds))
    idle = await probe.watch(seconds)
    paced = await probe.watch(seconds, rate=RATE, topics=names)
    await send_to_each(broker.port, topics)
    return Looks(new, idle, paced, await probe.watch(seconds, rate=RATE, topics=names), ms, kib)


def of_topics(topics: int, seconds: float = WATCH_S) -> Iterator[Row]:
    """A broker with many topics beside one with ten."""
    found = []
    for count in (SMALL_TOPICS, topics):
        with broker_with(count) as (broker, _):
            found.append(run(_watch_topics(broker, count, seconds)))
    small, large = found
    name = f"{topics:,} topics"
    yield at_most(f"{name}: longest hold while idle", "ms", small.idle.hold_ms, large.idle.hold_ms, HOLD_MS)
    yield from paced(f"{name} at {RATE:g} sends/s", small.paced, large.paced)
    yield from paced(f"{name}, all queues new", small.new, large.new)
    yield from paced(f"{name}, all queues changed", small.changed, large.changed)
    yield times(f"{name}: one more topic", "ms", small.ms, large.ms, 2, COST_MS)
    yield times(f"{name}: written for one more", "KiB", small.kib, large.kib, 2, COST_KIB)


async def _watch_offsets(broker: FireArrowInEarnest, groups: int, topics: int, seconds: float) -> tuple[Seen, float]:
    await send_to_each(broker.port, topics)
    await commit_offsets(broker.port, groups, topics)
    await asyncio.sleep(min(SETTLE_S, seconds))
    line = await connect(broker.port)
    names = tuple(topic_name(number) for number in range(topics))
    watching = asyncio.create_task(Probe(broker.port, broker.pid).watch(seconds, rate=RATE, topics=names))
    before, offset = written_bytes(broker.pid), 1
    while not watching.done():
        offset += 1
        line.transport.write(commit("group-00000", topic_name(0), 0, offset % 2))
        await asyncio.sleep(0.1)
    line.transport.close()
    return watching.result(), (written_bytes(broker.pid) - before) / 1024


def of_offsets(offsets: int, seconds: float = WATCH_S) -> Iterator[Row]:
    """A broker with many offsets, of which one changes all the time, beside one with few."""
    topics = 100
    found = []
    for groups in (1, offsets // topics // QUEUES):
        with broker_with(topics) as (broker, _):
            found.append(run(_watch_offsets(broker, groups, topics, seconds)))
    (small, small_kib), (large, large_kib) = found
    name = f"{offsets:,} offsets, one of them changing"
    yield from paced(name, small, large)
    yield times(f"{name}: written a second", "KiB", small_kib / seconds, large_kib / seconds, 2, COST_KIB)
