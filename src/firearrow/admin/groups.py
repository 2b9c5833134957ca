"""Consumer groups: list, describe, reset.

Offsets of a group come from the brokers that store them, its members from the connections of brokers. A broadcasting
group keeps its offsets in local files, so it shows none here.

A reset works with and without running members. Running members are notified by their broker; without members (Apache's
4.9 refuses then) the offsets are written directly. Single offsets can only be written directly: a 4.9 broker with
members would read an offset as a time.

Java: ``DefaultMQAdminExtImpl.resetOffsetByTimestamp``, ``ConsumerProgressSubCommand``.
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Final

from msgspec import Struct

from firearrow.admin.broker_groups import BrokerGroups
from firearrow.admin.broker_offsets import BrokerOffsets
from firearrow.admin.broker_operations import BrokerOperations
from firearrow.admin.broker_topics import BrokerTopics
from firearrow.admin.brokers import BrokerMember, Brokers, at_each, together
from firearrow.errors import FireArrowError, NoSuchName, NotNow, PartlyDone, RequestRefused, SettingsError
from firearrow.model import MessageQueue
from firearrow.model.names import is_system_group
from firearrow.model.versions import version_name
from firearrow.protocol.bodies.admin.stats import ConsumeStats, OffsetWrapper
from firearrow.protocol.bodies.admin.topic import TopicOffset
from firearrow.protocol.bodies.group.group import SubscriptionGroupConfig
from firearrow.protocol.bodies.group.heartbeat import ConsumerConnection
from firearrow.protocol.codes import ResponseCode

FIRST: Final = 0
"""A time before every message."""
LAST: Final = -1
"""Not a time: after the last message."""

_NEVER: Final = -1
_FILTER_STATISTICS: Final = (
    "GROUP_FILTERED_NUMS",
    "GROUP_FILTER_JUDGED_NUMS",
    "GROUP_FILTER_MICROS",
    "GROUP_FILTER_ERROR_NUMS",
)
"""The statistics of a FireArrow broker, in the order of `FilterUse`."""


class MemberState(Struct, frozen=True, order=True):
    """One member of a group."""

    client_id: str
    address: str
    language: str
    version: str


class QueueProgress(Struct, frozen=True, order=True):
    """The progress of a group in one queue."""

    queue: MessageQueue
    committed: int
    end: int
    last_consumed_ms: int

    @property
    def lag(self) -> int:
        """The number of messages to be consumed."""
        return max(0, self.end - max(0, self.committed))


class QueueMove(Struct, frozen=True, order=True):
    """One queue of a reset: the old and the new offset of the group."""

    queue: MessageQueue
    before: int | None
    after: int


class GroupSummary(Struct, frozen=True):
    """A group in a list. ``kind`` is normal or system; the model is empty while the group has no members."""

    name: str
    kind: str
    members: int
    lag: int
    message_model: str = ""


class FilterUse(Struct, frozen=True, order=True):
    """Counts of a group's filter for one topic in the last 24 hours. Apache's brokers do not keep them."""

    topic: str
    filtered: int
    """Messages that did not pass, by tag, SQL92 or CEL."""
    judged: int
    """Messages that pulls looked at by SQL92 or CEL, those whose verdict was remembered from equal values included."""
    microseconds: int
    """The broker's CPU time for that, and for judging new messages for waiting pulls."""
    without_verdict: int
    """Messages that did not pass because the evaluation failed, or needed more steps than allowed."""


class GroupDescription(Struct, frozen=True):
    """Everything about one group."""

    name: str
    members: tuple[MemberState, ...]
    message_model: str
    consume_type: str
    start: str
    subscriptions: dict[str, str]
    """The expression by topic, from the members' heartbeats."""
    queues: tuple[QueueProgress, ...]
    consume_tps: float
    max_reconsume_times: int
    is_enabled: bool
    disagreement: str | None = None
    """The difference between the subscriptions of members, if a FireArrow broker noticed one."""
    filters: tuple[FilterUse, ...] = ()
    """Counts of its filters, for topics with messages that did not pass or were judged."""

    @property
    def lag(self) -> int:
        """The number of messages to be consumed, in all queues."""
        return sum(queue.lag for queue in self.queues)


