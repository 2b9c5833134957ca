"""The process dies at every system call that changes its directory, one run for each.

A small life of a store (made, written, rolled over several segments, closed, opened again, written, closed) is run with
the process killed in place of its first such call, then of its second, and so on to the last that any run has made: so
the points found are the points covered. Every write is also torn: a part of its bytes is written before the death.
After each death the directory is opened again and held to what was promised. Other scenarios begin with a store that
was killed before, so that the deaths come while it recovers.
"""

import asyncio
import os
import shutil
import tempfile
from collections import Counter
from typing import Final, NamedTuple

from msgspec.structs import replace

from campaigns.faults.acks import Ack, parse_acks
from campaigns.faults.checker import check
from campaigns.faults.intercept.filters import WRITES
from campaigns.faults.intercept.interception import Decide, Intercepted, Kill, Point, Verdict, run_intercepted
from campaigns.faults.ledger import Figures
from campaigns.faults.recipe import Recipe
from campaigns.faults.session import NEVER_MS, Options, RouteName
from campaigns.faults.writer import Say, live
from firearrow.store.config import FlushMode

MESSAGES: Final = 24
SECOND_FIRST: Final = 1000
TEARS: Final = (0.1, 0.5, 0.77, 0.99)
"""The part of a torn write that is written."""
ATTEMPTS: Final = 40


class Scenario(NamedTuple):
    """One kind of life that is ended everywhere."""

    flush: FlushMode
    route: RouteName
    torn: bool
    reborn: bool
    """Whether the life that is ended begins with the recovery of a store that was killed before."""
    deletes: bool = False
    """Whether log files are deleted on the way."""

    @property
    def name(self) -> str:
        """A word for the ledger."""
        parts = [self.flush.split("_")[0].lower(), self.route, "torn" if self.torn else "", "again" * self.reborn]
        parts.append("deleting" * self.deletes)
        return "-".join(part for part in parts if part)


SCENARIOS: Final = [
    Scenario(flush, "inline", torn, reborn)
    for flush in ("SYNC_FLUSH", "ASYNC_FLUSH")
    for torn in (False, True)
    for reborn in (False, True)
] + [
    Scenario("SYNC_FLUSH", "thread", torn=False, reborn=False),
    Scenario("SYNC_FLUSH", "process", torn=False, reborn=False),
    Scenario("SYNC_FLUSH", "inline", torn=False, reborn=False, deletes=True),
]


class Killing:
    """One scenario."""

    def __init__(self, scenario: Scenario, seed: int) -> None:
        self._scenario = scenario
        self._recipe = Recipe(seed, largest=1000)
        self._base: str | None = None
        self._base_acks: list[Ack] = []
        self.found = 0
        self.counts: Counter[str] = Counter()
        self.broken: list[str] = []

    def run(self, part: int = 0, parts: int = 1) -> Figures:
        """Find the points, end a life at each of them (or at every ``parts``-th), and check what is left."""
        with tempfile.TemporaryDirectory(prefix="killing-") as scratch:
            if self._scenario.reborn:
                self._make_base(os.path.join(scratch, "base"))
            self._found(self._live(os.path.join(scratch, "whole"), lambda _: None))
            index = part
            while index < self.found:
                for share in TEARS if self._scenario.torn else (0.0,):
                    self._end_at(scratch, index, share)
                index += parts
        return {
            "scenario": self._scenario.name,
            "points": len(range(part, self.found, parts)) * (len(TEARS) if self._scenario.torn else 1),
            "covered": self.counts["covered"],
            "promised": self.counts["promised"],
            "lost": self.counts["lost"],
            "broken": len(self.broken),
            "part": f"{part}/{parts}",
        }

    def _found(self, ran: Intercepted) -> None:
        self.found = max(self.found, sum(1 for point in ran.points if self._kills(point)))

    def _kills(self, point: Point) -> bool:
        return not self._scenario.torn or (point.call in WRITES and point.length > 1)

    def _end_at(self, scratch: str, index: int, share: float) -> None:
        # Where timers race, one run may have a few calls more than another: such a point is tried again.
        for attempt in range(ATTEMPTS):
            if self._ended_at(os.path.join(scratch, f"at-{index}-{share}-{attempt}"), index, share):
                self.counts["covered"] += 1
                return

    def _ended_at(self, root: str, index: int, share: float) -> bool:
        before = iter(range(index + 1))

        def decide(point: Point) -> Verdict:
            if not self._kills(point) or next(before, -1) != index:
                return None
            return Kill(int(point.length * share))

        ran = self._live(root, decide)
        self._found(ran)
        if ran.hit:
            promised = self._base_acks + parse_acks(bytes(ran.child.output))
            self._check(root, promised, f"{self._scenario.name}, killed at {ran.points[-1]}, {share} written")
        elif ran.status or ran.hung:
            self.broken.append(f"point {index}: a life without a death ended with {ran.status}")
        shutil.rmtree(root)
        return ran.hit

    def _check(self, root: str, promised: list[Ack], story: str) -> None:
        try:
            findings = asyncio.run(check(self._options(root), self._recipe, promised))
        except Exception as error:  # noqa: BLE001 - a store that cannot be opened is a finding
            self.broken.append(f"{story}: cannot be opened: {type(error).__name__}: {error}")
            return
        self.counts["promised"] += findings.promised
        self.counts["lost"] += len(findings.lost)
        if not findings.good:
            self.broken.append(f"{story}: {findings.story()}")

    def _live(self, root: str, decide: Decide) -> Intercepted:
        if self._base is not None:
            shutil.copytree(self._base, root)
        options, first = self._options(root), SECOND_FIRST if self._base else 0
        inflight = 2 if options.route == "inline" else 1

        def work(say: Say) -> None:
            asyncio.run(live(options, self._recipe, say, first=first, count=MESSAGES, inflight=inflight, lives=2))

        return run_intercepted(work, root, decide)

    def _make_base(self, root: str) -> None:
        """A store whose process died in the middle of a write to its log, late in its life."""
        writes = 0

        def decide(point: Point) -> Verdict:
            nonlocal writes
            writes += point.call in WRITES and point.path.startswith("commitlog")
            return Kill(point.length * 2 // 3) if writes == MESSAGES * 2 // 5 else None

        ran = self._live(root, decide)
        assert ran.hit, "the store that should have been killed was not"
        self._base, self._base_acks = root, parse_acks(bytes(ran.child.output))

    def _options(self, root: str) -> Options:
        options = Options(root=root, flush=self._scenario.flush, route=self._scenario.route, segment_bytes=8192)
        deletes = self._scenario.deletes
        return replace(options, interval_ms=10, thorough_ms=20, dispatch_ms=NEVER_MS, deletes=deletes)
