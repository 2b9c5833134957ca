"""Group commit under SYNC_FLUSH: acknowledgements a second, beside bare syncs of the same records.

With a sync of 2 ms injected below everything, and as the device is. The loop is kept busy: it never sleeps, and every
turn has 50 us of work that has nothing to do with the store. Senders "at once" send again when they are answered, so
that a sync begins when the last one has been answered for; senders "1 ms away" are answered over a network, so that the
next sync has work already: there syncs are counted, not answers. Bare: write what so many senders send, sync, again,
with nothing else to do. Slices of both in turn. A loop that never sleeps waits for a CPU on a busy machine, and the
bare side, which sleeps, hardly does: so a cycle from one sync to the next counts only when its thread waited for no CPU
during it, on both sides; which part of the cycles that was is printed, and below a twentieth says nothing.
"""

import asyncio
import os
import time
from contextlib import nullcontext
from dataclasses import dataclass, field

from benchmarks.store.bench import Bench
from benchmarks.store.messages import Reference, drafts_of
from benchmarks.store.pacing import CpuWait
from benchmarks.store.report import Goal, Report, spread
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
NO_WAIT = 50e-6


@dataclass(frozen=True, slots=True)
class Senders:
    """The senders, and their disk."""

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
class Cycles:
    """From one sync to the next: seconds, seconds of it without a CPU, what was done."""

    all: list[tuple[float, float, int]] = field(default_factory=list)

    @property
    def quiet(self) -> list[tuple[float, float, int]]:
        return [cycle for cycle in self.all if cycle[1] <= NO_WAIT]

    @property
    def rates(self) -> list[float]:
        return [done / took for took, _, done in self.quiet or self.all]

    @property
    def rate(self) -> float:
        """The commits a second."""
        counted = self.quiet or self.all
        return sum(done for _, _, done in counted) / sum(took for took, _, _ in counted)


def measure(bench: Bench) -> Report:
    """Senders of every kind, with the injected sync and the device's own, the next file filled ahead and not."""
    report = Report("answers (1 ms away: syncs) a second beside a busy loop, of the same with bare syncs")
    report.say(f"{'':44} {'ours':>16} {'bare':>16} {'ratio':>6} {'counted':>12}")
    for senders in SCENES:
        with bench.place() as root, slow_syncs() if senders.injected else nullcontext():
            ours, bare = on_loop(_compare(root, senders, slices=2 if bench.quick else 40))
        ratio = ours.rate / bare.rate
        counted = [len(side.quiet) / len(side.all) for side in (ours, bare)]
        report.say(
            f"{senders!s:44} {_shown(ours):>16} {_shown(bare):>16} {ratio:6.2f} {counted[0]:>5.0%} {counted[1]:>5.0%}"
        )
        report.figures[str(senders)] = {
            "ours": round(ours.rate),
            "bare": round(bare.rate),
            "ratio": round(ratio, 3),
            "cycles_counted": [len(ours.quiet), len(bare.quiet)],
        }
        if senders.injected:
            report.goals.append(Goal(f"group commit, {senders}, of bare", ratio, GOAL))
    return report


def _shown(cycles: Cycles) -> str:
    return f"{cycles.rate:,.0f} ±{spread(cycles.rates):.0%}"


async def _compare(root: str, senders: Senders, *, slices: int) -> tuple[Cycles, Cycles]:
    ours, bare, seconds = Cycles(), Cycles(), 0.25
    config = config_of(flush="SYNC_FLUSH", segment_bytes=SEGMENT, zero_fill=senders.zero_fill)
    drafts = drafts_of(1024, senders.count)
    async with running(f"{root}/ours", config) as store:
        # The route of syncs is learnt, and the first two files are made: none of it is the steady state.
        await Sending(store, senders).run(1.5 if slices > 2 else 0.3)
        reference = Reference(f"{root}/bare", 0)
        if senders.zero_fill:
            os.pwrite(reference.descriptor, bytes(SEGMENT), 0)
        else:
            os.ftruncate(reference.descriptor, SEGMENT)
        os.fsync(reference.descriptor)
        for _ in range(slices):
            ours.all += await Sending(store, senders).run(seconds)
            bare.all += _bare(reference, drafts, seconds, 1 if senders.away else senders.count)
        reference.close()
    return ours, bare


def _bare(reference: Reference, drafts: list[Draft], seconds: float, done: int) -> list[tuple[float, float, int]]:
    cycles = []
    cpu_wait = CpuWait()
    began = now = time.perf_counter()
    waited = cpu_wait()
    while now - began < seconds:
        if reference.at > SEGMENT - (1 << 20):
            reference.at = 0
        reference.write(drafts, 1_700_000_000_001)
        os.fdatasync(reference.descriptor)
        before, waited_before = now, waited
        now, waited = time.perf_counter(), cpu_wait()
        cycles.append((now - before, waited - waited_before, done))
    cpu_wait.close()
    return cycles


class Sending:
    """Senders that wait for their answer, on a loop with other work."""

    def __init__(self, store: Store, senders: Senders) -> None:
        self._store = store
        self._senders = senders
        self._drafts = drafts_of(1024, senders.count)
        self._loop = asyncio.get_running_loop()
        self._answered = self._out = 0
        self._flushed = -1
        self._until = 0.0
        self._cpu_wait = CpuWait()
        self._cycles: list[tuple[float, float, int]] = []
        self._last = (0.0, 0.0)
        self._done = self._loop.create_future()

    async def run(self, seconds: float) -> list[tuple[float, float, int]]:
        """Send for some time; return the cycles between syncs, without the first."""
        self._until = time.perf_counter() + seconds
        self._out = self._senders.count
        for number in range(self._senders.count):
            self._send(number)
        self._loop.call_soon(self._other_work)
        await self._done
        self._cpu_wait.close()
        return self._cycles[1:]

    def _synced(self) -> None:
        """The first answer after a sync."""
        self._flushed = self._store.log.flushed
        before, self._last = self._last, (time.perf_counter(), self._cpu_wait())
        took, waited = self._last[0] - before[0], self._last[1] - before[1]
        self._cycles.append((took, waited, 1 if self._senders.away else self._answered))
        self._answered = 0

    def _send(self, number: int) -> None:
        def told(error: FireArrowError | None) -> None:
            assert error is None, error
            if self._store.log.flushed != self._flushed:
                self._synced()
            self._answered += 1
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
