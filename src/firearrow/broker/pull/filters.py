"""The filters of consumers: compiled once for a subscription, or once for a text that pulls carry. Java:
``ConsumerFilterManager``, ``ClientManageProcessor.checkClientConfig``.

A registered subscription is compiled at its first pull, not at its heartbeat, so a heartbeat with many expressions
holds nobody up; the compiled filter lives with the group. Texts that pulls carry are compiled once while they are
remembered, the total length of which is bounded.
"""

import logging
from collections.abc import Callable
from typing import Final

from firearrow.broker.pull.cel_filter import CelFilter
from firearrow.broker.pull.filter_budget import FilterClock, FilterLimits
from firearrow.broker.pull.message_filter import NOT_COMPILED, MessageFilter, PropertyFilter, RetryFilter
from firearrow.broker.pull.subscription import is_tag_type
from firearrow.broker.settings.pull_settings import PullConfig
from firearrow.broker.tables.clients import ConsumerGroup
from firearrow.expression.cel.program import CEL, compile_cel
from firearrow.expression.errors import BadExpression
from firearrow.expression.sql import SQL92, compile_sql, sql_parser
from firearrow.model.names import RETRY_PREFIX
from firearrow.protocol.bodies.group.heartbeat import SubscriptionData
from firearrow.protocol.codes import ResponseCode
from firearrow.protocol.refusal import Refused
from firearrow.protocol.requests.message.pull import Pull
from firearrow.runtime.turn import TurnBudgets

CHARACTERS_REMEMBERED: Final = 1 << 20
"""The total length of the texts whose filters are remembered, `CHARACTERS_OF_ENTRY` counted for each in addition."""
CHARACTERS_OF_ENTRY: Final = 1024
"""The characters that an entry counts beside its text: so at most 1,024 filters are remembered."""
log = logging.getLogger(__name__)


