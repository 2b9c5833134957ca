"""Who waits for which offset: one ordered list, told in bulk. Pure.

Invariant: calls are in the order of their offsets, so telling those who are done is popping from the left. Nobody is
told twice. A call that raises keeps its own fate and nobody else's: it is popped before it is called.
"""

from bisect import insort
from collections import deque
from collections.abc import Callable
from operator import itemgetter
from typing import TypeAlias

from firearrow.errors import FireArrowError

Told: TypeAlias = Callable[[FireArrowError | None], None]
"""What a waiter is called with: None when the offset is reached, else why it never will be."""

_offset = itemgetter(0)


class Waiters:
    """Calls that wait for an offset."""

    __slots__ = ("calls",)

    def __init__(self) -> None:
        self.calls: deque[tuple[int, Told]] = deque()
        """Those who wait, each with its offset; empty when nobody does."""

    def __len__(self) -> int:
        return len(self.calls)

    def add(self, offset: int, call: Told) -> None:
        """Let ``call`` wait until ``offset`` is reached."""
        waiting = self.calls
        if waiting and waiting[-1][0] > offset:
            insort(waiting, (offset, call), key=_offset)
        else:
            waiting.append((offset, call))

    def reached(self, offset: int) -> None:
        """Tell everyone who waited for ``offset`` or less."""
        waiting = self.calls
        while waiting and waiting[0][0] <= offset:
            waiting.popleft()[1](None)

    def take(self, above: int = -1) -> list[Told]:
        """Let everyone who waits for more than ``above`` wait no longer, without telling them yet."""
        taken = [call for offset, call in self.calls if offset > above]
        self.calls = deque(waiter for waiter in self.calls if waiter[0] <= above)
        return taken

    def failed(self, error: FireArrowError) -> None:
        """Tell everyone that it will not come."""
        for call in self.take():
            call(error)
