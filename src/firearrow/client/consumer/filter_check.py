"""Asks the brokers of a topic whether they can filter by an expression, before the first pull. Java:
``MQClientInstance.checkClientInBroker``.

A topic without a route, and a broker that does not answer, are left out: the first pull will tell.
"""

import logging
from collections.abc import Iterable
from typing import Final

from firearrow.client.consumer.subscription import Subscription
from firearrow.client.instance import Instance
from firearrow.errors import FireArrowError, RequestRefused, SettingsError, Unsupported
from firearrow.model.names import is_retry_topic
from firearrow.protocol.bodies.body import encode_body
from firearrow.protocol.bodies.group.heartbeat import CheckClientBody
from firearrow.protocol.codes import ResponseCode
from firearrow.protocol.requests.group.heartbeat import CheckClientConfig

CHECK_TIMEOUT_MS: Final = 3000

log: Final = logging.getLogger(__name__)


async def check_filters(instance: Instance, group: str, subscriptions: Iterable[Subscription]) -> None:
    """Raise ``Unsupported`` or ``SettingsError`` if a broker of a topic cannot filter as its subscription asks."""
    for wanted in list(subscriptions):
        if not wanted.is_by_tag and not is_retry_topic(wanted.topic):
            await _check(instance, group, wanted)


async def _check(instance: Instance, group: str, wanted: Subscription) -> None:
    body = encode_body(CheckClientBody(client_id=instance.id, group=group, subscription_data=wanted.data()))
    try:
        route = await instance.route(wanted.topic)
    except FireArrowError as error:
        log.info("the filter of topic %s is not checked now: %s", wanted.topic, error, extra={"topic": wanted.topic})
        return
    for broker in dict.fromkeys(queue.broker_name for queue in route.read_queues):
        found = instance.routes.readable(broker, 0)
        if found is None:
            continue
        try:
            await instance.caller.call(found[1], CheckClientConfig(), body, timeout_ms=CHECK_TIMEOUT_MS)
        except RequestRefused as refusal:
            raise _refusal(broker, wanted, refusal) from refusal
        except FireArrowError as error:
            what = "broker %s does not say whether it filters as topic %s asks: %s"
            log.info(what, broker, wanted.topic, error, extra={"topic": wanted.topic, "broker": broker})


def _refusal(broker: str, wanted: Subscription, refusal: RequestRefused) -> FireArrowError:
    if refusal.code == ResponseCode.SUBSCRIPTION_PARSE_FAILED:
        return SettingsError(
            f"broker {broker} does not take the {wanted.kind} filter {wanted.expression[:120]!r} of topic "
            f"{wanted.topic}: {refusal.remark}"
        )
    return Unsupported(
        f"broker {broker} does not filter topic {wanted.topic} by {wanted.kind} ({refusal.remark}): set "
        "enablePropertyFilter=true in its broker.conf, or subscribe by tags, or filter with accept=..."
    )
