"""Stamped ranges: the ranges of the log that we wrote. Pure.

Apache copies the stamp of a delayed or retried message into its new record unchanged, so that stamp is wrong. Stamps
count only where we wrote the record: inside a range a wrong stamp is damage, outside the stamp is ignored.

Invariant: ranges are in order, do not overlap, and are not empty; only the last may be open (its end is None).
"""

from bisect import bisect_right
from collections.abc import Iterable
from sys import maxsize


class Ranges:
    """An ordered table of half-open ranges."""

    __slots__ = ("_ends", "_open", "_starts")

    def __init__(self, ranges: Iterable[tuple[int, int | None]] = ()) -> None:
        self._starts: list[int] = []
        self._ends: list[int] = []
        self._open = False
        for start, end in ranges:
            self.begin(start)
            if end is not None:
                self.finish(end)

    def as_list(self) -> list[tuple[int, int | None]]:
        """The ranges in order; the end of one that is open is None."""
        return [(start, None if end == maxsize else end) for start, end in zip(self._starts, self._ends, strict=True)]

    def covers(self, physical: int) -> bool:
        """Whether we wrote the record that starts at this offset."""
        at = bisect_right(self._starts, physical) - 1
        return at >= 0 and physical < self._ends[at]

    def owner(self, physical: int) -> tuple[bool, int]:
        """Whether we wrote the record that starts at this offset, and the offset up to which the answer is the same."""
        at = bisect_right(self._starts, physical) - 1
        if at >= 0 and physical < self._ends[at]:
            return True, self._ends[at]
        return False, self._starts[at + 1] if at + 1 < len(self._starts) else maxsize

    @property
    def end(self) -> int | None:
        """The end of the last range; None when it is open or there is none."""
        return None if self._open or not self._ends else self._ends[-1]

    def begin(self, start: int) -> None:
        """Open a range: we write everything from ``start`` on, until `finish`."""
        if self._open:
            raise ValueError("a range is open already")
        if self._ends and start < self._ends[-1]:
            raise ValueError(f"a range cannot begin at {start}, before the end {self._ends[-1]} of the last")
        if self._ends and start == self._ends[-1]:
            self._ends[-1] = maxsize
        else:
            self._starts.append(start)
            self._ends.append(maxsize)
        self._open = True

    def finish(self, end: int) -> None:
        """Close the open range at ``end``; ranges beyond ``end`` are dropped."""
        self._open = False
        while self._starts and self._starts[-1] >= end:
            self._starts.pop()
            self._ends.pop()
        if self._ends and self._ends[-1] > end:
            self._ends[-1] = end

    def forget(self, below: int) -> None:
        """Drop everything below ``below``: those files are deleted."""
        while self._ends and self._ends[0] <= below:
            self._starts.pop(0)
            self._ends.pop(0)
