"""Waiters for offsets of the log: one list, ordered by offset. Pure.

Invariants: waiters are in the order of their offsets, so those whose offset is reached are popped from the left. Each
is called once, and popped before it is called: when a call raises, the waiters behind it stay in the list.
"""

from bisect import insort
from collections import deque
from collections.abc import Callable
from operator import itemgetter
from typing import TypeAlias

from firearrow.errors import FireArrowError

OnReached: TypeAlias = Callable[[FireArrowError | None], None]
"""A waiter: called with None when its offset is reached, else with the error why it never will be."""

_offset = itemgetter(0)


class Waiters:
    """Calls that wait for an offset."""

    __slots__ = ("calls",)

    def __init__(self) -> None:
        self.calls: deque[tuple[int, OnReached]] = deque()
        """The waiters, each behind its offset."""

    def __len__(self) -> int:
        return len(self.calls)

    def add(self, offset: int, call: OnReached) -> None:
        """Add a waiter for ``offset``."""
        waiting = self.calls
        if waiting and waiting[-1][0] > offset:
            insort(waiting, (offset, call), key=_offset)
        else:
            waiting.append((offset, call))

    def reached(self, offset: int) -> None:
        """Call and remove the waiters for ``offset`` or less."""
        waiting = self.calls
        while waiting and waiting[0][0] <= offset:
            waiting.popleft()[1](None)

    def take(self, above: int = -1) -> list[OnReached]:
        """Remove and return the waiters for offsets above ``above``; they are not called here."""
        taken = [call for offset, call in self.calls if offset > above]
        self.calls = deque(waiter for waiter in self.calls if waiter[0] <= above)
        return taken

    def failed(self, error: FireArrowError) -> None:
        """Call and remove all waiters with an error."""
        for call in self.take():
            call(error)
