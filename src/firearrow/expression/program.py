"""A compiled expression, which decides about messages by their properties. Pure.

A program has no loop: evaluating it takes at most `Program.steps` steps, and for long values up to `LONG_VALUE_STEPS`
more, whatever the message holds. Steps decide, not time: a verdict is the same on every machine.
"""

from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any, Final, NamedTuple

from msgspec import Struct

from firearrow.expression.errors import NoValue, OutOfBudget
from firearrow.expression.java_values import Value
from firearrow.expression.steps import CHARACTERS_A_STEP, COMPARISONS_A_STEP

Properties = Mapping[str, str]
"""The properties of a message, by name."""
Run = Callable[[Properties], Value]
"""Evaluates a part of an expression; raises `NoValue` where Java throws."""


class Verdict(Enum):
    """The verdict of an expression about a message. Only `TRUE` lets the message pass."""

    TRUE = "TRUE"
    FALSE = "FALSE"
    NULL = "NULL"
    ERROR = "ERROR"


LONG_VALUE_STEPS: Final = 20_000
"""The most steps that an evaluation takes for long values: about 32 searches through values of 30 kB."""
MOST_VALUE_CHARACTERS: Final = 32_767
"""The most characters that the properties of a record have together."""


class MeteredProperties(dict[str, str]):
    """Properties with long values. Reading one to its end by ``get`` costs steps; ``[]`` costs none."""

    __slots__ = ("steps",)

    def __init__(self, properties: Properties) -> None:
        super().__init__(properties)
        self.steps = 0

    def get(self, name: str, default: Any = None) -> Any:  # noqa: ANN401
        """Return a value that is going to be read to its end; raise `OutOfBudget`."""
        value = super().get(name, default)
        if value is not None:
            self.charge(len(value) // CHARACTERS_A_STEP)
        return value

    def charge(self, steps: int) -> None:
        """Count steps; raise `OutOfBudget` beyond `LONG_VALUE_STEPS`."""
        self.steps += steps
        if self.steps > LONG_VALUE_STEPS:
            raise OutOfBudget(f"long properties take the expression more than {LONG_VALUE_STEPS} steps")


class Judgement(NamedTuple):
    """Whether a message passes, what finding that out cost, and why it was given up; empty if it was not."""

    matches: bool
    steps: int
    reason: str = ""


_VERDICTS: Final = {True: Verdict.TRUE, False: Verdict.FALSE, None: Verdict.NULL}


class Program(Struct, frozen=True, eq=False):
    """A compiled expression."""

    text: str
    """The whole expression, as it was given."""
    ignored: str
    """The end of the text that Apache's grammar does not read, and that has no effect; empty when all was read."""
    names: tuple[str, ...]
    """The properties that the expression looks at, sorted."""
    steps: int
    """The most steps that an evaluation takes, without what long values add."""
    run: Run

    def matches(self, properties: Properties) -> bool:
        """Whether a message passes; one for which the expression has no value does not."""
        return self.judge(properties).matches

    def judge(self, properties: Properties) -> Judgement:
        """Return whether a message passes, and what that cost."""
        given, reason, matches = self._metered(properties), "", False
        try:
            matches = self.run(given) is True
        except NoValue:
            pass
        except OutOfBudget as wrong:
            reason = str(wrong)
        return Judgement(matches, self.steps + (given.steps if isinstance(given, MeteredProperties) else 0), reason)

    def verdict(self, properties: Properties) -> Verdict:
        """Return what the expression says about a message; `Verdict.ERROR` where it has no value, or none in time."""
        try:
            return _VERDICTS[self.run(self._metered(properties))]  # type: ignore[index]
        except (NoValue, OutOfBudget):
            return Verdict.ERROR

    def _metered(self, properties: Properties) -> Properties:
        """Return properties that count steps, if their length is such that an evaluation may take too many."""
        free = self.free_characters
        if free >= MOST_VALUE_CHARACTERS or sum(map(len, properties.values())) <= free:
            return properties
        return MeteredProperties(properties)

    @property
    def free_characters(self) -> int:
        """Return how long the values may be together so that no evaluation goes beyond `LONG_VALUE_STEPS`."""
        # Every step reads a value once, and the parts that are searched for stand in the text.
        each = self.steps * COMPARISONS_A_STEP + (len(self.text) + self.steps) * CHARACTERS_A_STEP
        return LONG_VALUE_STEPS * CHARACTERS_A_STEP * COMPARISONS_A_STEP // each
