"""The budget of one evaluation, in steps. Pure: whether a message passes does not depend on the machine or its load.

Parts of an expression without a loop have a fixed cost, charged at once. Each round of a macro costs what its body
costs, and an operation on a long text or list costs by its length. So steps grow with the work that is done.
"""

from typing import Any, Final

from firearrow.expression.errors import OutOfBudget

STEPS: Final = 10_000
"""Default of the most steps of an evaluation."""
ITEMS_A_STEP: Final = 8
"""Items of lists that one step copies."""


class CostMeter:
    """The cost of one evaluation so far, and the values that it works on."""

    __slots__ = ("_most", "slots", "steps", "subject")

    def __init__(self, subject: Any, most_steps: int, slots: int) -> None:  # noqa: ANN401
        self.subject = subject
        self.slots: list[Any] = [None] * slots
        """The variables of the macros that are running, by level."""
        self.steps = 0
        self._most = most_steps

    def charge(self, steps: int) -> None:
        """Take steps off the budget; raise `OutOfBudget` when it is used up."""
        self.steps += steps
        if self.steps > self._most:
            raise OutOfBudget(f"the evaluation takes more than {self._most} steps")
