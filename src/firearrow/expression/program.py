"""A compiled expression, which decides about messages by their properties. Pure.

A program has no loop: evaluating it takes at most `Program.steps` steps, whatever the message holds.
"""

from collections.abc import Callable, Mapping
from enum import Enum
from typing import Final

from msgspec import Struct

from firearrow.expression.errors import NoValue
from firearrow.expression.java_values import Value

Properties = Mapping[str, str]
"""The properties of a message, by name."""
Run = Callable[[Properties], Value]
"""Evaluates a part of an expression; raises `NoValue` where Java throws."""


class Verdict(Enum):
    """What an expression says about a message. Only `TRUE` lets the message pass."""

    TRUE = "TRUE"
    FALSE = "FALSE"
    NULL = "NULL"
    ERROR = "ERROR"


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
    """The most steps that an evaluation takes."""
    run: Run

    def matches(self, properties: Properties) -> bool:
        """Whether a message passes. A message for which the expression has no value does not."""
        try:
            return self.run(properties) is True
        except NoValue:
            return False

    def verdict(self, properties: Properties) -> Verdict:
        """Return what the expression says about a message; `Verdict.ERROR` where it has no value."""
        try:
            return _VERDICTS[self.run(properties)]  # type: ignore[index]
        except NoValue:
            return Verdict.ERROR
