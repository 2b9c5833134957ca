"""The power goes, again and again, on a real file system.

Each cycle a writer opens the store, so that it may lose its power while it recovers, and appends until the power is cut
at a random moment. The file system is mounted again, the store is opened under a new boot id and held to its promises:
under SYNC_FLUSH every one of them; under ASYNC_FLUSH all but those younger than the documented window, and what is left
is a prefix. The window is held against what the writer measured (`timeline`): nothing may be lost that the store called
durable, and nothing that is older than both flush intervals and the time that syncs took or the process did not run.
Everything that a recovery has kept counts as promised from then on. A store lives through several cycles, closed in
order or abandoned between them, and then makes room for a new one.

A planted defect (`Options.mutant`) must not survive many cycles: this is how the campaign shows that it can see.
"""

import asyncio
import os
import random
import select
import shutil
import time
from collections import Counter
from typing import Final

from msgspec.structs import replace

from campaigns.faults.acks import Ack, parse_acks
from campaigns.faults.checker import Findings, check
from campaigns.faults.intercept.children import Child, fork
from campaigns.faults.ledger import Figures
from campaigns.faults.loop_file_system import FileSystem, LoopFileSystem
from campaigns.faults.recipe import Recipe
from campaigns.faults.session import Mutant, Options
from campaigns.faults.timeline import RESOLUTION_MS, Timeline
from campaigns.faults.writer import Say, live
from firearrow.store.config import FlushMode

CYCLES_A_STORE: Final = 8
NUMBERS_A_CYCLE: Final = 100_000
LONGEST_CYCLE_S: Final = 0.12
LONG_CYCLE_S: Final = 1.5
LONG_CYCLES: Final = 0.2
CUT_WHILE_OPENING: Final = 0.3
"""The share of runs whose time counts from the start of the process; else from the end of its recovery."""


