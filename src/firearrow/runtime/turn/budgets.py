"""The budgets of a server's shares: how much each takes of a turn of the loop, and the work that waits for later turns.

A turn aims at `TARGET_NS`. A share has a part of every turn that nobody takes from it, and takes up to its most of what
the others have left. More than its most is a debt, which the next turns deduct from what is beyond the part.

Work is counted by CPU time, or by its price where that is more: a price in nanoseconds for a byte, a pull, a step. So
a turn ends in a simulation, where no time passes while work is done, as it does on a machine.

A turn lasts from one mark to the next, in which the loop has polled once. The marks end when a turn went by in which
nobody asked for time. Sends take no time from here: `Admission` refuses them, or they are done.

Invariants: budgets are renewed once for each poll of the loop; while work waits in the line of a share with a part,
every turn serves at least one step of it.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final, Protocol

from firearrow.runtime.turn.fair_line import FairLine
from firearrow.runtime.turn.turn import Share, Turn, soon, watched

TARGET_NS: Final = 5_000_000
"""CPU time of a turn beyond which a share takes no more than its part."""
STEP_NS: Final = 10_000
"""The least price of a step of a line."""
DROPPED_AT_ONCE: Final = 2000
"""The most steps of a dropped key whose memory is freed in one turn of the loop."""
NS_A_BYTE: Final = 4
"""The price of a byte that is handed out."""

Step = Callable[[], bool]
"""Does a bounded piece of work; returns whether that was the last."""


def _loop_ns() -> int:
    return int(asyncio.get_running_loop().time() * 1e9)


class WorkLine(Protocol):
    """A line of work that waits for turns."""

    def serve(self) -> None:
        """Do what there is time for in this turn; leave `TurnBudgets.due` if nothing waits any more."""
        ...


class TurnBudgets:
    """The present turn of the loop, as one server divides it."""

    def __init__(self, cpu_ns: Callable[[], int] | None = None) -> None:
        """``cpu_ns`` is used where the loop is not watched; without one, the time of the loop."""
        self.watched: Final = watched()
        self.turn: Final = Turn(cpu_ns or _loop_ns) if self.watched is None else self.watched
        self.on_turn: Final[list[Callable[[], None]]] = []
        """Called as a turn begins behind another one, and once more as the first turn ends in which nobody asked."""
        self.due: Final[dict[WorkLine, None]] = {}
        """The lines in which work waits, in the order in which it came to them; each is served in every turn."""
        self.spending: Final[dict[ShareBudget, None]] = {}
        """The shares that have taken something of this turn, or owe something of the turn before."""
        self.number = 0
        """The number of the present turn."""
        self.priced_ns = 0
        """The price of the work of this turn, as far as it has one."""
        self.is_used = False
        """Whether somebody has asked for time in this turn: who asks calls `enter` if not."""
        self._call_soon = asyncio.get_running_loop().call_soon
        self._charged_ns = 0
        self._is_marked = False

    def share(
        self, share: Share, part_ns: int, most_ns: int, *, is_timed: bool = True, charged_to: Share | None = None
    ) -> "ShareBudget":
        """Return the budget of a share, which has its part of every turn and takes at most ``most_ns`` of it.

        ``is_timed``: whether the steps of its line count by their CPU time too, and not by their price alone.
        ``charged_to``: the share whose metrics count these steps, if it is another one.
        """
        return ShareBudget(self, share if charged_to is None else charged_to, part_ns, most_ns, is_timed=is_timed)

    @property
    def taken_ns(self) -> int:
        """The time that all shares have taken of this turn."""
        return max(self.turn.charged_ns - self._charged_ns, self.priced_ns)

    def enter(self) -> None:
        """Note that somebody asks for time in this turn."""
        self.is_used = True
        if self._is_marked:
            return
        self._is_marked = True
        self.number += 1
        self._charged_ns, self.priced_ns = self.turn.charged_ns, 0
        if self.spending:
            for share in tuple(self.spending):
                share.renew()
        self._call_soon(self._next)

    def _next(self) -> None:
        was_used, self._is_marked = self.is_used, False
        if was_used:
            self.enter()
            self.is_used = False
        for note in self.on_turn:
            note()
        if self.due:
            self.enter()
            for line in tuple(self.due):
                self.due[line] = self.due.pop(line)  # if it fails, those behind it are first in the next turn
                line.serve()


class ShareBudget:
    """The time that one share may take of a turn: asked before a piece of work, told after it."""

    def __init__(self, budgets: TurnBudgets, share: Share, part_ns: int, most_ns: int, *, is_timed: bool) -> None:
        self.part_ns = part_ns
        self.most_ns = most_ns
        self.used_ns = 0
        """The time that the share has taken of this turn."""
        self.on_serve: Callable[[], None] | None = None
        """Called before the line is served in a turn."""
        self._debt_ns = 0
        self._budgets = budgets
        self._charged_to = share
        self._is_timed = is_timed
        self._line: FairLine[object, Step] = FairLine()
        self._served: object = None  # the key whose step runs

    @property
    def waiting(self) -> int:
        """The number of steps that wait for a turn."""
        return len(self._line)

    # ---- asking and telling

    @property
    def left_ns(self) -> int:
        """The time that the share may still take of this turn; less than 1: nothing."""
        budgets, used_ns = self._budgets, self.used_ns
        if not budgets.is_used:
            budgets.enter()
        beyond_ns = min(self.most_ns - self._debt_ns - used_ns, TARGET_NS - budgets.taken_ns)
        return max(self.part_ns - used_ns, beyond_ns)

    def has_time(self) -> bool:
        """Whether a further piece of work may begin in this turn."""
        return self.left_ns > 0

    def spent(self, price_ns: int) -> None:
        """Count a piece of work."""
        if price_ns > 0:
            budgets = self._budgets
            if not budgets.is_used:
                budgets.enter()
            self.used_ns += price_ns
            budgets.priced_ns += price_ns
            budgets.spending[self] = None

    def renew(self) -> None:
        """Begin a turn."""
        over_ns = self.used_ns + self._debt_ns - self.most_ns
        self._debt_ns = min(max(over_ns, 0), self.most_ns)
        self.used_ns = 0
        if not self._debt_ns:
            del self._budgets.spending[self]

    # ---- work for later turns

    def add(self, key: object, step: Step, owner: object = None) -> None:
        """Do work in the next turn or a later one; ``owner`` and ``key`` take turns, and a key's work is in order.

        ``step`` tells `spent` the price of what it does, or takes `STEP_NS`.
        """
        self._line.add(key if owner is None else owner, key, step)
        self._budgets.due[self] = None
        self._budgets.enter()

    def drop(self, key: object) -> None:
        """Forget the work of a key: nobody waits for it any more. A step of it that runs is its last."""
        if key == self._served:
            self._served = None
        _free(self._line.drop(key))

    def serve(self) -> None:
        """Serve the line for as long as the share has time; the rest is served in the next turns."""
        if self.on_serve is not None:
            self.on_serve()
        while self.left_ns > 0 and (first := self._line.next()) is not None:
            self._do(*first)
        if not self._line:
            del self._budgets.due[self]

    def _do(self, owner: object, key: object) -> None:
        """Do one step, and charge what it takes."""
        turn = self._budgets.turn
        step, self._served = self._line.take(owner, key), key
        began_ns, charged_ns, told_ns = turn.cpu_ns(), turn.charged_ns, self.used_ns
        is_done = True
        try:
            is_done = step()
        finally:
            took_ns = turn.cpu_ns() - began_ns
            turn.charge_step(self._charged_to, took_ns, charged_ns, step)
            self.spent(max(took_ns if self._is_timed else 0, STEP_NS) - (self.used_ns - told_ns))
        if not is_done and self._served is not None:
            self._line.add(owner, key, step, is_first=True)


def _free(steps: deque[Step]) -> None:
    """Free steps that nobody does any more, a bounded number in every turn of the loop."""
    for _ in range(min(len(steps), DROPPED_AT_ONCE)):
        steps.popleft()
    if steps:
        soon(Share.CONNECTION, _free, steps)
