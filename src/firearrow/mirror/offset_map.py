"""The target offsets that belong to the source offsets of one queue. Pure.

Copies that lie one after the other on both sides are one *run*: source, target, count. A queue that only its mirror
writes to is a single run, however many messages it has. What lies at the target between runs is a *gap*: messages that
others sent to the target, that another mirror brought, or that were there before the first copy.

A *loop* is a message of the source queue that a mirror the other way brought from the target queue. That mirror copies
in order, so a group that has had a loop has had all that lay in the target queue before its original, from the first
original on: the target's own messages as loops, and copies because they were stored at the source before the loop was.

`translate` never leads a group past a message of the target that the group has not had, whoever wrote the message. A
group reads again what lies behind the first message that it is not known to have had.
"""

from bisect import bisect_left, bisect_right
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
_target_of = attrgetter("target")


class OffsetMap:
    """The runs of one queue, by target offset. A message that was copied twice is in two runs."""

    def __init__(self, runs: Iterable[Run] = (), *, most: int = MOST_RUNS) -> None:
        self._runs = list(runs)
        self._most = most

    @property
    def runs(self) -> tuple[Run, ...]:
        """All runs, by target offset."""
        return tuple(self._runs)

    @property
    def target_end(self) -> int:
        """The target offset behind the last noted copy; 0 before the first."""
        return self._runs[-1].target_end if self._runs else 0

    def note(self, source: int, target: int, count: int = 1) -> int:
        """Note copies of ``count`` messages from ``source`` on, the first of them at ``target``, the others behind it.

        Return how many noted offsets are no longer so: more than 0 if the target queue ended before ``target`` was
        noted, because it was made anew or has lost its end. What was noted from ``target`` on is forgotten then.
        """
        lost = _cut(self._runs, target)
        _append(self._runs, Run(source, target, count))
        if len(self._runs) > self._most:
            self._runs = _thinned(self._runs)
        return lost

    def first_new(self, offset: int, begin: int) -> int:
        """Return the first target offset from ``begin`` on that is not known to hold a copy from before ``offset``."""
        place = begin
        for run in self._runs[max(0, bisect_right(self._runs, begin, key=_target_of) - 1) :]:
            if run.target_end <= place:
                continue
            if run.target > place:
                break
            place = min(run.target_end, max(place, run.target + offset - run.source))
            if place < run.target_end:
                break
        return place


class Loops:
    """The loops of one source queue, by source offset, and when the last of their originals was stored."""

    def __init__(self, runs: Iterable[Run] = (), stored_ms: int = 0, *, most: int = MOST_RUNS) -> None:
        self._runs = list(runs)
        self._most = most
        self.stored_ms = stored_ms

    @property
    def runs(self) -> tuple[Run, ...]:
        """All runs, by source offset and by target offset."""
        return tuple(self._runs)

    def note(self, source: int, target: int, stored_ms: int) -> None:
        """Note the loop at ``source`` whose original is at ``target``, stored there at ``stored_ms``."""
        if self._runs and target < self._runs[-1].target_end:
            if stored_ms <= self.stored_ms:
                return  # it was brought twice
            self._runs.clear()  # the target queue was made anew
        self.stored_ms = stored_ms
        _append(self._runs, Run(source, target, 1))
        if len(self._runs) > self._most:
            half = len(self._runs) // 2
            self._runs = [self._runs[0], *self._runs[2:half:2], *self._runs[half:]]

    def cut(self, target: int) -> None:
        """Forget originals from ``target`` on: the target queue has lost them."""
        _cut(self._runs, target)

    def had_before(self, offset: int) -> range:
        """Return the target offsets that a group has had which has had all before ``offset`` at the source."""
        index = bisect_left(self._runs, offset, key=_source_of) - 1
        if index < 0:
            return range(0)
        run = self._runs[index]
        return range(self._runs[0].target, run.target + min(offset - run.source, run.count))


def translate(offset: int, had: int, copies: OffsetMap, loops: Loops) -> int:
    """Return where a group goes on at the target that would go on at ``offset`` at the source.

    ``had``: the target offset before which there is nothing for the group, because it has had it at the target or
    because it is deleted there.
    """
    place = copies.first_new(offset, had)
    known = loops.had_before(offset)
    if known and known.start <= place:
        place = copies.first_new(offset, max(place, known.stop))
    return place


def _append(runs: list[Run], new: Run) -> None:
    last = runs[-1] if runs else None
    if last is not None and (new.source, new.target) == (last.source_end, last.target_end):
        runs[-1] = Run(last.source, last.target, last.count + new.count)
    else:
        runs.append(new)


def _cut(runs: list[Run], target: int) -> int:
    """Remove what is noted from a target offset on; return how much that was."""
    lost = 0
    while runs and runs[-1].target_end > target:
        last = runs.pop()
        kept = max(0, target - last.target)
        lost += last.count - kept
        if kept:
            runs.append(Run(last.source, last.target, kept))
    return lost


def _thinned(runs: list[Run]) -> list[Run]:
    """Make one run of every two of the older half: old offsets are asked for rarely.

    Neighbours at the target become one run with source offsets that are not below the true ones. Of others the second
    is dropped, which makes the gap larger.
    """
    half = len(runs) // 2
    found: list[Run] = []
    for number in range(0, half, 2):
        first, second = runs[number], runs[number + 1]
        if first.target_end == second.target and number + 1 < half:
            source = max(first.source, second.source - first.count)
            found.append(Run(source, first.target, first.count + second.count))
        else:
            found.append(first)
    return found + runs[half:]
