"""The cost of filters, and the time that they get. One mechanism for SQL92 and CEL.

Steps decide whether a message passes: they are the same on every machine (`expression`). Time decides only when other
work has its turn, and it is CPU time, so that a busy machine does not make scans shorter. A scan of one pull ends when
its time is over and the next pull goes on behind; in a turn of the loop that has spent this time on filters no further
scan begins, no further pull's expression is compiled, and no further arrival is judged. A scan that begins late in a
turn has the time that the turn has left, and at least a part of `LEAST_PART`, so that it gets somewhere.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from firearrow.expression.cel.message_view import MOST_BODY_BYTES
from firearrow.expression.cel.meter import STEPS
from firearrow.runtime.turn import Share, mark, watched

SCAN_MICROSECONDS: Final = 4_000
"""Default of the most time that a filter takes for one pull."""
LEAST_PART: Final = 4
"""A scan has at least its time divided by this, however little its turn of the loop has left."""


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
        """Why the last message without a verdict had none."""

    def add(self, steps: int, reason: str) -> None:
        """Count the evaluation of one message; ``reason`` says why there is no verdict, and is empty if there is."""
        self.messages += 1
        self.steps += steps
        if reason:
            self.errors += 1
            self.reason = reason


class FilterClock:
    """The CPU time of filters: of the present scan, and of the present turn of the loop."""

    def __init__(self, cpu_ns: Callable[[], int]) -> None:
        self._cpu_ns = cpu_ns
        self.most_ns = SCAN_MICROSECONDS * 1000
        self._began = 0
        self._turn_ns = 0
        self._before_ns = 0
        """The time that filters had taken of the turn when the present scan began."""
        self._compiled_ns = 0
        """Time of compilations since then, which are charged to the turn of the loop as they end."""

    def begin(self) -> None:
        """Begin a scan, or the judging of arrivals."""
        self._began = self._cpu_ns()
        self._before_ns = self._turn_ns
        self._compiled_ns = 0

    @property
    def is_over(self) -> bool:
        """Whether what has begun has used up its time, or what the turn had left of it."""
        left_ns = max(self.most_ns - self._before_ns, self.most_ns // LEAST_PART)
        return self._cpu_ns() - self._began > left_ns

    def end(self) -> int:
        """End what has begun; return the nanoseconds that it took."""
        took = self._cpu_ns() - self._began
        self._add(took, took - self._compiled_ns)
        return took

    @contextmanager
    def compiling(self) -> Iterator[None]:
        """Count the time of a compilation in the present turn; also within a scan, whose time it does not change."""
        began = self._cpu_ns()
        try:
            yield
        finally:
            took = self._cpu_ns() - began
            self._compiled_ns += took
            self._add(took, took)

    def _add(self, took: int, charged: int) -> None:
        if took and not self._turn_ns:
            mark(self._begin_turn)
        self._turn_ns += took
        turn = watched() if took else None
        if turn is not None:
            turn.charge(Share.FILTER, charged)

    @property
    def is_turn_over(self) -> bool:
        """Whether filters have used up their time in the present turn of the loop."""
        return self._turn_ns > self.most_ns

    def _begin_turn(self) -> None:
        self._turn_ns = 0
