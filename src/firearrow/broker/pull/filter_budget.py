"""The cost of filters, and the time that they get. One mechanism for SQL92 and CEL.

Steps decide whether a message passes: they are the same on every machine (`expression`). Time decides only when other
work has its turn, and it is CPU time, so that a busy machine does not make scans shorter. A scan of one pull ends when
its time is over and the next pull goes on behind; in a turn of the loop that has spent this time on filters no further
scan begins, no further pull's expression is compiled, and no further arrival is judged. A scan that begins late in a
turn has the time that the turn has left, and at least a part of `LEAST_PART`, so that it gets somewhere.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from firearrow.expression.cel.message_view import MOST_BODY_BYTES
from firearrow.expression.cel.meter import STEPS
from firearrow.runtime.turn import Share, TurnBudgets

SCAN_MICROSECONDS: Final = 4_000
"""Default of the most time that a filter takes for one pull."""
LEAST_PART: Final = 4
"""A scan has at least its time divided by this, however little its turn of the loop has left."""
MESSAGE_NS: Final = 500
ITS_STEP_NS: Final = 50
CHARACTER_NS: Final = 1_000
"""The prices of a message that is judged, of a step of its evaluation, and of a character that is compiled: less than
the CPU time of most, so that they decide in simulations alone."""


class FilterLimits:
    """The limits of a CEL filter for one message. Shared by the filters of a broker, because settings change them."""

    def __init__(self) -> None:
        self.steps = STEPS
        self.body_bytes = MOST_BODY_BYTES


class FilterCost:
    """The cost of a filter for a group: counted while it judges, then added to the statistics."""

    __slots__ = ("errors", "messages", "nanoseconds", "reason", "steps")

    def __init__(self) -> None:
        self.messages = self.steps = self.nanoseconds = self.errors = 0
        self.reason = ""
        """The reason why the last message without a verdict had none."""

    @property
    def price_ns(self) -> int:
        """The price of what was counted."""
        return self.messages * MESSAGE_NS + self.steps * ITS_STEP_NS

    def add(self, steps: int, reason: str) -> None:
        """Count the evaluation of one message; ``reason`` says why there is no verdict, and is empty if there is."""
        self.messages += 1
        self.steps += steps
        if reason:
            self.errors += 1
            self.reason = reason


class FilterClock:
    """The CPU time of the present scan, out of the budget of filters in the present turn of the loop."""

    def __init__(self, budgets: TurnBudgets) -> None:
        most_ns = SCAN_MICROSECONDS * 1000
        self.share: Final = budgets.share(Share.FILTER, most_ns // LEAST_PART, most_ns, charged_to=Share.PULL)
        self._turn = budgets.turn
        self._began = self._left_ns = 0
        self._compiled_ns = 0
        """Time of compilations since the beginning of the scan, which are charged as they end."""

    def limit(self, most_ns: int) -> None:
        """Use another limit for the time of a scan, and of all filters in a turn."""
        self.share.part_ns, self.share.most_ns = most_ns // LEAST_PART, most_ns

    def begin(self) -> None:
        """Begin a scan, or the judging of arrivals."""
        self._began = self._turn.cpu_ns()
        self._left_ns = max(self.share.left_ns, self.share.part_ns)
        self._compiled_ns = 0

    @property
    def is_over(self) -> bool:
        """Whether what has begun has used up its time, or what the turn had left of it."""
        return self._turn.cpu_ns() - self._began > self._left_ns

    def end(self, price_ns: int = 0) -> int:
        """End what has begun; return the nanoseconds that it took. It counts as its price if it took less."""
        took = self._turn.cpu_ns() - self._began
        self._add(took - self._compiled_ns, price_ns)
        return took

    @contextmanager
    def compiling(self, text: str) -> Iterator[None]:
        """Count the time of a compilation in the present turn; also within a scan, whose time it does not change."""
        began = self._turn.cpu_ns()
        try:
            yield
        finally:
            took = self._turn.cpu_ns() - began
            self._compiled_ns += took
            self._add(took, len(text) * CHARACTER_NS)

    def _add(self, took: int, price_ns: int) -> None:
        if took:
            self._turn.charge(Share.FILTER, took)
        self.share.spent(max(took, price_ns))

    @property
    def is_turn_over(self) -> bool:
        """Whether filters have used up their time in the present turn of the loop."""
        return not self.share.has_time()
