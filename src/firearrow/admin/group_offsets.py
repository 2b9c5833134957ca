"""Offsets and settings of groups as a mirror needs them: read at one cluster, written at another.

Offsets are written directly to brokers, so the group must have no running members there: they would overwrite them.
"""

from collections.abc import Mapping

from firearrow.admin.broker_groups import BrokerGroups
from firearrow.admin.broker_offsets import BrokerOffsets
from firearrow.admin.brokers import BrokerMember, Brokers, together
from firearrow.errors import FireArrowError, NotNow, RequestRefused
from firearrow.model import MessageQueue
from firearrow.protocol.bodies.group.group import SubscriptionGroupConfig


class GroupOffsets:
    """The offsets of groups at the brokers of a cluster."""

    def __init__(self, brokers: Brokers) -> None:
        self._brokers = brokers
        self._groups = BrokerGroups(brokers)
        self.at_broker = BrokerOffsets(brokers)

    async def groups(self, cluster: str = "") -> dict[str, SubscriptionGroupConfig]:
        """Return the settings of all groups, the brokers' own included."""
        found: dict[str, SubscriptionGroupConfig] = {}
        for member in await self._brokers.readable(cluster):
            found = {**await self.groups_of(member), **found}
        return found

    async def groups_of(self, member: BrokerMember) -> dict[str, SubscriptionGroupConfig]:
        """Return the settings of all groups as one broker has them."""
        return await self._groups.configs(member)

    async def create(self, group: SubscriptionGroupConfig, cluster: str = "") -> None:
        """Make a group with these settings at every master; raise the first failure when all have been asked."""
        failures: list[FireArrowError] = []
        for member in await self._brokers.masters(cluster):
            try:
                await self._groups.put(member, group)
            except FireArrowError as failure:
                failures.append(failure)
        if failures:
            raise failures[0]

    async def committed(self, group: str, topic: str, cluster: str = "") -> dict[MessageQueue, int]:
        """Return the offsets of a group in the queues of a topic that are above 0: those in which it has consumed."""
        members = await self._brokers.readable(cluster)
        tables = await together(self._groups.progress_if_any(member, group, topic) for member in members)
        return {
            queue: each.consumer_offset
            for stats in tables
            for queue, each in stats.offset_table.items()
            if queue.topic == topic and each.consumer_offset > 0
        }

    async def has_members(self, group: str, cluster: str = "") -> bool:
        """Whether a member of the group is connected."""
        members = await self._brokers.readable(cluster)
        seen = await together(self._groups.connections_if_any(member, group) for member in members)
        return any(each.connection_set for each in seen)

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
            try:
                await self.at_broker.write(master, group, queue, offset)
            except RequestRefused as refusal:
                failures[queue] = refusal
            except FireArrowError as failure:
                failures[queue] = silence = failure
        return failures