class PowerLoss:
    """Cycles on one file system with one flush mode."""

    def __init__(self, filesystem: FileSystem, flush: FlushMode, seed: int, mutant: Mutant = "") -> None:
        self._filesystem: FileSystem = filesystem
        self._flush: FlushMode = flush
        self._seed = seed
        self._mutant: Mutant = mutant
        self._rng = random.Random(seed)
        self._recipe = Recipe(seed)
        self._promised: dict[int, Ack] = {}
        self._boot = 0
        self._options = Options(root="")
        self.counts: Counter[str] = Counter()
        self.oldest_lost_ms = 0
        self.beyond_ms = 0
        """The most by which a lost message was older than the two intervals."""
        self.missed_ms = 0
        """The part of the time after that message in which the loop did not turn, or waited for a sync."""
        self.broken: list[str] = []

    def run(self, cycles: int, *, stop_when_broken: bool = False) -> Figures:
        """Cut the power so many times."""
        started = time.monotonic()
        with LoopFileSystem(self._filesystem) as mounted:
            for cycle in range(cycles):
                if cycle % CYCLES_A_STORE == 0:
                    self._new_store(mounted.root)
                self._cycle(mounted, cycle)
                if stop_when_broken and self.broken:
                    break
        return {
            "filesystem": self._filesystem,
            "flush": self._flush,
            "seed": self._seed,
            "cycles": self.counts["cycles"],
            "promised": self.counts["promised"],
            "lost": self.counts["lost"],
            "oldest_lost_ms": self.oldest_lost_ms,
            "intervals_ms": self._intervals_ms if self._flush == "ASYNC_FLUSH" else 0,
            "beyond_ms": self.beyond_ms,
            "missed_ms": self.missed_ms,
            "cut": self.counts["cut"],
            "empty": self.counts["empty"],
            "broken": len(self.broken),
            "seconds_a_cycle": round((time.monotonic() - started) / max(1, self.counts["cycles"]), 3),
        }

    @property
    def _intervals_ms(self) -> int:
        return self._options.thorough_ms + self._options.interval_ms

    def _new_store(self, root: str) -> None:
        for name in os.listdir(root):
            if name.startswith("store-"):
                shutil.rmtree(os.path.join(root, name))
        self._promised.clear()
        syncs = self._flush == "SYNC_FLUSH"
        directory = os.path.join(root, f"store-{self._rng.getrandbits(32):08x}")
        self._options = Options(
            root=directory,
            flush=self._flush,
            # Under ASYNC_FLUSH a sync must not have to go through hundreds of files to keep its interval.
            segment_bytes=self._rng.choice((16_384, 32_768, 65_536) if syncs else (1 << 18, 1 << 20)),
            zero_fill=self._rng.random() < 0.5,
            route=self._rng.choice(("inline", "inline", "thread")),
            mutant=self._mutant,
            interval_ms=100,
            thorough_ms=200,
            watched=not syncs,
        )

    def _cycle(self, mounted: LoopFileSystem, cycle: int) -> None:
        options = replace(self._options, boot_id=f"boot-{self._boot}")
        first, inflight = cycle * NUMBERS_A_CYCLE, self._rng.choice((1, 2, 8))

        def work(say: Say) -> None:
            count = NUMBERS_A_CYCLE - 10
            asyncio.run(live(options, self._recipe, say, first=first, count=count, inflight=inflight, lives=1))

        child = fork(work)
        if not self._let_it_write(child):
            self.broken.append(f"seed {self._seed}, cycle {cycle}: the writer ended before the power was cut")
        cut_at = time.monotonic_ns()
        mounted.cut_power()
        child.kill()
        child.finish()
        mounted.power_up()
        acks = parse_acks(bytes(child.output))
        self._promised |= {ack.number: ack for ack in acks}
        self.counts["cycles"] += 1
        self.counts["promised"] += len(acks)
        self.counts["empty"] += not acks
        self._boot += 1
        self._check(cycle, cut_at, Timeline.parse(bytes(child.output), cut_at))

    def _let_it_write(self, child: Child) -> bool:
        """Wait for a random while, taking what the writer says; False when it ended by itself."""
        rng = self._rng
        longest = LONG_CYCLE_S if self._flush == "ASYNC_FLUSH" and rng.random() < LONG_CYCLES else LONGEST_CYCLE_S
        while_opening, left = rng.random() < CUT_WHILE_OPENING, rng.random() * longest
        while not while_opening and b"# open" not in child.output:
            if not child.read():
                return False
        deadline = time.monotonic() + left
        poll = select.poll()
        poll.register(child.pipe, select.POLLIN)
        while (left := deadline - time.monotonic()) > 0:
            if poll.poll(left * 1000) and not child.read():
                return False
        return True

    def _check(self, cycle: int, cut_at: int, timeline: Timeline) -> None:
        options = replace(self._options, boot_id=f"boot-{self._boot}", mutant="")
        promised = list(self._promised.values())
        closes = self._rng.random() < 0.5
        try:
            findings = asyncio.run(
                check(options, self._recipe, promised, may_lose=self._flush == "ASYNC_FLUSH", close=closes)
            )
        except Exception as error:  # noqa: BLE001 - a store that cannot be opened is a finding
            self.broken.append(f"seed {self._seed}, cycle {cycle}: cannot be opened: {type(error).__name__}: {error}")
            self._promised.clear()
            return
        self._note(cycle, cut_at, findings, timeline)

    def _note(self, cycle: int, cut_at: int, findings: Findings, timeline: Timeline) -> None:
        self.counts["cut"] += findings.cut_bytes > 0
        gone = [ack for number, ack in self._promised.items() if number not in findings.found]
        self.counts["lost"] += len(gone)
        if self._flush == "ASYNC_FLUSH" and gone:
            self._hold_to_window(cycle, min(ack.ticks for ack in gone), cut_at, timeline)
        if timeline.flushed > findings.end:
            self.broken.append(
                f"seed {self._seed}, cycle {cycle}: ends at {findings.end}, durable to {timeline.flushed}"
            )
        if not findings.good:
            self.broken.append(f"seed {self._seed}, cycle {cycle}: {findings.story()}")
        self._promised = dict(findings.found)

    def _hold_to_window(self, cycle: int, promised_at: int, cut_at: int, timeline: Timeline) -> None:
        """Judge the oldest promise that was lost."""
        age_ms, missed_ms = (cut_at - promised_at) // 1_000_000, timeline.missed_ms(promised_at, cut_at)
        self.oldest_lost_ms = max(self.oldest_lost_ms, age_ms)
        if age_ms - self._intervals_ms > self.beyond_ms:
            self.beyond_ms, self.missed_ms = age_ms - self._intervals_ms, missed_ms
        story = f"seed {self._seed}, cycle {cycle}: lost a message promised {age_ms} ms before the cut"
        if age_ms > self._intervals_ms + missed_ms + RESOLUTION_MS:
            self.broken.append(f"{story}; the intervals are {self._intervals_ms} ms, only {missed_ms} ms were missed")
