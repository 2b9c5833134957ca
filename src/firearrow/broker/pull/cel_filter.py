"""Filters by CEL: they decide by the properties and the body of a message, within budgets. Pure; ticks are given.

An evaluation has a budget of steps and time (`FilterBudgets`), and so has the scan of one pull: when it is used up, the
pull is answered with what was found, and the next pull goes on behind. What a filter costs its group is counted in
`FilterCost`, which the handler of pulls adds to the statistics.
"""

from collections.abc import Callable
from functools import partial
from typing import Final

from msgspec import Struct

from firearrow.broker.pull.message_filter import MessageFilter
from firearrow.errors import BadBody, Unsupported
from firearrow.expression.cel.message_view import MOST_BODY_BYTES, MessageView
from firearrow.expression.cel.meter import Budget
from firearrow.expression.cel.program import Program, Verdict
from firearrow.expression.errors import NoValue
from firearrow.model import keys
from firearrow.model.flags import COMPRESSED
from firearrow.model.names import is_retry_topic
from firearrow.record.compression import decompress
from firearrow.record.decode import RecordHead, peek
from firearrow.record.layout import Buffer
from firearrow.record.properties import decode_properties

SCAN_MICROSECONDS: Final = 10_000
"""Default of the most time that a filter takes for one pull."""
_OF_PROPERTIES: Final = frozenset({"properties", "tag", "keys"})
"""The variables that are known before a message's record is read."""


def _no_ticks() -> int:
    return 0


class FilterBudgets:
    """What CEL filters may cost, and the clock that measures it. Shared by the filters of a broker."""

    def __init__(self, ticks: Callable[[], int] = _no_ticks) -> None:
        self.ticks: Final = ticks
        self.message = Budget()
        self.scan_ns = SCAN_MICROSECONDS * 1000
        self.body_bytes = MOST_BODY_BYTES


class FilterCost:
    """What a filter has cost since the counts were last taken."""

    __slots__ = ("errors", "messages", "nanoseconds", "reason", "scan_ns", "steps")

    def __init__(self) -> None:
        self.messages = self.steps = self.nanoseconds = self.errors = 0
        self.reason = ""
        """Why the last message without a verdict had none."""
        self.scan_ns = 0
        """Nanoseconds of the present scan."""


class CelFilter(MessageFilter, frozen=True, eq=False):
    """A compiled CEL expression that decides about records."""

    program: Program
    budgets: FilterBudgets
    cost: FilterCost

    @classmethod
    def of(cls, program: Program, budgets: FilterBudgets) -> "CelFilter":
        """Return the filter of a program."""
        return cls(program, budgets, FilterCost())

    @property
    def steps(self) -> int:
        """The steps of an evaluation, without what macros and long values add."""
        return self.program.steps

    def own(self) -> "CelFilter":
        """Return a filter of the same program with counts of its own."""
        return CelFilter.of(self.program, self.budgets)

    def begin_scan(self) -> None:
        """Begin the scan of one pull."""
        self.cost.scan_ns = 0

    @property
    def is_spent(self) -> bool:
        """Whether the present scan has used up its time."""
        return self.cost.scan_ns > self.budgets.scan_ns

    def passes(self, properties: bytes) -> bool:
        """Whether a message with these properties may pass: True if more than they must be known, or time is short."""
        if not _OF_PROPERTIES.issuperset(self.program.names) or self.is_spent:
            return True
        return self._judged(MessageView("", decode_properties(properties), bytes, 0, 0))

    def admits(self, record: Buffer, properties: bytes) -> bool:
        """Whether a message passes."""
        head, found = peek(record), decode_properties(properties)
        topic = found.get(keys.RETRY_TOPIC, head.topic) if is_retry_topic(head.topic) else head.topic
        read_body = partial(_body, head, record, self.budgets.body_bytes)
        return self._judged(MessageView(topic, found, read_body, head.born_timestamp, head.store_timestamp))

    def _judged(self, view: MessageView) -> bool:
        judged = self.program.judge(view, self.budgets.message, self.budgets.ticks)
        cost = self.cost
        cost.messages += 1
        cost.steps += judged.steps
        cost.nanoseconds += judged.nanoseconds
        cost.scan_ns += judged.nanoseconds
        if judged.reason:
            cost.errors += 1
            cost.reason = judged.reason
        return judged.verdict is Verdict.TRUE


def _body(head: RecordHead, record: Buffer, most_bytes: int) -> bytes:
    if head.body_length > most_bytes:
        raise NoValue(f"the body has {head.body_length} bytes; a filter reads at most {most_bytes}")
    body = head.body(record)
    if not head.sys_flag & COMPRESSED:
        return body
    try:
        return decompress(body, head.sys_flag, most_bytes)
    except (BadBody, Unsupported) as wrong:
        raise NoValue(f"the body cannot be decompressed for a filter: {wrong}") from None


class TakenCost(Struct, frozen=True):
    """Counts that were taken from a filter."""

    messages: int
    steps: int
    microseconds: int
    errors: int
    reason: str


def take_cost(cost: FilterCost) -> TakenCost:
    """Return the counts of a filter and set them to zero; parts of a microsecond stay."""
    microseconds, rest = divmod(cost.nanoseconds, 1000)
    taken = TakenCost(cost.messages, cost.steps, microseconds, cost.errors, cost.reason)
    cost.messages = cost.steps = cost.errors = 0
    cost.nanoseconds, cost.reason = rest, ""
    return taken
