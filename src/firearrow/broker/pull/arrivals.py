"""Arrivals: which parked pulls a new message is for. Pure but for the clock.

Tags tell at once. Filters on properties judge the message, until the time of the turn is over; then their pulls wake
too, and look for themselves in this turn or a later one. So no arrival is lost, however many filters wait.
"""

from collections.abc import Callable
from typing import Final, Generic, TypeVar

from firearrow.broker.pull.filter_budget import FilterClock, FilterCost
from firearrow.broker.pull.filter_costs import FilterCosts
from firearrow.broker.pull.long_poll import ParkedPulls, QueueKey, QueuePulls
from firearrow.broker.pull.message_filter import MessageFilter
from firearrow.model.java_hash import tag_code
from firearrow.store.placement import Rows, UniformRows
from firearrow.store.property_fields import TAGS_MARK, field

JUDGED_AT_ONCE: Final = 500
"""Judgements of arrivals, one for each arrival and filter; beyond, the pulls wake and look themselves."""
JUDGED_UNTIMED: Final = 16
"""The most judgements between two looks at the clock."""
STEPS_UNTIMED: Final = 512
"""The most steps between two looks at the clock, and those of one evaluation."""

T = TypeVar("T")


class Arrivals(Generic[T]):
    """The arrivals whose pulls have not been woken yet."""

    def __init__(
        self, parked: ParkedPulls[T], clock: FilterClock, costs: FilterCosts, group_of: Callable[[T], str]
    ) -> None:
        self._parked = parked
        self._clock = clock
        self._costs = costs
        self._group_of = group_of
        self.found: Final[dict[tuple[QueueKey, int | MessageFilter], int]] = {}
        """The last offset of arrivals, by queue and tag code, or by queue and filter that the arrival passes."""

    def add(self, rows: Rows) -> None:
        """Note messages that became visible, if pulls are parked at their queues."""
        queues = self._parked.queues
        if not queues or (type(rows) is UniformRows and (rows.tail.topic, rows.tail.queue_id) not in queues):
            return
        judging: _ArrivalJudge[T] | None = None
        for tail, _, _, queue_offset, _, _, properties in rows:
            key = (tail.topic, tail.queue_id)
            at_queue = queues.get(key)
            if at_queue is None:
                continue
            tag = field(properties, TAGS_MARK)
            code = tag_code(tag.decode("utf-8", "replace")) if tag else 0
            self.found[key, code] = queue_offset
            if at_queue.filters:
                judging = judging or _ArrivalJudge(self._clock)
                for wanted in judging.passing(at_queue, properties, tail.topic, self._group_of):
                    self.found[key, wanted] = queue_offset
        if judging is not None:
            self._add_costs(judging)

    def _add_costs(self, judging: "_ArrivalJudge[T]") -> None:
        """Add the steps and the time of judging to its groups; the time is divided by their steps."""
        took = self._clock.end(sum(cost.price_ns for cost in judging.costs.values()))
        steps = sum(cost.steps for cost in judging.costs.values())
        for (group, topic), cost in judging.costs.items():
            cost.nanoseconds = took * cost.steps // max(steps, 1)
            self._costs.add_of_arrivals(group, topic, cost)


class _ArrivalJudge(Generic[T]):
    """Judges arrivals while there is time."""

    def __init__(self, clock: FilterClock) -> None:
        self._clock = clock
        clock.begin()
        self._left = 0 if clock.is_turn_over else JUDGED_AT_ONCE
        self._untimed = JUDGED_UNTIMED
        self._steps = 0
        self.costs: dict[tuple[str, str], FilterCost] = {}

    def passing(
        self, at_queue: QueuePulls[T], properties: bytes, topic: str, group_of: Callable[[T], str]
    ) -> list[MessageFilter]:
        """Return the filters that a message passes, or that cannot be asked any more.

        Groups that carry the same expression share a filter: what it costs counts for the pull that was parked first.
        """
        found = []
        for wanted, parked in at_queue.filters.items():
            if self._left > 0:
                cost = self.costs.setdefault((group_of(next(iter(parked)).ticket), topic), FilterCost())
                before = cost.steps
                passes = wanted.passes(properties, cost)
                self._count(cost.steps - before)
            else:
                passes = True
            if passes:
                found.append(wanted)
        return found

    def _count(self, steps: int) -> None:
        self._left -= 1
        self._untimed -= 1
        self._steps += steps
        if self._untimed <= 0 or self._steps >= STEPS_UNTIMED:
            self._untimed, self._steps = JUDGED_UNTIMED, 0
            if self._clock.is_over:
                self._left = 0
