"""A compiled CEL expression, which decides about messages within a budget. Pure.

program = compile_cel("body.amount > 100 && properties.region == 'eu'")
program.judge(view).verdict is Verdict.TRUE
"""

from collections.abc import Mapping
from enum import Enum
from typing import Any, Final

from msgspec import Struct

from firearrow.expression.cel.closures import Closures, Run
from firearrow.expression.cel.message_view import VARIABLES
from firearrow.expression.cel.meter import STEPS, CostMeter
from firearrow.expression.cel.parser import parse
from firearrow.expression.cel.values import Value
from firearrow.expression.errors import NoValue, OutOfBudget

CEL: Final = "CEL"
"""The expression type on the wire."""


class CelVerdict(Enum):
    """The verdict of an expression about a message. Only `TRUE` lets the message pass."""

    TRUE = "TRUE"
    FALSE = "FALSE"
    ERROR = "ERROR"
    OUT_OF_BUDGET = "OUT_OF_BUDGET"


class CelJudgement(Struct, frozen=True):
    """A verdict, what it cost, and why there is no other; the reason is empty for `TRUE` and `FALSE`."""

    verdict: CelVerdict
    steps: int
    reason: str = ""


class CelProgram(Struct, frozen=True, eq=False):
    """A compiled expression."""

    text: str
    names: tuple[str, ...]
    """The variables that the expression looks at, sorted."""
    steps: int
    """The steps of an evaluation, without what macros and long values add."""
    slots: int
    run: Run

    def value(self, subject: Any, most_steps: int = STEPS) -> Value:  # noqa: ANN401
        """Return what the expression evaluates to; raise `NoValue` or `OutOfBudget`."""
        meter = CostMeter(subject, most_steps, self.slots)
        return self._value(meter)

    def _value(self, meter: CostMeter) -> Value:
        meter.charge(self.steps)
        try:
            return self.run(meter)
        except RecursionError:
            raise OutOfBudget("the values are nested too deeply") from None

    def judge(self, subject: Any, most_steps: int = STEPS) -> CelJudgement:  # noqa: ANN401
        """Return whether a message passes, and what that cost. A message without a verdict does not pass."""
        meter = CostMeter(subject, most_steps, self.slots)
        reason = ""
        try:
            value = self._value(meter)
            verdict = _VERDICTS.get(value, CelVerdict.ERROR) if type(value) is bool else CelVerdict.ERROR
            if verdict is CelVerdict.ERROR:
                reason = "the expression is not a condition: its value is neither true nor false"
        except NoValue as wrong:
            verdict, reason = CelVerdict.ERROR, str(wrong)
        except OutOfBudget as wrong:
            verdict, reason = CelVerdict.OUT_OF_BUDGET, str(wrong)
        return CelJudgement(verdict, meter.steps, reason)


_VERDICTS: Final = {True: CelVerdict.TRUE, False: CelVerdict.FALSE}


def compile_cel(text: str, variables: Mapping[str, Run] = VARIABLES) -> CelProgram:
    """Return the program of an expression; raise `BadExpression` if it is not one."""
    closures = Closures(variables)
    run, steps = closures.part(parse(text))
    return CelProgram(text, tuple(sorted(closures.names)), steps, closures.slots, run)