class Filters:
    """Compiles expressions and keeps the compiled filters."""

    def __init__(self, budgets: TurnBudgets) -> None:
        self.clock: Final = FilterClock(budgets)
        self._limits = FilterLimits()
        self._compilers: dict[str, Callable[[str], MessageFilter]] = {SQL92: self._sql_filter, CEL: self._cel_filter}
        """The compiler of every expression type that is not tags."""
        self._is_enabled = True
        self._supports_retry = False
        self._remembered: dict[tuple[str, str], MessageFilter | BadExpression] = {}
        self._characters = 0

    def configure(self, config: PullConfig) -> None:
        """Apply changed settings."""
        self._is_enabled = config.enable_property_filter
        self._supports_retry = config.filter_support_retry
        self.clock.limit(config.max_filter_micros_of_pull * 1000)
        self._limits.steps = config.max_filter_steps
        self._limits.body_bytes = config.max_filter_body_bytes

    def check(self, subscription: SubscriptionData) -> None:
        """Refuse a subscription by which this broker cannot filter; tags are always fine."""
        if is_tag_type(subscription.expression_type):
            return
        self._check_enabled(subscription.expression_type)
        found = self._compiled(subscription.expression_type, subscription.sub_string or "")
        if isinstance(found, BadExpression):
            raise Refused(ResponseCode.SUBSCRIPTION_PARSE_FAILED, _said(subscription.expression_type, found))

    def must_wait(self, kind: str, text: str) -> bool:
        """Whether a text must be compiled and filters have used up their time in this turn."""
        return self.clock.is_turn_over and (kind, text) not in self._remembered

    def carried(self, request: Pull) -> MessageFilter:
        """Return the filter of a pull that carries its expression, or `NOT_COMPILED`; raise ``Refused``."""
        kind = request.expression_type or ""
        if self.must_wait(kind, request.subscription or ""):
            return NOT_COMPILED
        found = self._compiled(kind, request.subscription or "")
        if isinstance(found, BadExpression):
            remark = f"parse the consumer's subscription failed: {_said(kind, found)}"
            raise Refused(ResponseCode.SUBSCRIPTION_PARSE_FAILED, remark)
        self._check_enabled(kind)
        return found

    def registered(self, group: ConsumerGroup, subscription: SubscriptionData) -> MessageFilter:
        """Return the filter of a subscription of a group, or `NOT_COMPILED`; raise ``Refused``."""
        if not _is_known(group, subscription) and self.must_wait(
            subscription.expression_type, subscription.sub_string or ""
        ):
            return NOT_COMPILED
        found = self._of_group(group, subscription)
        if isinstance(found, BadExpression):
            remark = "The broker's consumer filter data is not exist!Your expression may be wrong! "
            raise Refused(ResponseCode.FILTER_DATA_NOT_EXIST, remark + _said(subscription.expression_type, found))
        self._check_enabled(subscription.expression_type)
        if self._supports_retry and (subscription.topic or "").startswith(RETRY_PREFIX):
            return RetryFilter(lambda topic: self._of_topic(group, topic), found.steps, found.text)
        return found

    def _of_group(self, group: ConsumerGroup, subscription: SubscriptionData) -> MessageFilter | BadExpression:
        if _is_known(group, subscription):
            found = group.filters[subscription.topic or ""][1]
            assert isinstance(found, (MessageFilter, BadExpression))
            return found
        found = self._compiled(subscription.expression_type, subscription.sub_string or "")
        if isinstance(found, MessageFilter):
            found = found.own()  # the group's own: parked pulls of other groups do not share it
        group.filters[subscription.topic or ""] = subscription, found
        return found

    def _of_topic(self, group: ConsumerGroup, topic: str) -> MessageFilter | None:
        subscription = group.subscriptions.get(topic)
        if subscription is None or is_tag_type(subscription.expression_type):
            return None
        found = self._of_group(group, subscription)
        return found if isinstance(found, MessageFilter) else None

    def _check_enabled(self, kind: str) -> None:
        if not self._is_enabled:
            remark = f"The broker does not support consumer to filter message by {kind}"
            raise Refused(ResponseCode.SYSTEM_ERROR, f"{remark}: enablePropertyFilter is false")

    def _compiled(self, kind: str, text: str) -> MessageFilter | BadExpression:
        known = self._remembered.get((kind, text))
        if known is not None:
            return known
        compiler = self._compilers.get(kind)
        if compiler is None:  # not remembered: a client could invent types without end
            return BadExpression(f"this broker filters by TAG and {', '.join(self._compilers)}, not by {kind:.40}")
        with self.clock.compiling(text):
            found = _compile(compiler, kind, text)
        weight = len(text) + CHARACTERS_OF_ENTRY
        if self._characters + weight > CHARACTERS_REMEMBERED:
            self._remembered.clear()
            self._characters = 0
        if weight <= CHARACTERS_REMEMBERED // 8:
            self._characters += weight
            self._remembered[kind, text] = found
        return found

    def _cel_filter(self, text: str) -> MessageFilter:
        return CelFilter(compile_cel(text), self._limits)

    def _sql_filter(self, text: str) -> MessageFilter:
        program = compile_sql(text)
        if program.ignored:
            log.warning(
                "the end of a filter is ignored, as Apache's broker ignores it",
                extra={"filter": text[:200], "ignored": program.ignored[:200]},
            )
        return PropertyFilter.of(program)


def _compile(compiler: Callable[[str], MessageFilter], kind: str, text: str) -> MessageFilter | BadExpression:
    try:
        return compiler(text)
    except BadExpression as bad:
        return BadExpression(str(bad))  # without the traceback, which holds the parser and every token
    except ImportError as missing:
        remark = f"{kind} filters need the package {missing.name} on the broker: pip install 'firearrow[server]'"
        raise Refused(ResponseCode.SYSTEM_ERROR, remark) from missing


def _is_known(group: ConsumerGroup, subscription: SubscriptionData) -> bool:
    """Whether the filter of a subscription is kept with its group."""
    known = group.filters.get(subscription.topic or "")
    return known is not None and known[0] is subscription


def prepare() -> None:
    """Make the parser, which takes about 100 ms: before the broker serves, not at the first filter."""
    try:
        sql_parser()
    except ImportError as missing:
        log.warning(
            "SQL92 filters are refused: the package is not installed; pip install 'firearrow[server]'",
            extra={"package": missing.name},
        )


def _said(kind: str, bad: BadExpression) -> str:
    return f"the {kind:.40} expression does not compile: {bad}"
