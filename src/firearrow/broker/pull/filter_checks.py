"""Checks of expressions before a consumer uses them: by CHECK_CLIENT_CONFIG. Java:
``ClientManageProcessor.checkClientConfig``.

A check compiles its expression, so checks stand in the line of filters as pulls do: in a turn of the loop that has
spent its time on filters, no further expression is compiled.
"""

from collections.abc import Awaitable, Callable

from firearrow.broker.lanes import Lanes, WaitKind
from firearrow.broker.pull.filters import Filters
from firearrow.protocol.bodies.group.heartbeat import SubscriptionData
from firearrow.remoting.handlers import Call, Later


class FilterChecks:
    """Checks whether the broker can filter by a subscription."""

    def __init__(self, filters: Filters, lanes: Lanes, time_for_filter: Callable[[], Awaitable[None]]) -> None:
        self._filters = filters
        self._lanes = lanes
        self._time_for_filter = time_for_filter

    def check(self, wanted: SubscriptionData, call: Call) -> Later | None:
        """Refuse a subscription that does not compile, at once or when filters have time again."""
        if self._filters.must_wait(wanted.expression_type, wanted.sub_string or ""):
            later = call.later()  # with the body, whose subscription is kept
            self._lanes.add(later, WaitKind.TURNS, self._check_later(wanted))
            return later
        self._filters.check(wanted)
        return None

    async def _check_later(self, wanted: SubscriptionData) -> None:
        await self._time_for_filter()
        self._filters.check(wanted)
