"""Filters that decide by the record of a message: expressions, compiled once. Pure.

Tags are filtered by the codes in the entries of a queue. These filters need the records themselves: `Scanner` looks at
a bounded number of records and leaves those that pass.
"""

from collections.abc import Callable
from typing import Final

from msgspec import Struct

from firearrow.broker.pull.filter_budget import FilterCost
from firearrow.expression.program import Program
from firearrow.model import keys
from firearrow.record.layout import Buffer
from firearrow.record.properties import decode_properties
from firearrow.store.property_fields import field

FEW_NAMES: Final = 4
"""Up to so many properties are searched for one by one; for more, all properties are decoded."""
STEP_UNITS: Final = 4
"""The weight of a step: its closure takes 300 to 400 bytes."""
CHARACTERS_A_UNIT: Final = 8
"""Characters of an expression that weigh one unit: a short text takes 50 to 100 bytes."""

RawValues = bytes | tuple[bytes, ...]
"""The values that a filter looks at, as records hold them; empty for a property that is missing."""


class MessageFilter(Struct, frozen=True, eq=False):
    """A compiled expression that decides about records. Equal only to itself, so that parked pulls can share it."""

    @property
    def text(self) -> str:
        """The expression."""
        raise NotImplementedError

    @property
    def steps(self) -> int:
        """The steps of an evaluation, as a measure of its time."""
        raise NotImplementedError

    @property
    def weight(self) -> int:
        """The memory of the filter, in units of about 100 bytes: closures by steps, and texts, as an IN list has."""
        return STEP_UNITS * self.steps + len(self.text) // CHARACTERS_A_UNIT

    def own(self) -> "MessageFilter":
        """Return another filter of the same expression, which is not equal to this one."""
        raise NotImplementedError

    def passes(self, properties: bytes, cost: FilterCost) -> bool:
        """Whether a message with these properties passes, or may pass if they do not tell."""
        raise NotImplementedError

    def admits(self, _record: Buffer, properties: bytes, cost: FilterCost) -> bool:
        """Whether a message passes."""
        return self.passes(properties, cost)


class PropertyFilter(MessageFilter, frozen=True, eq=False):
    """An SQL92 expression, which looks at properties alone."""

    program: Program
    marks: tuple[bytes, ...] = ()
    """The bytes before the values that the program looks at, in the order of its names; empty when there are many."""

    @classmethod
    def of(cls, program: Program) -> "PropertyFilter":
        """Return the filter of a program."""
        few = program.names if len(program.names) <= FEW_NAMES else ()
        return cls(program, tuple(name.encode() + b"\x01" for name in few))

    @property
    def text(self) -> str:
        """The expression."""
        return self.program.text

    @property
    def steps(self) -> int:
        """The most steps that an evaluation takes, without what long values add."""
        return self.program.steps

    def own(self) -> "PropertyFilter":
        """Return another filter of the same expression."""
        return PropertyFilter(self.program, self.marks)

    def passes(self, properties: bytes, cost: FilterCost) -> bool:
        """Whether a message with these properties, as a record holds them, passes."""
        marks = self.marks
        if marks:
            return self.passes_values(tuple([field(properties, mark) for mark in marks]), cost)
        judged = self.program.judge(decode_properties(properties))
        cost.add(judged.steps, judged.reason)
        return judged.matches

    def passes_values(self, raw: RawValues, cost: FilterCost) -> bool:
        """Whether a message with these values of the properties in `marks` passes; an empty value is none."""
        values = (raw,) if isinstance(raw, bytes) else raw
        named = zip(self.program.names, values, strict=True)
        judged = self.program.judge({name: value.decode("utf-8", "replace") for name, value in named if value})
        cost.add(judged.steps, judged.reason)
        return judged.matches


class RetryFilter(MessageFilter, frozen=True, eq=False):
    """The filter of a retry topic: a message is judged by the filter of the topic that it came from.

    Java: ``ExpressionForRetryMessageFilter``.
    """

    find: Callable[[str], MessageFilter | None]
    """Returns the filter of a topic for the same group; None when the group has none."""
    steps: int = 0
    text: str = ""

    def own(self) -> "RetryFilter":
        """Return another filter that finds the same filters."""
        return RetryFilter(self.find, self.steps, self.text)

    def passes(self, properties: bytes, cost: FilterCost) -> bool:
        """Whether a message passes the filter of its first topic, or may pass."""
        found = self._found(properties)
        return found is None or found.passes(properties, cost)

    def admits(self, record: Buffer, properties: bytes, cost: FilterCost) -> bool:
        """Whether a message passes the filter of its first topic."""
        found = self._found(properties)
        return found is None or found.admits(record, properties, cost)

    def _found(self, properties: bytes) -> MessageFilter | None:
        return self.find(field(properties, RETRY_MARK).decode("utf-8", "replace"))


NOT_COMPILED: Final = MessageFilter()
"""Stands for the filter of a pull whose expression is not compiled yet, because filters had used up their turn."""
RETRY_MARK: Final = keys.RETRY_TOPIC.encode() + b"\x01"
