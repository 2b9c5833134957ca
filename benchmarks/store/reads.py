"""Reading queues in order, beside the reads of files that it takes.

Eight queues lie interleaved in the log; each is read from its start with pulls of 32 messages. Every read of a file
that the store makes is noted once and made again, alone, as the other side. Hot: written by this process. Cold: after a
restart, when every record is checked before it is served.
"""

import gc
import os
import statistics
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from benchmarks.store.bench import Bench
from benchmarks.store.messages import SIZES, TOPIC, drafts_of
from benchmarks.store.report import Goal, Report, shown
from benchmarks.store.stores import config_of, on_loop, running
from firearrow.store.pulling import Pull
from firearrow.store.store import Store

GOAL = 0.5
QUEUES = 8
PULLED = 32
MOST_BYTES = 256 << 10

Read = tuple[int, int, int]
"""Descriptor, length, position."""


@dataclass(slots=True)
class Sides:
    """Microseconds of CPU a message, pass by pass, and the reads of one pass."""

    ours: list[float] = field(default_factory=list)
    bare: list[float] = field(default_factory=list)
    reads: int = 0
    read_bytes: int = 0
    messages: int = 0

    @property
    def ratio(self) -> float:
        return statistics.median(self.bare) / statistics.median(self.ours)


def measure(bench: Bench) -> Report:
    """Three sizes, hot and cold."""
    report = Report("microseconds of CPU a message, 8 queues interleaved, and the rate as a part of the same preads'")
    report.say(f"{'':16} {'ours':>14} {'same preads':>14} {'ratio':>6} {'a second':>10} {'reads a message':>16}")
    for name, size in SIZES.items():
        count = (50 if bench.quick else 500) * 256 // (4 if size > 1024 else 1) // 256 * 256
        with bench.place() as root:
            hot = on_loop(_hot(root, size, count, passes=3 if bench.quick else 9))
            cold = on_loop(_cold(root, count, passes=3 if bench.quick else 5))
        for kind, sides in (("hot", hot), ("cold", cold)):
            rate = 1e6 / statistics.median(sides.ours)
            report.say(
                f"{name + ', ' + kind:16} {shown(sides.ours):>14} {shown(sides.bare):>14} {sides.ratio:6.2f} "
                f"{rate:10,.0f} {sides.reads / sides.messages:16.3f}"
            )
            report.figures[f"{name} {kind}"] = {
                "ours_us": round(statistics.median(sides.ours), 3),
                "bare_us": round(statistics.median(sides.bare), 3),
                "ratio": round(sides.ratio, 3),
            }
        report.goals.append(Goal(f"read {name}, hot, of the same preads' rate", hot.ratio, GOAL))
    return report


async def _hot(root: str, size: int, count: int, passes: int) -> Sides:
    async with running(root, config_of()) as store:
        for at in range(0, count, 256):
            for draft in drafts_of(size, 256, first=at):
                store.append(draft)
            store.log.write_pending()
        await store.views.flush(store._log_flushed)
        return await _passes(store, count, passes)


async def _cold(root: str, count: int, passes: int) -> Sides:
    async with running(root, config_of()) as store:
        return await _passes(store, count, passes)


async def _passes(store: Store, count: int, passes: int) -> Sides:
    sides = Sides(messages=count)
    with _noted() as reads:
        await _pass(store, count)
    sides.reads, sides.read_bytes = len(reads), sum(length for _, length, _ in reads)
    gc.collect()
    gc.freeze()
    for _ in range(passes):
        began = time.thread_time()
        await _pass(store, count)
        between = time.thread_time()
        _same_preads(reads)
        sides.ours.append((between - began) / count * 1e6)
        sides.bare.append((time.thread_time() - between) / count * 1e6)
    return sides


async def _pass(store: Store, count: int) -> None:
    got, offsets = 0, [0] * QUEUES
    while got < count:
        for queue_id in range(QUEUES):
            pull = Pull(offsets[queue_id], PULLED, MOST_BYTES)
            pulled = store.read_hot(TOPIC, queue_id, pull) or await store.read(TOPIC, queue_id, pull)
            offsets[queue_id] = pulled.next_offset
            got += pulled.messages
    assert got == count, f"{got} of {count} messages found"


def _same_preads(reads: list[Read]) -> None:
    for descriptor, length, position in reads:
        os.pread(descriptor, length, position)


@contextmanager
def _noted() -> Iterator[list[Read]]:
    """Every read of a file, as the operating system is asked for it."""
    reads: list[Read] = []
    pread, preadv = os.pread, os.preadv

    def noting_pread(descriptor: int, length: int, position: int) -> bytes:
        reads.append((descriptor, length, position))
        return pread(descriptor, length, position)

    def noting_preadv(descriptor: int, buffers: Any, position: int, flags: int = 0) -> int:
        reads.append((descriptor, sum(map(len, buffers)), position))
        return preadv(descriptor, buffers, position, flags)

    os.pread, os.preadv = noting_pread, noting_preadv
    try:
        yield reads
    finally:
        os.pread, os.preadv = pread, preadv
