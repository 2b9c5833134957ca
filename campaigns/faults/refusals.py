"""The disk refuses: every call that changes something fails in turn, once or from then on, whole or half done.

The life of a small store is run with its first such call failing, then its second, and so on. What must hold:

* after a failed sync of the log nothing is promised any more in that life;
* what the store refused for want of space is not found later, and it takes messages again when there is space;
* a short write is completed;
* opened afterwards on a healthy disk, the store has everything it promised, and nothing is damaged.
"""

import asyncio
import errno
import os
import shutil
import tempfile
from collections import Counter
from typing import Final, NamedTuple

from campaigns.faults.acks import parse_acks, parse_refused
from campaigns.faults.checker import check
from campaigns.faults.intercept.filters import SYNCS, WRITES
from campaigns.faults.intercept.interception import Decide, Fail, Intercepted, Point, Short, Verdict, run_intercepted
from campaigns.faults.ledger import Figures
from campaigns.faults.recipe import Recipe
from campaigns.faults.session import NEVER_MS, Options
from campaigns.faults.writer import Say, live
from firearrow.store.config import FlushMode

MESSAGES: Final = 24
ATTEMPTS: Final = 40
COUNTED_LIVES: Final = 5
FULL_CALLS: Final = 6
"""The number of calls in a row that find no space before there is some again."""


class Refusal(NamedTuple):
    """One way to refuse."""

    name: str
    number: int
    calls: int
    """The number of calls in a row that are refused; 0 for all that come after."""
    share: float = 0.0
    """The part of a failing write that is done."""


REFUSALS: Final = (
    Refusal("EIO once", errno.EIO, 1),
    Refusal("EIO from then on", errno.EIO, 0),
    Refusal("EIO half written", errno.EIO, 1, 0.5),
    Refusal("ENOSPC once", errno.ENOSPC, 1),
    Refusal("ENOSPC for a while", errno.ENOSPC, FULL_CALLS),
    Refusal("ENOSPC from then on", errno.ENOSPC, 0),
    Refusal("ENOSPC half written", errno.ENOSPC, 1, 0.6),
    Refusal("short write", 0, 1, 0.4),
)


class Refusing:
    """One way to refuse, at every point of a life."""

    def __init__(self, refusal: Refusal, flush: FlushMode, seed: int) -> None:
        self._refusal = refusal
        self._flush: FlushMode = flush
        self._recipe = Recipe(seed, largest=1000)
        self.counts: Counter[str] = Counter()
        self.broken: list[str] = []

    def run(self, part: int = 0, parts: int = 1) -> Figures:
        """Refuse at every ``parts``-th point."""
        with tempfile.TemporaryDirectory(prefix="refusing-") as scratch:
            chosen = range(part, self._points_of_a_life(scratch), parts)
            for index in chosen:
                # Where timers race, one run may have a few calls fewer than another: such a point is tried again.
                attempts = (f"at-{index}-{attempt}" for attempt in range(ATTEMPTS))
                any(self._refused_at(os.path.join(scratch, name), index) for name in attempts)
        counts = self.counts
        return {
            "refusal": self._refusal.name,
            "flush": self._flush,
            "points": len(chosen),
            "covered": counts["covered"],
            "promised": counts["promised"],
            "lost": counts["lost"],
            "failed_flushes": counts["failed flushes"],
            "promised_after_failed_flush": counts["after"],
            "refused": counts["refused"],
            "refused_and_found": counts["revenants"],
            "broken": len(self.broken),
            "part": f"{part}/{parts}",
        }

    def _points_of_a_life(self, scratch: str) -> int:
        """The number of calls that can be refused: of the shortest of a few lives, for in a slow one timers add
        calls."""
        lives = (
            self._live(os.path.join(scratch, f"whole-{number}"), lambda _: None) for number in range(COUNTED_LIVES)
        )
        return min(sum(1 for point in life.points if self._applies(point)) for life in lives)

    def _applies(self, point: Point) -> bool:
        """Reading and locking apart, every call can fail; only calls that need space can find none."""
        if self._refusal.share:
            return point.call in WRITES and point.length > 1
        return self._refusal.number != errno.ENOSPC or point.call not in ("unlink", "ftruncate")

    def _refused_at(self, root: str, index: int) -> bool:
        """Refuse from the ``index``-th call on that can be refused this way; False when there was none."""
        refusal = self._refusal
        seen = -1
        first: Point | None = None

        def decide(point: Point) -> Verdict:
            nonlocal seen, first
            seen += self._applies(point)
            if seen < index or not self._applies(point) or (refusal.calls and seen >= index + refusal.calls):
                return None
            first = first or point
            part = int(point.length * refusal.share)
            return Fail(refusal.number, part) if refusal.number else Short(part)

        ran = self._live(root, decide)
        if ran.status or ran.hung:
            self.broken.append(f"{refusal.name} at {first}: the writer {'hung' if ran.hung else 'failed'}")
        if first is not None:
            self.counts["covered"] += 1
            self._check(root, ran, first)
        shutil.rmtree(root)
        return first is not None

    def _check(self, root: str, ran: Intercepted, point: Point) -> None:
        story = f"{self._flush} {self._refusal.name} at {point}"
        output = bytes(ran.child.output)
        promised, refused = parse_acks(output), set(parse_refused(output))
        if point.call in SYNCS and point.path.startswith("commitlog/") and self._refusal.number:
            self._check_fence(output[ran.said_before :], story)
        try:
            findings = asyncio.run(check(self._options(root), self._recipe, promised))
        except Exception as error:  # noqa: BLE001 - a store that cannot be opened is a finding
            self.broken.append(f"{story}: cannot be opened: {type(error).__name__}: {error}")
            return
        revenants = refused & set(findings.found)
        self.counts["promised"] += len(promised)
        self.counts["lost"] += len(findings.lost)
        self.counts["refused"] += len(refused)
        self.counts["revenants"] += len(revenants)
        if revenants:
            self.broken.append(f"{story}: refused and found: {sorted(revenants)}")
        if not findings.good:
            self.broken.append(f"{story}: {findings.story()}")

    def _check_fence(self, after: bytes, story: str) -> None:
        """A failed sync of the log ends all promises of that life."""
        same_life = after.split(b"# open ")[0]
        late = [ack for ack in parse_acks(same_life) if ack.level == "FLUSHED"]
        self.counts["failed flushes"] += 1
        self.counts["after"] += len(late)
        if late:
            self.broken.append(f"{story}: promised afterwards: {late[:2]}")

    def _live(self, root: str, decide: Decide) -> Intercepted:
        def work(say: Say) -> None:
            options = self._options(root)
            asyncio.run(live(options, self._recipe, say, first=0, count=MESSAGES, inflight=1, lives=2))

        return run_intercepted(work, root, decide)

    def _options(self, root: str) -> Options:
        return Options(
            root=root, flush=self._flush, segment_bytes=8192, interval_ms=10, thorough_ms=20, dispatch_ms=NEVER_MS
        )
