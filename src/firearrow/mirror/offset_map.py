"""Which target offset belongs to a source offset of one queue. Pure.

Copies that lie one after the other on both sides are one *run*: source, target, count. A queue that only its mirror
writes to is a single run, however many messages it has.

The map never says too much: all messages from a source offset on that are copied lie at or behind the translated
offset. So a group that goes on there misses nothing. It reads again what lies between the translated offset and the
true one: nothing inside a run; behind a run, what others wrote to the target queue, and copies whose run was dropped
because the map had become too long.
"""

from bisect import bisect_right
from collections.abc import Iterable
from operator import attrgetter
from typing import Final

from msgspec import Struct

MOST_RUNS: Final = 4096


class Run(Struct, frozen=True, array_like=True):
    """``count`` messages that lie one after the other on both sides."""

    source: int
    target: int
    count: int

    @property
    def source_end(self) -> int:
        """The source offset behind the last message."""
        return self.source + self.count

    @property
    def target_end(self) -> int:
        """The target offset behind the last message."""
        return self.target + self.count


_source_of = attrgetter("source")


class OffsetMap:
    """The runs of one queue, in order."""

    def __init__(self, runs: Iterable[Run] = (), *, most: int = MOST_RUNS) -> None:
        self._runs = list(runs)
        self._most = most

    @property
    def runs(self) -> tuple[Run, ...]:
        """All runs, by source offset."""
        return tuple(self._runs)

    def note(self, source: int, target: int, count: int = 1) -> int:
        """Note copies of ``count`` messages from ``source`` on, the first of them at ``target``, the others behind it.

        Return how many noted offsets are no longer so: more than 0 if the target queue ended before ``target`` was
        noted, because it was made anew or has lost its end. What was noted from ``target`` on is forgotten then.
        """
        lost = 0
        while self._runs and self._runs[-1].target_end > target:
            last = self._runs.pop()
            kept = max(0, target - last.target)
            lost += last.count - kept
            if kept:
                self._runs.append(Run(last.source, last.target, kept))
        last_run = self._runs[-1] if self._runs else None
        if last_run is not None and (source, target) == (last_run.source_end, last_run.target_end):
            self._runs[-1] = Run(last_run.source, last_run.target, last_run.count + count)
            return lost
        self._runs.append(Run(source, target, count))
        if len(self._runs) > self._most:
            self._thin()
        return lost

    def translate(self, offset: int) -> int | None:
        """Return where a group goes on at the target that would go on at ``offset`` at the source.

        None while nothing is copied. An offset before the first copy leads to the first copy: what lies before it was
        not copied.
        """
        if not self._runs:
            return None
        index = bisect_right(self._runs, offset, key=_source_of) - 1
        if index < 0:
            return self._runs[0].target
        run = self._runs[index]
        return run.target + min(offset - run.source, run.count)

    def _thin(self) -> None:
        """Drop every second run of the older half, but the first: old offsets are asked for rarely."""
        half = len(self._runs) // 2
        self._runs = [self._runs[0], *self._runs[2:half:2], *self._runs[half:]]
