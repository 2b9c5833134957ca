"""The choice of the queues that this member reads: its subscriptions, the other members, and the division of queues.

``divide`` asks brokers and decides; the consumer acts on its answer.
Java: ``RebalanceImpl``.
"""

import logging
from collections.abc import Mapping
from typing import Final

from msgspec import Struct

from firearrow import fastjson
from firearrow.client.consumer.broker_queries import Puller
from firearrow.client.consumer.division.strategies import Strategy, assigned
from firearrow.client.consumer.subscription import Subscription
from firearrow.client.instance import Instance
from firearrow.client.routes import Route
from firearrow.errors import FireArrowError, NoRoute, RequestRefused
from firearrow.model import MessageQueue
from firearrow.protocol.bodies.group.heartbeat import ConsumerIdList
from firearrow.protocol.codes import ResponseCode
from firearrow.protocol.requests.group.heartbeat import GetConsumerListByGroup

log: Final = logging.getLogger(__name__)

_NOT_HEARD: Final = "its heartbeat has not arrived"
_MEMBERS_OR_NONE: Final = frozenset({int(ResponseCode.SUCCESS), int(ResponseCode.SYSTEM_ERROR)})


class Division(Struct, frozen=True):
    """The queues of this member by topic. A topic that could not be divided is missing and keeps its queues."""

    queues: Mapping[str, frozenset[MessageQueue]]
    unknown: Mapping[str, str]
    """The topics whose queues could not be divided, and why."""

    @property
    def is_settled(self) -> bool:
        """Whether the queues of every topic could be divided."""
        return not self.unknown


class Membership:
    """One member of a group."""

    def __init__(
        self, instance: Instance, puller: Puller, group: str, strategy: Strategy, *, broadcasting: bool
    ) -> None:
        self._instance = instance
        self._puller = puller
        self._group = group
        self._strategy = strategy
        self._broadcasting = broadcasting

    async def divide(self, subscriptions: Mapping[str, Subscription]) -> Division:
        """Return which queues of the subscribed topics this member reads."""
        mine: dict[str, frozenset[MessageQueue]] = {}
        unknown: dict[str, str] = {}
        for topic in list(subscriptions):  # the application may subscribe meanwhile
            try:
                mine[topic] = frozenset(await self._share(topic))
            except FireArrowError as error:
                unknown[topic] = str(error)
                extra = {"topic": topic, "reason": str(error)}
                log.info(
                    "the queues of topic %s could not be divided among the members: %s",
                    topic,
                    error,
                    extra=extra,
                    exc_info=error.__cause__,
                )
        return Division(mine, unknown)

    async def _share(self, topic: str) -> list[MessageQueue]:
        route = await self._instance.route(topic)
        if self._broadcasting:
            return list(route.read_queues)
        members = await self.members(route)
        if not members or self._instance.id not in members:
            raise NoRoute(f"no broker knows this member of {self._group} yet: {self._instance.refusal or _NOT_HEARD}")
        return assigned(self._strategy, self._instance.id, route.read_queues, members)

    async def members(self, route: Route) -> list[str]:
        """Ask a broker of the topic for the client ids of the group."""
        request = GetConsumerListByGroup(consumer_group=self._group)
        brokers = [name for name, members in sorted(route.brokers.items()) if members]
        if not brokers:
            return []
        chosen = self._instance.doors.chance.choice(brokers)
        reply = await self._puller.ask(chosen, request, accept=_MEMBERS_OR_NONE)
        if reply.code != ResponseCode.SUCCESS or not reply.body:
            return []
        return fastjson.decode(reply.body, ConsumerIdList).consumer_id_list or []


def is_hopeless(error: FireArrowError) -> bool:
    """Whether a retry soon would fail the same way."""
    busy = (ResponseCode.SYSTEM_BUSY, ResponseCode.FLOW_CONTROL)
    return isinstance(error, RequestRefused) and error.code not in busy
