"""Offsets and settings of groups as a mirror needs them: read at one cluster, written at another.

Offsets are written directly to brokers, so the group must have no running members there: they would overwrite them.
"""

from collections.abc import Mapping
from typing import Final

from firearrow import fastjson
from firearrow.admin.brokers import BrokerMember, Brokers, together
from firearrow.errors import FireArrowError, NotNow, RequestRefused
from firearrow.model import MessageQueue
from firearrow.protocol.bodies.admin.stats import ConsumeStats
from firearrow.protocol.bodies.body import encode_body
from firearrow.protocol.bodies.group.group import SubscriptionGroupConfig, SubscriptionGroupTable
from firearrow.protocol.bodies.group.heartbeat import ConsumerConnection
from firearrow.protocol.codes import ResponseCode
from firearrow.protocol.requests.admin.stats import GetConsumeStats
from firearrow.protocol.requests.group.group import (
    GetAllSubscriptionGroupConfig,
    GetConsumerConnectionList,
    UpdateAndCreateSubscriptionGroup,
)
from firearrow.protocol.requests.group.offset import UpdateConsumerOffset

_ABSENT: Final = frozenset(
    {
        int(ResponseCode.CONSUMER_NOT_ONLINE),
        int(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST),
        int(ResponseCode.TOPIC_NOT_EXIST),
        int(ResponseCode.QUERY_NOT_FOUND),
    }
)


class GroupOffsets:
    """The offsets of groups at the brokers of a cluster."""

    def __init__(self, brokers: Brokers) -> None:
        self._brokers = brokers

    async def groups(self, cluster: str = "") -> dict[str, SubscriptionGroupConfig]:
        """Return the settings of all groups, the brokers' own included."""
        found: dict[str, SubscriptionGroupConfig] = {}
        for member in await self._brokers.readable(cluster):
            found = {**await self.groups_of(member), **found}
        return found

    async def groups_of(self, member: BrokerMember) -> dict[str, SubscriptionGroupConfig]:
        """Return the settings of all groups as one broker has them."""
        reply = await self._brokers.ask(member.at, GetAllSubscriptionGroupConfig())
        return fastjson.decode(reply.body, SubscriptionGroupTable).subscription_group_table

    async def create(self, group: SubscriptionGroupConfig, cluster: str = "") -> None:
        """Make a group with these settings at every master; raise the first failure when all have been asked."""
        failures: list[FireArrowError] = []
        for member in await self._brokers.masters(cluster):
            try:
                await self._brokers.ask(member.at, UpdateAndCreateSubscriptionGroup(), encode_body(group))
            except FireArrowError as failure:
                failures.append(failure)
        if failures:
            raise failures[0]

    async def committed(self, group: str, topic: str, cluster: str = "") -> dict[MessageQueue, int]:
        """Return the offsets of a group in the queues of a topic that are above 0: those in which it has consumed."""
        members = await self._brokers.readable(cluster)
        tables = await together(self._progress(member, group, topic) for member in members)
        return {
            queue: each.consumer_offset
            for stats in tables
            for queue, each in stats.offset_table.items()
            if queue.topic == topic and each.consumer_offset > 0
        }

    async def has_members(self, group: str, cluster: str = "") -> bool:
        """Whether a member of the group is connected."""
        members = await self._brokers.readable(cluster)
        return any(await together(self._is_met(member, group) for member in members))

    async def write(self, group: str, offsets: Mapping[MessageQueue, int], cluster: str = "") -> None:
        """Write offsets of a group without members; raise the first failure when all brokers have been asked."""
        failures = await self.write_each(group, offsets, cluster)
        for failure in failures.values():
            raise failure

    async def write_each(
        self, group: str, offsets: Mapping[MessageQueue, int], cluster: str = ""
    ) -> dict[MessageQueue, FireArrowError]:
        """Write offsets of a group without members; return the failures. A broker that fails holds up no other."""
        masters = {member.name: member for member in await self._brokers.masters(cluster)}
        parts: dict[str, dict[MessageQueue, int]] = {}
        for queue, offset in offsets.items():
            parts.setdefault(queue.broker_name, {})[queue] = offset
        found = await together(self._write_at(masters.get(name), group, part) for name, part in parts.items())
        return {queue: failure for failures in found for queue, failure in failures.items()}

    async def _write_at(
        self, master: BrokerMember | None, group: str, offsets: Mapping[MessageQueue, int]
    ) -> dict[MessageQueue, FireArrowError]:
        """Write the offsets of one broker. One that does not answer is not asked again."""
        if master is None:
            return {
                queue: NotNow(f"broker {queue.broker_name} has no master now; try again when it has one")
                for queue in offsets
            }
        failures: dict[MessageQueue, FireArrowError] = {}
        silence: FireArrowError | None = None
        for queue, offset in offsets.items():
            if silence is not None:
                failures[queue] = silence
                continue
            request = UpdateConsumerOffset(
                consumer_group=group, topic=queue.topic, queue_id=queue.queue_id, commit_offset=offset
            )
            try:
                await self._brokers.ask(master.at, request)
            except RequestRefused as refusal:
                failures[queue] = refusal
            except FireArrowError as failure:
                failures[queue] = silence = failure
        return failures

    async def _is_met(self, member: BrokerMember, group: str) -> bool:
        try:
            reply = await self._brokers.ask(member.at, GetConsumerConnectionList(consumer_group=group))
        except RequestRefused as refusal:
            if refusal.code in _ABSENT:
                return False
            raise
        return bool(fastjson.decode(reply.body, ConsumerConnection).connection_set)

    async def _progress(self, member: BrokerMember, group: str, topic: str) -> ConsumeStats:
        try:
            reply = await self._brokers.ask(member.at, GetConsumeStats(consumer_group=group, topic=topic))
        except RequestRefused as refusal:
            if refusal.code in _ABSENT:
                return ConsumeStats()
            raise
        return fastjson.decode(reply.body, ConsumeStats)
