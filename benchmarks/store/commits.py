"""Group commit under SYNC_FLUSH: acknowledgements a second, beside bare syncs of the same records.

With a sync of 2 ms injected below everything, and as the device is. The loop is kept busy: it never sleeps, and every
turn has 50 us of work that has nothing to do with the store. Senders "at once" send again when they are answered, so
that a sync begins when the last one has been answered for; senders "1 ms away" are answered over a network, so that the
next sync has work already: there syncs are counted, not answers. Bare: write what so many senders send, sync, again,
with nothing else to do. Slices of both in turn; a busy loop on a busy machine waits for a CPU, so only the third of the
slices in which it waited least counts, and how much it waited is printed.
"""

import asyncio
import os
import statistics
import time
from contextlib import nullcontext
from dataclasses import dataclass, field

from benchmarks.store.bench import Bench
from benchmarks.store.messages import Reference, drafts_of
from benchmarks.store.pacing import CpuWait
from benchmarks.store.report import Goal, Report, shown
from benchmarks.store.slowsync import slow_syncs
from benchmarks.store.stores import config_of, on_loop, running
from firearrow.errors import FireArrowError
from firearrow.record.encode import Draft
from firearrow.store.placement import FLUSHED
from firearrow.store.store import Store

GOAL = 0.8
SEGMENT = 64 << 20
TURN_SECONDS = 50e-6
AWAY_SECONDS = 0.001


@dataclass(frozen=True, slots=True)
class Senders:
    """Who sends, and over which disk."""

    count: int
    away: bool = False
    injected: bool = True
    zero_fill: bool = True

    def __str__(self) -> str:
        device = "2 ms injected" if self.injected else f"native, {'zeros ahead' if self.zero_fill else 'sparse'}"
        where = "1 ms away" if self.away else "at once"
        return f"{self.count} sender{'s' * (self.count > 1)} {where}, {device}"


SCENES = [
    Senders(1),
    Senders(64),
    Senders(64, away=True),
    *[Senders(count, injected=False, zero_fill=zero_fill) for count in (1, 64) for zero_fill in (True, False)],
]


@dataclass(slots=True)
class Rates:
    """What was done a second, slice by slice, and the part of a slice in which our loop waited for a CPU."""

    slices: list[tuple[float, float, float]] = field(default_factory=list)

    @property
    def quiet(self) -> list[tuple[float, float, float]]:
        return sorted(self.slices)[: max(3, len(self.slices) // 3)]

    @property
    def waited(self) -> float:
        return statistics.median(waited for waited, _, _ in self.quiet)

    @property
    def ours(self) -> list[float]:
        return [ours for _, ours, _ in self.quiet]

    @property
    def bare(self) -> list[float]:
        return [bare for _, _, bare in self.quiet]

    @property
    def ratio(self) -> float:
        return statistics.median(self.ours) / statistics.median(self.bare)


def measure(bench: Bench) -> Report:
    """Senders of every kind, with the injected sync and the device's own, the next file filled ahead and not."""
    report = Report("answers (1 ms away: syncs) a second beside a busy loop, of the same with bare syncs")
    report.say(f"{'':44} {'ours':>16} {'bare':>16} {'ratio':>6} {'no CPU':>7}")
    for senders in SCENES:
        with bench.place() as root, slow_syncs() if senders.injected else nullcontext():
            rates = on_loop(_compare(root, senders, slices=6 if bench.quick else 24))
        ours, bare = shown(rates.ours, 0), shown(rates.bare, 0)
        report.say(f"{senders!s:44} {ours:>16} {bare:>16} {rates.ratio:6.2f} {rates.waited:7.0%}")
        report.figures[str(senders)] = {
            "ours": round(statistics.median(rates.ours)),
            "bare": round(statistics.median(rates.bare)),
            "ratio": round(rates.ratio, 3),
            "waited_for_cpu": round(rates.waited, 3),
        }
        if senders.injected:
            report.goals.append(Goal(f"group commit, {senders}, of bare", rates.ratio, GOAL))
    return report


async def _compare(root: str, senders: Senders, *, slices: int) -> Rates:
    rates, seconds = Rates(), 0.25
    config = config_of(flush="SYNC_FLUSH", segment_bytes=SEGMENT, zero_fill=senders.zero_fill)
    drafts = drafts_of(1024, senders.count)
    async with running(f"{root}/ours", config) as store:
        # The route of syncs is learnt, and the first two files are made: none of it is the steady state.
        await Sending(store, senders).rate(1.5)
        reference = Reference(f"{root}/bare", 0)
        if senders.zero_fill:
            os.pwrite(reference.descriptor, bytes(SEGMENT), 0)
        else:
            os.ftruncate(reference.descriptor, SEGMENT)
        os.fsync(reference.descriptor)
        cpu_wait = CpuWait()
        for _ in range(slices):
            began, waited = time.perf_counter(), cpu_wait()
            ours = await Sending(store, senders).rate(seconds)
            part = (cpu_wait() - waited) / (time.perf_counter() - began)
            bare = _bare(reference, drafts, seconds)
            rates.slices.append((part, ours, bare / senders.count if senders.away else bare))
        cpu_wait.close()
        reference.close()
    return rates


def _bare(reference: Reference, drafts: list[Draft], seconds: float) -> float:
    began, acknowledged = time.perf_counter(), 0
    while (took := time.perf_counter() - began) < seconds:
        if reference.at > SEGMENT - (1 << 20):
            reference.at = 0
        reference.write(drafts, 1_700_000_000_001)
        os.fdatasync(reference.descriptor)
        acknowledged += len(drafts)
    return acknowledged / took


class Sending:
    """Senders that wait for their answer, on a loop with other work."""

    def __init__(self, store: Store, senders: Senders) -> None:
        self._store = store
        self._senders = senders
        self._drafts = drafts_of(1024, senders.count)
        self._loop = asyncio.get_running_loop()
        self._answered = self._syncs = self._out = 0
        self._flushed = 0
        self._until = 0.0
        self._done = self._loop.create_future()

    async def rate(self, seconds: float) -> float:
        """Answers a second, or syncs when senders are away."""
        began = time.perf_counter()
        self._until = began + seconds
        self._out = self._senders.count
        for number in range(self._senders.count):
            self._send(number)
        self._loop.call_soon(self._other_work)
        await self._done
        done = self._syncs if self._senders.away else self._answered
        return done / (time.perf_counter() - began)

    def _send(self, number: int) -> None:
        def told(error: FireArrowError | None) -> None:
            assert error is None, error
            self._answered += 1
            if self._store.log.flushed != self._flushed:
                self._flushed = self._store.log.flushed
                self._syncs += 1
            if time.perf_counter() < self._until:
                if self._senders.away:
                    self._loop.call_later(AWAY_SECONDS, self._send, number)
                else:
                    self._send(number)
                return
            self._out -= 1
            if not self._out:
                self._done.set_result(None)

        self._store.on_reached(self._store.append(self._drafts[number]).end, FLUSHED, told)

    def _other_work(self) -> None:
        until = time.perf_counter() + TURN_SECONDS
        while time.perf_counter() < until:
            pass
        if not self._done.done():
            self._loop.call_soon(self._other_work)
