"""The budget of one evaluation: steps, and time. Pure; the time comes from the caller's ``ticks``.

Parts of an expression without a loop have a fixed cost, charged at once. Each round of a macro costs what its body
costs, and an operation on a long text or list costs by its length. So steps grow with the work that is done, and an
evaluation ends soon after its budget does.
"""

from collections.abc import Callable
from typing import Any, Final

from msgspec import Struct

STEPS: Final = 10_000
"""Default of the most steps of an evaluation."""
MICROSECONDS: Final = 5_000
"""Default of the most time of an evaluation."""
CHARACTERS_A_STEP: Final = 64
"""Characters of texts, or bytes, that one step reads or copies."""
ITEMS_A_STEP: Final = 8
"""Items of lists that one step copies."""
_LOOK: Final = 256
"""Steps between two looks at the time."""


class OutOfBudget(Exception):
    """An evaluation took more steps or time than its budget. Unlike an error, no ``||`` makes up for it."""


class Budget(Struct, frozen=True):
    """What one evaluation may cost."""

    steps: int = STEPS
    microseconds: int = MICROSECONDS


class Meter:
    """What one evaluation has cost, and the values that it works on."""

    __slots__ = ("_deadline", "_look", "_most", "_ticks", "slots", "steps", "subject")

    def __init__(self, subject: Any, budget: Budget, ticks: Callable[[], int], slots: int) -> None:  # noqa: ANN401
        self.subject = subject
        self.slots: list[Any] = [None] * slots
        """The variables of the macros that are running, by level."""
        self.steps = 0
        self._most = budget.steps
        self._ticks = ticks
        self._deadline = ticks() + budget.microseconds * 1000
        self._look = _LOOK

    def charge(self, steps: int) -> None:
        """Take steps off the budget; raise `OutOfBudget` when it, or the time, is used up."""
        self.steps += steps
        if self.steps > self._most:
            raise OutOfBudget(f"the evaluation takes more than {self._most} steps")
        if self.steps >= self._look:
            self._look = self.steps + _LOOK
            if self._ticks() > self._deadline:
                raise OutOfBudget("the evaluation takes longer than its time")
