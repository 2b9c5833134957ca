"""Everything that one message costs in the long run, and where it goes.

One store takes messages of 1 KiB with a unique key and a tag, 32 a turn, over 8 queues, as fast as it can for several
flush intervals: log, stamp, queue entry, index entry, files and syncs. CPU of the whole process, its threads and the
process that syncs. The parts are timed once a turn or once a flush, so timing them costs nothing.
"""

import asyncio
import gc
import glob
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any

from benchmarks.store.bench import Bench
from benchmarks.store.messages import drafts_of
from benchmarks.store.report import Report
from benchmarks.store.stores import config_of, on_loop, running
from firearrow.record.encode import Draft
from firearrow.runtime.disk.real_file import RealFile
from firearrow.store.config import FlushMode
from firearrow.store.log.commit_log import CommitLog
from firearrow.store.paths import NEXT_SEGMENT
from firearrow.store.store import Store

TURN = 32


class Clockwork:
    """CPU of the loop's thread, part by part; a part inside another is taken out of it."""

    def __init__(self) -> None:
        self.spent: dict[str, float] = {}
        self._inside = [0.0]

    def time(self, owner: Any, name: str, part: str) -> None:
        """Time every call of a method under a name."""
        method = getattr(owner, name)

        @wraps(method)
        def timed(*arguments: Any, **named: Any) -> Any:
            return self.run(part, lambda: method(*arguments, **named))

        setattr(owner, name, timed)

    def run(self, part: str, work: Callable[[], Any]) -> Any:
        began = time.thread_time()
        self._inside.append(0.0)
        try:
            return work()
        finally:
            took = time.thread_time() - began
            inside = self._inside.pop()
            self.spent[part] = self.spent.get(part, 0.0) + took - inside
            self._inside[-1] += took


def measure(bench: Bench) -> Report:
    """Both flush modes."""
    report = Report("microseconds of CPU for one message of 1 KiB, everything included")
    seconds = 2.0 if bench.quick else 30.0
    modes: tuple[FlushMode, ...] = ("ASYNC_FLUSH", "SYNC_FLUSH")
    for mode in modes:
        with bench.place() as root:
            parts, count, rate = on_loop(_measure(root, mode, seconds))
        report.say(f"{mode}: {count:,} messages, {rate:,.0f} a second")
        total = sum(parts.values())
        for part, us in sorted(parts.items(), key=lambda item: -item[1]):
            report.say(f"    {part:44} {us:6.2f} us  {us / total:4.0%}")
        report.say(f"    {'all of it':44} {total:6.2f} us")
        report.figures[mode] = {part: round(us, 3) for part, us in parts.items()} | {
            "total_us": round(total, 2),
            "messages_s": round(rate),
        }
    return report


async def _measure(root: str, mode: FlushMode, seconds: float) -> tuple[dict[str, float], int, float]:
    config = config_of(flush=mode, segment_bytes=256 << 20)
    async with running(root, config) as store:
        messages = drafts_of(1024, 64 * TURN)
        groups = [messages[at : at + TURN] for at in range(0, len(messages), TURN)]
        await _send(store, groups, 0.5, lambda work: work())
        clockwork = Clockwork()
        gc.collect()
        gc.freeze()
        cpu, wall, us = time.process_time(), time.perf_counter(), time.thread_time()
        others = _children_cpu()
        with _wired(clockwork, store):
            count = await _send(store, groups, seconds, lambda work: clockwork.run("place, encode and stamp", work))
            await store.views.flush(store._log_flushed)
        loop_cpu, whole = time.thread_time() - us, time.process_time() - cpu
        rate = count / (time.perf_counter() - wall)
        spent = clockwork.spent
        spent["flushing queues, index, checkpoint; loop turns"] = loop_cpu - sum(spent.values())
        spent["threads: zeros ahead, reads, syncs"] = whole - loop_cpu
        spent["the process that syncs"] = _children_cpu() - others
    return {part: took / count * 1e6 for part, took in spent.items()}, count, rate


@contextmanager
def _wired(clockwork: Clockwork, store: Store) -> Iterator[None]:
    dispatch = store.views.dispatch
    clockwork.time(dispatch, "enter_queues", "queue entries")
    assert store.views.index is not None
    clockwork.time(store.views.index, "absorb", "index entries")
    write_at, write_pending = RealFile.write_at, CommitLog.write_pending

    def timed_write(self: RealFile, position: int, buffers: Any) -> None:
        # A segment that was made ahead keeps the path under which it was opened.
        of_log = self.path == NEXT_SEGMENT or self.path.startswith("commitlog")
        part = "writes, log" if of_log else "writes, other files"
        clockwork.run(part, lambda: write_at(self, position, buffers))

    def timed_turn(self: CommitLog) -> Any:
        return clockwork.run("a turn's bookkeeping", lambda: write_pending(self))

    RealFile.write_at, CommitLog.write_pending = timed_write, timed_turn  # type: ignore[method-assign]
    try:
        yield
    finally:
        RealFile.write_at, CommitLog.write_pending = write_at, write_pending  # type: ignore[method-assign]


async def _send(
    store: Store, groups: list[list[Draft]], seconds: float, timed: Callable[[Callable[[], None]], Any]
) -> int:
    loop = asyncio.get_running_loop()
    until, sent = loop.time() + seconds, 0
    append = store.append
    while loop.time() < until:
        for group in groups:

            def turn(group: list[Draft] = group) -> None:
                for draft in group:
                    append(draft)

            timed(turn)
            await asyncio.sleep(0)
            sent += len(group)
    return sent


def _children_cpu() -> float:
    """CPU seconds of the processes that this one started and that still run."""
    total = 0.0
    for children in glob.glob("/proc/self/task/*/children"):
        with open(children, encoding="ascii") as numbers:
            for number in numbers.read().split():
                with open(f"/proc/{number}/schedstat", encoding="ascii") as times:
                    total += int(times.read().split()[0]) / 1e9
    return total
