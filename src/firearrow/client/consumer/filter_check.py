"""Asks the brokers of a topic whether they can filter by an expression, before the first pull. Java:
``MQClientInstance.checkClientInBroker``.

A topic without a route, and a broker that does not answer, are left out: the first pull will tell. A pull that carries
a CEL expression is sent only to a broker that has said yes: Apache's brokers with ``enablePropertyFilter=true`` would
answer it with every message.
"""

import logging
from collections.abc import Iterable
from typing import Final

from firearrow.client.consumer.subscription import Subscription
from firearrow.client.instance import Instance
from firearrow.errors import FireArrowError, NoRoute, RequestRefused, SettingsError, Unsupported
from firearrow.expression.cel.program import CEL
from firearrow.model.names import is_retry_topic
from firearrow.protocol.bodies.body import encode_body
from firearrow.protocol.bodies.group.heartbeat import CheckClientBody
from firearrow.protocol.codes import ResponseCode
from firearrow.protocol.requests.group.heartbeat import CheckClientConfig

CHECK_TIMEOUT_MS: Final = 3000
MOST_TAKEN: Final = 1000
"""The most filters and brokers of which a consumer remembers that the broker takes the filter."""
_OURS: Final = ("expression does not compile", "enablePropertyFilter is false")
"""Words in the remarks with which FireArrow's brokers refuse a CEL filter."""

log: Final = logging.getLogger(__name__)


async def check_filters(instance: Instance, group: str, subscriptions: Iterable[Subscription]) -> None:
    """Raise ``Unsupported`` or ``SettingsError`` if a broker of a topic cannot filter as its subscription asks."""
    for wanted in list(subscriptions):
        if not wanted.is_by_tag and not is_retry_topic(wanted.topic):
            await _check(instance, group, wanted)


class CarriedFilters:
    """The CEL filters that pulls carry, and the brokers that take them."""

    def __init__(self) -> None:
        self._taken: set[tuple[str, str]] = set()

    async def check(self, instance: Instance, group: str, wanted: Subscription, broker: str) -> None:
        """Ask a broker once whether it takes a CEL filter; raise the error if it does not, or does not answer."""
        key = broker, wanted.expression
        if wanted.kind != CEL or key in self._taken:
            return
        try:
            await _ask(instance, broker, wanted, _body(instance, group, wanted))
        except RequestRefused as refusal:
            raise _refusal(broker, wanted, refusal) from refusal
        if len(self._taken) >= MOST_TAKEN:
            self._taken.clear()
        self._taken.add(key)


def _body(instance: Instance, group: str, wanted: Subscription) -> bytes:
    return encode_body(CheckClientBody(client_id=instance.id, group=group, subscription_data=wanted.data()))


async def _ask(instance: Instance, broker: str, wanted: Subscription, body: bytes) -> None:
    found = instance.routes.readable(broker, 0)
    if found is None:
        raise NoRoute(f"broker {broker} of topic {wanted.topic} has no address now")
    await instance.caller.call(found[1], CheckClientConfig(), body, timeout_ms=CHECK_TIMEOUT_MS)


async def _check(instance: Instance, group: str, wanted: Subscription) -> None:
    body = _body(instance, group, wanted)
    try:
        route = await instance.route(wanted.topic)
    except FireArrowError as error:
        log.info("the filter of topic %s is not checked now: %s", wanted.topic, error, extra={"topic": wanted.topic})
        return
    for broker in dict.fromkeys(queue.broker_name for queue in route.read_queues):
        try:
            await _ask(instance, broker, wanted, body)
        except RequestRefused as refusal:
            raise _refusal(broker, wanted, refusal) from refusal
        except FireArrowError as error:
            what = "broker %s does not say whether it filters as topic %s asks: %s"
            log.info(what, broker, wanted.topic, error, extra={"topic": wanted.topic, "broker": broker})


def _refusal(broker: str, wanted: Subscription, refusal: RequestRefused) -> FireArrowError:
    if wanted.kind == CEL and not any(words in refusal.remark for words in _OURS):
        return Unsupported(
            f"broker {broker} does not filter topic {wanted.topic} by {CEL}, which FireArrow's brokers do and Apache's "
            f"do not ({refusal.remark}): use sql(...) for properties, or filter with accept=..."
        )
    if refusal.code == ResponseCode.SUBSCRIPTION_PARSE_FAILED:
        return SettingsError(
            f"broker {broker} does not take the {wanted.kind} filter {wanted.expression[:120]!r} of topic "
            f"{wanted.topic}: {refusal.remark}"
        )
    return Unsupported(
        f"broker {broker} does not filter topic {wanted.topic} by {wanted.kind} ({refusal.remark}): set "
        "enablePropertyFilter=true in its broker.conf, or subscribe by tags, or filter with accept=..."
    )
