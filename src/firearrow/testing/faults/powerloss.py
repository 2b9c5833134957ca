"""The power goes, again and again, on a real file system.

Each cycle a writer opens the store, so that it may lose its power while it recovers, and appends until the power is cut
at a random moment. The file system is mounted again, the store is opened under a new boot id and held to its promises:
under SYNC_FLUSH every one of them; under ASYNC_FLUSH all but those younger than the documented window, and what is left
is a prefix. Everything that a recovery has kept counts as promised from then on. A store lives through several cycles,
closed in order or abandoned between them, and then makes room for a new one.

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

from firearrow.store.config import FlushMode
from firearrow.testing.faults.acks import Ack, parse_acks
from firearrow.testing.faults.checker import Findings, check
from firearrow.testing.faults.children import Child, fork
from firearrow.testing.faults.ledger import Figures
from firearrow.testing.faults.loopfs import FileSystem, LoopFileSystem
from firearrow.testing.faults.recipe import Recipe
from firearrow.testing.faults.session import Mutant, Options
from firearrow.testing.faults.writer import Say, live

CYCLES_A_STORE: Final = 8
NUMBERS_A_CYCLE: Final = 100_000
LONGEST_CYCLE_S: Final = 0.12
LONG_CYCLE_S: Final = 4.0
LONG_CYCLES: Final = 0.06
SLACK_MS: Final = 1500
"""How much later than its interval a sync may end on a busy machine."""


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
            "window_ms": self._window_ms if self._flush == "ASYNC_FLUSH" else 0,
            "cut": self.counts["cut"],
            "empty": self.counts["empty"],
            "broken": len(self.broken),
            "seconds_a_cycle": round((time.monotonic() - started) / max(1, self.counts["cycles"]), 3),
        }

    @property
    def _window_ms(self) -> int:
        return self._options.thorough_ms + self._options.interval_ms + SLACK_MS

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
        )

    def _cycle(self, mounted: LoopFileSystem, cycle: int) -> None:
        options = replace(self._options, boot_id=f"boot-{self._boot}")
        first, inflight = cycle * NUMBERS_A_CYCLE, self._rng.choice((1, 2, 8))

        def work(say: Say) -> None:
            count = NUMBERS_A_CYCLE - 10
            asyncio.run(live(options, self._recipe, say, first=first, count=count, inflight=inflight, lives=1))

        child = fork(work)
        self._let_it_write(child)
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
        self._check(cycle, cut_at)

    def _let_it_write(self, child: Child) -> None:
        """Wait for a random while, taking what the writer says."""
        rng = self._rng
        longest = LONG_CYCLE_S if self._flush == "ASYNC_FLUSH" and rng.random() < LONG_CYCLES else LONGEST_CYCLE_S
        deadline = time.monotonic() + rng.random() * longest
        poll = select.poll()
        poll.register(child.pipe, select.POLLIN)
        while (left := deadline - time.monotonic()) > 0:
            if poll.poll(left * 1000) and not child.read():
                return

    def _check(self, cycle: int, cut_at: int) -> None:
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
        self._note(cycle, cut_at, findings)

    def _note(self, cycle: int, cut_at: int, findings: Findings) -> None:
        self.counts["cut"] += findings.cut_bytes > 0
        gone = [ack for number, ack in self._promised.items() if number not in findings.found]
        self.counts["lost"] += len(gone)
        if self._flush == "ASYNC_FLUSH" and gone:
            oldest = max((cut_at - ack.ticks) // 1_000_000 for ack in gone)
            self.oldest_lost_ms = max(self.oldest_lost_ms, oldest)
            if oldest > self._window_ms:
                self.broken.append(f"cycle {cycle}: lost a message promised {oldest} ms before the cut")
        if not findings.good:
            self.broken.append(f"seed {self._seed}, cycle {cycle}: {findings.story()}")
        self._promised = dict(findings.found)