class Groups:
    """The consumer groups of a cluster."""

    def __init__(self, brokers: Brokers) -> None:
        self._brokers = brokers
        self._topics = BrokerTopics(brokers)
        self._queues = BrokerOffsets(brokers)
        self._operations = BrokerOperations(brokers)
        self.at_broker = BrokerGroups(brokers)

    async def list(self, *, cluster: str = "", system: bool = False) -> Sequence[GroupSummary]:
        """Return all groups, sorted; with ``system`` also the brokers' own."""
        members = await self._brokers.readable(cluster)
        tables = await together(self.at_broker.configs(member) for member in members)
        names = sorted({name for table in tables for name in table if system or not is_system_group(name)})
        return await together(self._summary(members, name) for name in names)

    async def describe(self, group: str) -> GroupDescription:
        """Return everything about one group; raise ``NoSuchName`` if no broker knows it."""
        members = await self._brokers.readable()
        config = await self._config(members, group)
        seen = await together(self.at_broker.connections_if_any(member, group) for member in members)
        found = next((each for each in seen if each.connection_set), ConsumerConnection())
        progress = await together(self.at_broker.progress_if_any(member, group) for member in members)
        queues, subscriptions = _queues(progress), _subscriptions(seen)
        topics = sorted({*subscriptions, *(each.queue.topic for each in queues)})
        filters = await together(self._filter_use(members, group, topic) for topic in topics)
        return GroupDescription(
            name=group,
            members=_members(seen),
            message_model=found.message_model or "",
            consume_type=found.consume_type or "",
            start=found.consume_from_where or "",
            subscriptions=subscriptions,
            queues=tuple(sorted(queues)),
            consume_tps=sum(stats.consume_tps for stats in progress),
            max_reconsume_times=config.retry_max_times,
            is_enabled=config.consume_enable,
            disagreement=next(filter(None, (each.subscription_disagreement for each in seen)), None),
            filters=tuple(use for use in filters if use.filtered or use.judged),
        )

    async def lag(self, group: str, topic: str = "") -> int | None:
        """Return the lag of a group in one topic or all; None if it has no offsets yet."""
        members = await self._brokers.readable()
        progress = await together(self.at_broker.progress_if_any(member, group, topic) for member in members)
        queues = _queues(progress)
        return sum(queue.lag for queue in queues) if queues else None

    async def reset(self, group: str, topic: str, timestamp_ms: int) -> Sequence[QueueMove]:
        """Move a group to a time, to ``FIRST`` or to ``LAST``; return the moved queues."""
        members = await self._holders(topic)
        before = await self._offsets(members, group, topic)
        work = {
            f"broker {member.name}": partial(self._reset_at, member, queues, group, topic, timestamp_ms)
            for member, queues in members.items()
        }
        return _moves(before, await at_each(work))

    async def reset_offset(self, group: str, queue: MessageQueue, offset: int) -> QueueMove:
        """Move a group without running members to an offset of one queue."""
        move, member = await self._move(group, queue, offset)
        if (await self.at_broker.connections_if_any(member, group)).connection_set:
            raise NotNow(
                f"group {group!r} has members, which would overwrite the offset: stop them, or reset to a time"
            )
        await self._write(member, group, {queue: offset})
        return move

    async def planned(self, group: str, topic: str, timestamp_ms: int) -> Sequence[QueueMove]:
        """Return the moves of ``reset``, queue by queue, without changing anything."""
        members = await self._holders(topic)
        before = await self._offsets(members, group, topic)
        return _moves(before, [await self._places(member, queues, timestamp_ms) for member, queues in members.items()])

    async def planned_offset(self, group: str, queue: MessageQueue, offset: int) -> QueueMove:
        """Return the move of ``reset_offset``, without changing anything."""
        move, _ = await self._move(group, queue, offset)
        return move

    # -- parts

    async def _move(self, group: str, queue: MessageQueue, offset: int) -> tuple[QueueMove, BrokerMember]:
        """Return the move of one queue, and its broker; raise if the queue does not exist or ends before the offset."""
        members = {member: queues for member, queues in (await self._holders(queue.topic)).items() if queue in queues}
        if not members:
            raise NoSuchName(f"there is no queue {queue.queue_id} of {queue.topic!r} on broker {queue.broker_name!r}")
        member = next(iter(members))
        end = await self._queues.end(member, queue)
        if offset > end:
            raise SettingsError(
                f"queue {queue.broker_name}:{queue.queue_id} of {queue.topic!r} ends at offset {end}, before {offset}; "
                "a group there would be set back by its broker: give an offset up to the end"
            )
        before = await self._offsets(members, group, queue.topic)
        return QueueMove(queue, before.get(queue), offset), member

    async def _summary(self, members: Sequence[BrokerMember], group: str) -> GroupSummary:
        seen = [await self.at_broker.connections_if_any(member, group) for member in members]
        progress = [await self.at_broker.progress_if_any(member, group) for member in members]
        model = next((each.message_model for each in seen if each.message_model), "")
        lag = sum(queue.lag for queue in _queues(progress))
        kind = "system" if is_system_group(group) else "normal"
        return GroupSummary(group, kind, len(_members(seen)), lag, model)

    async def _config(self, members: Sequence[BrokerMember], group: str) -> SubscriptionGroupConfig:
        for member in members:
            found = (await self.at_broker.configs(member)).get(group)
            if found is not None:
                return found
        raise _no_group(group)

    async def _filter_use(self, members: Iterable[BrokerMember], group: str, topic: str) -> FilterUse:
        counts = []
        for name in _FILTER_STATISTICS:
            days = await together(self._day(member, name, f"{topic}@{group}") for member in members)
            counts.append(sum(days))
        return FilterUse(topic, *counts)

    async def _day(self, member: BrokerMember, name: str, key: str) -> int:
        """Return the sum of a statistic over a day; 0 for a broker that does not have it."""
        try:
            day = (await self._operations.statistics(member, name, key)).stats_day
        except RequestRefused:
            return 0
        return 0 if day is None else day.sum

    async def _offsets(self, members: Iterable[BrokerMember], group: str, topic: str) -> dict[MessageQueue, int]:
        tables = await together(self.at_broker.progress_if_any(member, group, topic) for member in members)
        return {
            queue: each.consumer_offset
            for stats in tables
            for queue, each in stats.offset_table.items()
            if _is_committed(each)
        }

    async def _holders(self, topic: str) -> dict[BrokerMember, Sequence[MessageQueue]]:
        route = await self._brokers.route(topic)
        if route is None:
            raise NoSuchName(f"no name server knows a topic {topic!r}; firearrow topic list shows those that are there")
        members = {member.name: member for member in await self._brokers.masters()}
        return {
            members[name]: [MessageQueue(topic, name, number) for number in range(data.read_queue_nums)]
            for data in route.queue_datas
            if (name := data.broker_name or "") in members
        }

    async def _reset_at(
        self, member: BrokerMember, queues: Sequence[MessageQueue], group: str, topic: str, timestamp_ms: int
    ) -> dict[MessageQueue, int]:
        if (await self.at_broker.connections_if_any(member, group)).connection_set:
            return await self._queues.reset(member, group, topic, timestamp_ms)
        places = await self._places(member, queues, timestamp_ms)
        await self._write(member, group, places)
        return places

    async def _write(self, member: BrokerMember, group: str, places: dict[MessageQueue, int]) -> None:
        for done, (queue, offset) in enumerate(places.items()):
            try:
                await self._queues.write(member, group, queue, offset)
            except FireArrowError as failure:
                if isinstance(failure, RequestRefused) and failure.code == ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST:
                    raise _no_group(group) from failure
                if done:
                    part = f"{done} of {len(places)} queues are moved, the others not"
                    raise PartlyDone(f"{part}: {failure}; do the same again") from failure
                raise

    async def _places(
        self, member: BrokerMember, queues: Sequence[MessageQueue], timestamp_ms: int
    ) -> dict[MessageQueue, int]:
        if timestamp_ms in (FIRST, LAST):
            edge = self._queues.first if timestamp_ms == FIRST else self._queues.end
            offsets = await together(edge(member, queue) for queue in queues)
            return dict(zip(queues, offsets, strict=True))
        held = (await self._topics.stats(member, queues[0].topic)).offset_table
        offsets = await together(self._at_time(member, queue, held.get(queue), timestamp_ms) for queue in queues)
        return dict(zip(queues, offsets, strict=True))

    async def _at_time(
        self, member: BrokerMember, queue: MessageQueue, held: TopicOffset | None, timestamp_ms: int
    ) -> int:
        if held is not None and held.last_update_timestamp < timestamp_ms:
            return held.max_offset  # brokers of 4.9 would return the last message
        return await self._queues.at_time(member, queue, timestamp_ms)


