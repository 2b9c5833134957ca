"""Reading queues in order, beside the preads of the same records.

Eight queues lie interleaved in the log; each is read from its start with pulls of 32 messages. The other side reads the
same records with nothing around it: one ``pread`` of 32 entries for every pull and one of every record. The store may
do with fewer, by reading records that lie near each other at once; how many it makes is printed. Hot: written by this
process. Cold: the first read after a restart, which judges every record before it is served. Again: what comes after
it, which must cost what hot does.
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
from firearrow.store.queue.consume_queue import ENTRY, ENTRY_BYTES
from firearrow.store.read.queue_reader import ReadRequest
from firearrow.store.store import Store

GOAL = 0.5
AGAIN_GOAL = 0.8
"""The rate of a second read after a restart, as a share of that of a read of what this process wrote."""
QUEUES = 8
PULLED = 32
MOST_BYTES = 256 << 10

Read = tuple[int, int, int]
"""Descriptor, length, position."""


@dataclass(slots=True)
class Sides:
    """Microseconds of CPU a message, pass by pass, and how many reads the store made for one pass."""

    ours: list[float] = field(default_factory=list)
    bare: list[float] = field(default_factory=list)
    reads: int = 0
    messages: int = 0

    @property
    def ratio(self) -> float:
        return statistics.median(self.bare) / statistics.median(self.ours)


def measure(bench: Bench) -> Report:
    """Three sizes, hot, cold and read again."""
    report = Report("microseconds of CPU a message, 8 queues interleaved, and the rate as a part of the same preads'")
    report.say(f"{'':16} {'ours':>14} {'same preads':>14} {'ratio':>6} {'a second':>10} {'reads a message':>16}")
    for name, size in SIZES.items():
        count = (50 if bench.quick else 500) * 256 // (4 if size > 1024 else 1) // 256 * 256
        with bench.place() as root:
            hot = on_loop(_hot(root, size, count, passes=3 if bench.quick else 9))
            cold = on_loop(_cold(root, count, restarts=3 if bench.quick else 5))
            again = on_loop(_again(root, count, passes=3 if bench.quick else 9))
        for kind, sides in (("hot", hot), ("cold", cold), ("again", again)):
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
        report.goals.append(Goal(f"read {name}, again, of hot's rate", again.ratio / hot.ratio, AGAIN_GOAL))
    return report


async def _hot(root: str, size: int, count: int, passes: int) -> Sides:
    async with running(root, config_of()) as store:
        for at in range(0, count, 256):
            for draft in drafts_of(size, 256, first=at):
                store.append(draft)
            store.log.write_pending()
        await store.views.flush(store._log_flushed)
        return await _passes(store, count, passes)


async def _cold(root: str, count: int, restarts: int) -> Sides:
    sides = Sides(messages=count)
    for _ in range(restarts):
        async with running(root, config_of()) as store:
            reads = await _records(store, count)
            with _counted() as counted:
                await _timed(store, count, reads, sides)
            sides.reads = sum(counted) - len(reads)
    return sides


async def _again(root: str, count: int, passes: int) -> Sides:
    async with running(root, config_of()) as store:
        return await _passes(store, count, passes)


async def _passes(store: Store, count: int, passes: int) -> Sides:
    sides = Sides(messages=count)
    await _pass(store, count)
    with _counted() as counted:
        await _pass(store, count)
    sides.reads = sum(counted)
    reads = await _records(store, count)
    gc.collect()
    gc.freeze()
    for _ in range(passes):
        await _timed(store, count, reads, sides)
    return sides


async def _timed(store: Store, count: int, reads: list[Read], sides: Sides) -> None:
    """One pass of ours and one of the same preads."""
    began = time.thread_time()
    await _pass(store, count)
    between = time.thread_time()
    _same_preads(reads)
    sides.ours.append((between - began) / count * 1e6)
    sides.bare.append((time.thread_time() - between) / count * 1e6)


async def _pass(store: Store, count: int) -> None:
    got, offsets = 0, [0] * QUEUES
    while got < count:
        for queue_id in range(QUEUES):
            pull = ReadRequest(offsets[queue_id], PULLED, MOST_BYTES)
            pulled = store.read_hot(TOPIC, queue_id, pull) or await store.read(TOPIC, queue_id, pull)
            offsets[queue_id] = pulled.next_offset
            got += pulled.messages
    assert got == count, f"{got} of {count} messages found"


async def _records(store: Store, count: int) -> list[Read]:
    """Every pull's entries and records in the order of `_pass`: where they lie."""
    reads: list[Read] = []
    offsets = [0] * QUEUES
    while sum(offsets) < count:
        for queue_id in range(QUEUES):
            first = offsets[queue_id]
            queue = store.queues.tail_of(TOPIC, queue_id)
            entries = ENTRY.iter_unpack(await store.queues.entries(queue, first, PULLED))
            of_queue = store.queues.files._file(queue, store.queues.files.first_of(first))
            position = first % store.queues.files.per_file * ENTRY_BYTES
            reads.append((_descriptor(of_queue), PULLED * ENTRY_BYTES, position))
            for physical, size, _ in entries:
                segment = store.opened.segments.at(physical)
                assert segment is not None
                reads.append((_descriptor(segment.file), size, physical - segment.start))
                offsets[queue_id] += 1
    return reads


def _descriptor(file: Any) -> int:
    """The operating system's number of a file of the store."""
    number: int = file._disk.cache.descriptor(file._handle)
    return number


def _same_preads(reads: list[Read]) -> None:
    for descriptor, length, position in reads:
        os.pread(descriptor, length, position)


@contextmanager
def _counted() -> Iterator[list[int]]:
    """Count every read of a file."""
    counted = [0]
    pread, preadv = os.pread, os.preadv

    def counting_pread(descriptor: int, length: int, position: int) -> bytes:
        counted[0] += 1
        return pread(descriptor, length, position)

    def counting_preadv(descriptor: int, buffers: Any, position: int, flags: int = 0) -> int:
        counted[0] += 1
        return preadv(descriptor, buffers, position, flags)

    os.pread, os.preadv = counting_pread, counting_preadv
    try:
        yield counted
    finally:
        os.pread, os.preadv = pread, preadv
