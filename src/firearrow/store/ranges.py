"""The physical ranges of the log that we wrote, and so stamped. Pure.

Apache copies a stamp when it puts a delayed or retried message into the log again, and does not renew it. So a stamp
can only be believed where we wrote the record: inside a range a wrong stamp is damage, outside the stamp says nothing.

Invariant: ranges are in order, apart, and not empty; only the last may be open (its end is None: we are writing).
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
        """Whether we wrote the record that starts there."""
        at = bisect_right(self._starts, physical) - 1
        return at >= 0 and physical < self._ends[at]

    def owner(self, physical: int) -> tuple[bool, int]:
        """Whether we wrote the record that starts there, and up to where the answer stays the same."""
        at = bisect_right(self._starts, physical) - 1
        if at >= 0 and physical < self._ends[at]:
            return True, self._ends[at]
        return False, self._starts[at + 1] if at + 1 < len(self._starts) else maxsize

    @property
    def end(self) -> int | None:
        """Where the last range ends; None when it is open or there is none."""
        return None if self._open or not self._ends else self._ends[-1]

    def begin(self, start: int) -> None:
        """Everything from ``start`` on is written by us, until `finish`."""
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
        """Nothing from ``end`` on is written by us, until `begin`; ranges beyond it go."""
        self._open = False
        while self._starts and self._starts[-1] >= end:
            self._starts.pop()
            self._ends.pop()
        if self._ends and self._ends[-1] > end:
            self._ends[-1] = end

    def forget(self, below: int) -> None:
        """Drop what lies below ``below``: those files are deleted."""
        while self._ends and self._ends[0] <= below:
            self._starts.pop(0)
            self._ends.pop(0)
