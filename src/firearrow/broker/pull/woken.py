"""Woken pulls: they are served a bounded number a turn of the loop, those without a filter first.

A pull by tags, or for all messages, is served whatever time filters have used up. Pulls with a filter wait in a line of
their own, which is served while filters have time in the turn; a cold read waits in it for the turn of its scan.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from typing import Final, Generic, TypeVar

from firearrow.broker.pull.backlog import PULL_BYTES
from firearrow.broker.pull.filter_budget import FilterClock
from firearrow.broker.pull.long_poll import Parked
from firearrow.broker.pull.message_filter import MessageFilter
from firearrow.broker.pull.pull_reader import Made
from firearrow.runtime.turn import Share, soon

SLICE_BYTES: Final = 64 * PULL_BYTES
"""Bytes handed to woken pulls in one turn of the loop; every pull counts `PULL_BYTES` in addition to its messages."""

T = TypeVar("T")


class WokenPulls(Generic[T]):
    """The pulls that have been woken and not served yet. ``serve`` returns how many bytes a pull was handed."""

    def __init__(self, clock: FilterClock, serve: Callable[[Parked[T], Made], int]) -> None:
        self._clock = clock
        self._serve = serve
        self._plain: deque[Parked[T]] = deque()
        self._filtered: deque[Parked[T] | asyncio.Future[None]] = deque()
        self._is_due = False

    def __len__(self) -> int:
        return len(self._plain) + len(self._filtered)

    def add(self, woken: Iterable[Parked[T]]) -> None:
        """Serve pulls, in the next turn of the loop or a later one."""
        for parked in woken:
            if isinstance(parked.wanted, MessageFilter):
                self._filtered.append(parked)
            else:
                self._plain.append(parked)
        self._make_due()

    async def time_for_filter(self) -> None:
        """Return when a scan may begin: at once, or in the next turn after the filters before it in the line."""
        if self._clock.is_turn_over:
            turn = asyncio.get_running_loop().create_future()
            self._filtered.append(turn)
            self._make_due()
            await turn

    def _make_due(self) -> None:
        if len(self) and not self._is_due:
            self._is_due = True
            soon(Share.PULL, self.serve_a_turn)

    def serve_a_turn(self) -> None:
        """Serve as many pulls as a turn of the loop has time for, and the rest in the next."""
        self._is_due = False
        plain, filtered, room = self._plain, self._filtered, SLICE_BYTES
        made: Made = {}
        while plain and room > 0:
            room -= PULL_BYTES + self._serve(plain.popleft(), made)
        room = max(room, PULL_BYTES)  # so that pulls without a filter, however many, do not keep the others waiting
        while filtered and room > 0 and not self._clock.is_turn_over:
            first = filtered.popleft()
            if not isinstance(first, Parked):
                if not first.done():
                    first.set_result(None)  # its scan is in the next turn: so is what is behind it
                    break
                continue
            room -= PULL_BYTES + self._serve(first, made)
        self._make_due()
