"""Groups as things that are made and deleted, and which member holds which queue.

A member itself says which queues it holds (GET_CONSUMER_RUNNING_INFO, passed on by the broker): brokers do not divide
queues, members do. Java: ``ConsumerStatusSubCommand``, ``DeleteSubscriptionGroupCommand``.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from firearrow.admin.broker_groups import BrokerGroups
from firearrow.admin.broker_topics import BrokerTopics
from firearrow.admin.brokers import BrokerMember, Brokers, at_each, together
from firearrow.admin.group_offsets import GroupOffsets
from firearrow.admin.name_server_operations import NameServerOperations
from firearrow.client.name_servers import UNANSWERED
from firearrow.errors import AlreadyExists, NoSuchName, NotNow, RequestRefused, SettingsError
from firearrow.model import MessageQueue
from firearrow.model.names import is_system_group, retry_topic
from firearrow.protocol.bodies.group.group import SubscriptionGroupConfig
from firearrow.protocol.bodies.group.running_info import ConsumerRunningInfo
from firearrow.protocol.codes import ResponseCode

SETTINGS: Final = (
    "retry_max_times",
    "retry_queue_nums",
    "consume_broadcast_enable",
    "consume_enable",
    "consume_message_orderly",
)
STARTED: Final = "PROP_CONSUMER_START_TIMESTAMP"


class HeldQueue(Struct, frozen=True, order=True):
    """A queue and the member that holds it. Times are those of the member's clock; 0 is never."""

    queue: MessageQueue
    client_id: str
    member_since_ms: int
    cached: int
    last_pull_ms: int
    last_consume_ms: int


class SilentMember(Struct, frozen=True, order=True):
    """A member that did not say which queues it holds."""

    client_id: str
    why: str


class Holders(Struct, frozen=True):
    """The members of a group and the queues that they hold."""

    queues: tuple[HeldQueue, ...] = ()
    silent: tuple[SilentMember, ...] = ()
    subscriptions: Mapping[str, Mapping[str, str]] = {}
    """The expression by topic, by member."""


class GroupMembers:
    """Makes and deletes groups, and asks their members."""

    def __init__(self, brokers: Brokers) -> None:
        self._brokers = brokers
        self._offsets = GroupOffsets(brokers)
        self._groups = BrokerGroups(brokers)
        self._topics = BrokerTopics(brokers)
        self._names = NameServerOperations(brokers)

    async def holders(self, clients: Sequence[str], group: str) -> Holders:
        """Ask members of a group which queues they hold."""
        members = await self._brokers.readable()
        said = await together(self._ask(members, group, client) for client in clients)
        infos = {client: info for client, info in zip(clients, said, strict=True) if not isinstance(info, SilentMember)}
        return Holders(
            tuple(sorted(held for client, info in infos.items() for held in _held(info, client))),
            tuple(found for found in said if isinstance(found, SilentMember)),
            {client: _subscriptions(info) for client, info in infos.items()},
        )

    async def create(self, group: SubscriptionGroupConfig, *, cluster: str = "", broker: str = "") -> None:
        """Make a group on every master of a cluster, or on one broker.

        Raise ``AlreadyExists`` if all have it, or one with other settings: what failed halfway can be done again.
        """
        masters = await self._brokers.masters(cluster, broker)
        held = {member: (await self._groups.configs(member)).get(group.group_name or "") for member in masters}
        other = next((member for member, each in held.items() if each is not None and not _is_same(each, group)), None)
        if other is not None or None not in held.values():
            where = (other or masters[0]).name
            raise AlreadyExists(
                f"there is a group {group.group_name!r} on {where} already; firearrow group update changes it"
            )
        await self._put({member: group for member, each in held.items() if each is None})

    async def update(self, group: str, changes: Mapping[str, Any], *, cluster: str = "", broker: str = "") -> None:
        """Change settings of a group on every master of a cluster or on one broker; each keeps its other ones.

        A master that does not have the group gets it with the settings of one that has it.
        """
        elsewhere = await self.settings(group, cluster)
        masters = await self._brokers.masters(cluster, broker)
        held = {member: (await self._groups.configs(member)).get(group, elsewhere) for member in masters}
        await self._put({member: replace(before, **changes) for member, before in held.items()})

    async def _put(self, wanted: Mapping[BrokerMember, SubscriptionGroupConfig]) -> None:
        await at_each(
            {f"broker {member.name}": partial(self._groups.put, member, config) for member, config in wanted.items()}
        )

    async def settings(self, group: str, cluster: str = "") -> SubscriptionGroupConfig:
        """Return the settings of a group; raise ``NoSuchName`` if no broker knows it."""
        found = (await self._offsets.groups(cluster)).get(group)
        if found is None:
            raise NoSuchName(f"no broker knows a group {group!r}; firearrow group list shows those that are there")
        return found

    async def delete(self, group: str, *, cluster: str = "", keep_offsets: bool = False) -> None:
        """Delete a group without members, with its offsets and its retry topic; dead letters stay."""
        if is_system_group(group):
            raise SettingsError(f"group {group!r} is the brokers' own, and tools and clients use it; it stays")
        await self.settings(group, cluster)
        masters = await self._brokers.masters(cluster)
        if await self._offsets.has_members(group, cluster):
            raise NotNow(f"group {group!r} has members, which would make it again: stop them, then delete it")

        async def delete_at(member: BrokerMember) -> None:
            await self._groups.delete(member, group, with_offsets=not keep_offsets)
            await self._forget_topic(member, retry_topic(group))

        await at_each({f"broker {member.name}": partial(delete_at, member) for member in masters})
        await self._names.forget_topic(retry_topic(group))

    async def _forget_topic(self, member: BrokerMember, topic: str) -> None:
        try:
            await self._topics.delete(member, topic)
        except RequestRefused as refusal:
            if refusal.code != ResponseCode.TOPIC_NOT_EXIST:
                raise

    async def _ask(
        self, members: Sequence[BrokerMember], group: str, client: str
    ) -> ConsumerRunningInfo | SilentMember:
        why = "no broker has its connection now"
        for member in members:
            try:
                return await self._groups.running_info(member, group, client)
            except (RequestRefused, *UNANSWERED) as error:
                why = str(error)
        return SilentMember(client, why)


def _is_same(held: SubscriptionGroupConfig, wanted: SubscriptionGroupConfig) -> bool:
    """Whether a group has the settings that operators give; brokers add others."""
    return all(getattr(held, name) == getattr(wanted, name) for name in SETTINGS)


def _subscriptions(info: ConsumerRunningInfo) -> dict[str, str]:
    return {each.topic or "": each.sub_string or "*" for each in info.subscription_set}


def _held(info: ConsumerRunningInfo, client: str) -> list[HeldQueue]:
    since = info.properties.get(STARTED, "")
    since_ms = int(since) if since.isdigit() else 0
    pulled = [
        HeldQueue(queue, client, since_ms, each.cached_msg_count, each.last_pull_timestamp, each.last_consume_timestamp)
        for queue, each in info.mq_table.items()
        if not each.droped
    ]
    popped = [
        HeldQueue(queue, client, since_ms, each.wait_ack_count, each.last_pop_timestamp, 0)
        for queue, each in info.mq_pop_table.items()
        if not each.droped
    ]
    return pulled + popped
