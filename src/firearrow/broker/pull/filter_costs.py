"""The cost of filters for their groups: added to the statistics; messages without a verdict are logged."""

import logging
from typing import Final

from firearrow.broker.pull.filter_budget import FilterCost
from firearrow.broker.statistics.counters import BrokerStats
from firearrow.runtime.clock import elapsed_ms
from firearrow.telemetry.damped import DampedEvents

GROUPS_SAID: Final = 1024
"""The most groups and topics whose log lines are damped one by one."""

log = logging.getLogger(__name__)


class FilterCosts:
    """The costs of the filters of one broker."""

    def __init__(self, stats: BrokerStats) -> None:
        self._stats = stats
        self._said: dict[tuple[str, str], DampedEvents] = {}

    def add(self, group: str, topic: str, cost: FilterCost) -> None:
        """Add what a scan has cost to the statistics of its group and topic."""
        if not cost.messages:
            return
        self._stats.judged(group, topic, cost.messages, cost.steps, cost.errors, _microseconds(cost))
        if cost.errors:
            self._say(group, topic, cost.errors, cost.reason)

    def add_of_arrivals(self, group: str, topic: str, cost: FilterCost) -> None:
        """Add the steps and the time of judging arrivals; the messages are counted when a pull scans them."""
        self._stats.judged(group, topic, 0, cost.steps, 0, _microseconds(cost))

    def add_of_shared_scan(self, group: str, topic: str, cost: FilterCost) -> None:
        """Add the messages of a scan that was done, and counted, for another pull; its steps and time are counted."""
        self._stats.judged(group, topic, cost.messages, 0, cost.errors, 0)

    def _say(self, group: str, topic: str, errors: int, reason: str) -> None:
        if len(self._said) >= GROUPS_SAID:
            self._said.clear()
        damped = self._said.setdefault((group, topic), DampedEvents())
        if damped.count(elapsed_ms() / 1000):
            log.warning(
                "the filter of a group has no verdict for messages, which do not pass: %s",
                reason,
                extra={"group": group, "topic": topic, "messages": errors, "reason": reason},
            )


def _microseconds(cost: FilterCost) -> int:
    return (cost.nanoseconds + 500) // 1000
