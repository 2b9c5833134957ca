"""Which queues this member reads: subscriptions, the other members, and the division between them.

``divide`` asks and decides; it changes nothing but what it is told to keep up to date. The consumer acts on its answer.
Java: ``RebalanceImpl``.
"""

import logging
from collections.abc import Mapping
from typing import Final

from msgspec import Struct

from firearrow import fastjson
from firearrow.client.consumer.assignment import Strategy, assigned
from firearrow.client.consumer.pulling import Puller
from firearrow.client.consumer.subscription import Subscription
from firearrow.client.instance import Instance
from firearrow.client.routes import Route
from firearrow.errors import FireArrowError, NoRoute, RequestRefused
from firearrow.model import MessageQueue
from firearrow.protocol.bodies.heartbeat import ConsumerIdList
from firearrow.protocol.codes import ResponseCode
from firearrow.protocol.requests.heartbeat import GetConsumerListByGroup

log: Final = logging.getLogger(__name__)

_NOT_HEARD: Final = "its heartbeat has not arrived"
_MEMBERS_OR_NONE: Final = frozenset({int(ResponseCode.SUCCESS), int(ResponseCode.SYSTEM_ERROR)})


class Division(Struct, frozen=True):
    """The queues of this member by topic. A topic whose division is not known is missing: it stays as it is."""

    queues: Mapping[str, frozenset[MessageQueue]]
    unknown: Mapping[str, str]
    """The topics that could not be divided, and why."""

    @property
    def is_settled(self) -> bool:
        """Whether every topic could be divided."""
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
        """Find out which queues of the subscribed topics are this member's."""
        mine: dict[str, frozenset[MessageQueue]] = {}
        unknown: dict[str, str] = {}
        for topic in list(subscriptions):  # somebody may subscribe meanwhile
            try:
                mine[topic] = frozenset(await self._share(topic))
            except FireArrowError as error:
                unknown[topic] = str(error)
                extra = {"topic": topic, "reason": str(error)}
                log.info("topic %s could not be divided: %s", topic, error, extra=extra, exc_info=error.__cause__)
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
        """The client ids of the group, asked from a broker of the topic."""
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
    """Whether asking the same again soon would be answered the same."""
    busy = (ResponseCode.SYSTEM_BUSY, ResponseCode.FLOW_CONTROL)
    return isinstance(error, RequestRefused) and error.code not in busy
