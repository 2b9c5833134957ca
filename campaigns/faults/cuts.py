"""The power goes in place of every system call that changes the store, one cycle for each, on a real file system.

`power_loss` cuts at moments of the machine's choosing; here the moments are exact. The life of a small store is run on
a loop-mounted file system. The kernel stops each of its calls that changes something; at the first, then at the second,
and so on to the last that any run has made, the file system is told to stop in place of the call. It is mounted again,
the store is opened under a new boot id and held to its promises: under SYNC_FLUSH all of them, under ASYNC_FLUSH those
below what the store called durable.

In a quiet life nothing but the log is written: what is not synced there is not made durable by some other sync either,
for a journal takes everything before it along. So a missing sync shows every time: see `Cutting.unnamed_segments`.
"""

import asyncio
import os
import shutil
import time
from collections import Counter
from typing import Final, NamedTuple

from msgspec.structs import replace

from campaigns.faults.acks import Ack, parse_acks
from campaigns.faults.checker import check
from campaigns.faults.intercept.filters import SYNCS
from campaigns.faults.intercept.interception import Intercepted, Kill, Point, Verdict, run_intercepted
from campaigns.faults.ledger import Figures
from campaigns.faults.loop_file_system import FileSystem, LoopFileSystem
from campaigns.faults.recipe import Recipe
from campaigns.faults.session import NEVER_MS, Mutant, Options
from campaigns.faults.writer import Say, live
from firearrow.store.config import FlushMode
from firearrow.store.paths import NEXT_SEGMENT

MESSAGES: Final = 40
LONG_LIFE: Final = 120
"""Messages enough for several segments: the first is made in place, and each of its syncs takes names along."""
ATTEMPTS: Final = 20


class Life(NamedTuple):
    """One run of a program, and its directory."""

    filesystem: FileSystem
    flush: FlushMode
    quiet: bool = False
    """Whether nothing but the log is written."""

    @property
    def name(self) -> str:
        """A word for the ledger."""
        return f"{self.filesystem}-{self.flush.split('_')[0].lower()}{'-quiet' * self.quiet}"


LIVES: Final = [
    Life(filesystem, flush, quiet)
    for filesystem in ("ext4", "xfs")
    for flush in ("SYNC_FLUSH", "ASYNC_FLUSH")
    for quiet in (False, True)
]


class Cutting:
    """One life, cut at every point."""

    def __init__(self, life: Life, seed: int, mutant: Mutant = "") -> None:
        self._life = life
        self._recipe = Recipe(seed, largest=1000)
        self._mutant: Mutant = mutant
        self._stores = 0
        self.found = 0
        self.counts: Counter[str] = Counter()
        self.broken: list[str] = []

    def run(self, part: int = 0, parts: int = 1) -> Figures:
        """Cut at every ``parts``-th point."""
        started = time.monotonic()
        with LoopFileSystem(self._life.filesystem) as mounted:
            self._live(mounted, None)
            index = part
            while index < self.found:
                # Where timers race, one run may have a few calls more than another: such a point is tried again.
                any(self._cut_at(mounted, index) for _ in range(ATTEMPTS))
                index += parts
        return self._figures(len(range(part, self.found, parts)), started) | {"part": f"{part}/{parts}"}

    def unnamed_segments(self) -> Figures:
        """Cut where the next segment is about to be synced: the one in use was renamed, and nothing was synced since.

        What was promised of that one then hangs on the sync of its directory alone. On xfs a sync of the file brings
        its new name along, so there the lack of one cannot be seen.
        """
        started = time.monotonic()
        with LoopFileSystem(self._life.filesystem) as mounted:
            whole = self._live(mounted, None, only_next=True)
            points = [point.number for point in whole.points if _syncs_next(point)]
            for nth in range(len(points)):
                self._cut_at(mounted, nth, only_next=True)
        return self._figures(len(points), started)

    def _figures(self, points: int, started: float) -> Figures:
        counts = self.counts
        return {
            "life": self._life.name,
            "points": points,
            "covered": counts["covered"],
            "promised": counts["promised"],
            "lost": counts["lost"],
            "cut": counts["cut"],
            "broken": len(self.broken),
            "seconds_a_cycle": round((time.monotonic() - started) / max(1, counts["covered"]), 3),
        }

    def _cut_at(self, mounted: LoopFileSystem, index: int, *, only_next: bool = False) -> bool:
        ran = self._live(mounted, index, only_next=only_next)
        if ran.hit:
            self.counts["covered"] += 1
            self._check(mounted, parse_acks(bytes(ran.child.output)), ran.points[-1])
        elif ran.status or ran.hung:
            self.broken.append(f"point {index}: a life without a cut ended with {ran.status}")
        return ran.hit

    def _live(self, mounted: LoopFileSystem, cut_at: int | None, *, only_next: bool = False) -> Intercepted:
        """Run a life on an empty file system; the power goes at that point, or not at all."""
        for name in os.listdir(mounted.root):
            if name.startswith("store-"):
                shutil.rmtree(os.path.join(mounted.root, name))
        self._stores += 1
        options, count = self._options(mounted), LONG_LIFE if only_next else MESSAGES
        seen = -1

        def decide(point: Point) -> Verdict:
            nonlocal seen
            if only_next and not _syncs_next(point):
                return None
            seen += 1
            if seen != cut_at:
                return None
            mounted.cut_power()
            return Kill()

        def work(say: Say) -> None:
            asyncio.run(live(options, self._recipe, say, first=0, count=count, inflight=1, lives=2))

        ran = run_intercepted(work, options.root, decide)
        if not only_next:
            self.found = max(self.found, len(ran.points))
        if ran.hit:
            mounted.power_up()
        return ran

    def _check(self, mounted: LoopFileSystem, promised: list[Ack], point: Point) -> None:
        options = replace(self._options(mounted), boot_id="boot-1", mutant="")
        story = f"{self._life.name}, cut at {point}"
        self.counts["promised"] += len(promised)
        try:
            may_lose = self._life.flush == "ASYNC_FLUSH"
            findings = asyncio.run(check(options, self._recipe, promised, may_lose=may_lose))
        except Exception as error:  # noqa: BLE001 - a store that cannot be opened is a finding
            self.broken.append(f"{story}: cannot be opened: {type(error).__name__}: {error}")
            return
        self.counts["cut"] += findings.cut_bytes > 0
        self.counts["lost"] += sum(ack.number not in findings.found for ack in promised)
        if not findings.good:
            self.broken.append(f"{story}: {findings.story()}")

    def _options(self, mounted: LoopFileSystem) -> Options:
        return Options(
            root=os.path.join(mounted.root, f"store-{self._stores}"),
            flush=self._life.flush,
            segment_bytes=8192,
            interval_ms=10,
            thorough_ms=20,
            dispatch_ms=NEVER_MS,
            quiet=self._life.quiet,
            mutant=self._mutant,
        )


def _syncs_next(point: Point) -> bool:
    return point.call in SYNCS and point.path == NEXT_SEGMENT