def _moves(before: Mapping[MessageQueue, int], after: Iterable[Mapping[MessageQueue, int]]) -> Sequence[QueueMove]:
    places = [place for each in after for place in each.items()]
    return [QueueMove(queue, before.get(queue), offset) for queue, offset in sorted(places)]


def _no_group(group: str) -> NoSuchName:
    return NoSuchName(f"no broker knows a group {group!r}; firearrow group list shows those that are there")


def _members(seen: Iterable[ConsumerConnection]) -> tuple[MemberState, ...]:
    found = {
        each.client_id: MemberState(
            each.client_id, each.client_addr or "", each.language or "", version_name(each.version)
        )
        for connections in seen
        for each in connections.connection_set
        if each.client_id
    }
    return tuple(sorted(found.values()))


def _subscriptions(seen: Iterable[ConsumerConnection]) -> dict[str, str]:
    return {topic: data.sub_string or "*" for each in seen for topic, data in sorted(each.subscription_table.items())}


def _queues(progress: Iterable[ConsumeStats]) -> Sequence[QueueProgress]:
    return [
        QueueProgress(queue, each.consumer_offset, each.broker_offset, each.last_timestamp)
        for stats in progress
        for queue, each in stats.offset_table.items()
    ]


def _is_committed(each: OffsetWrapper) -> bool:
    return each.consumer_offset > _NEVER
