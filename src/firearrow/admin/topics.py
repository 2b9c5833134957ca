"""Topics: list, describe, create, update, delete.

Each master has its own settings of a topic, so a topic may differ from broker to broker; results list brokers
separately. An update reads the settings of a topic and changes only the given ones. A topic of strict order also has a
text at the name servers, ``ORDER_TOPIC_CONFIG``, with the queues of every broker; it is kept equal to the brokers'
settings.

Java: ``DefaultMQAdminExtImpl``, ``UpdateTopicSubCommand``, ``DeleteTopicSubCommand``.
"""

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from firearrow.admin.broker_topics import BrokerTopics
from firearrow.admin.brokers import BrokerMember, Brokers, at_each, together
from firearrow.admin.name_server_operations import NameServerOperations
from firearrow.client.consumer.division.strategies import average
from firearrow.client.name_servers import UNANSWERED
from firearrow.errors import (
    AlreadyExists,
    FireArrowError,
    IllegalMessage,
    NoSuchName,
    PartlyDone,
    RequestRefused,
    RequestTimedOut,
    SettingsError,
)
from firearrow.model import MessageQueue
from firearrow.model.flags import PERM_READ, PERM_WRITE, is_legal_perm
from firearrow.model.names import is_dlq_topic, is_retry_topic, is_system_topic, topic_fault
from firearrow.protocol.bodies.admin.topic import TopicConfig, TopicStatsTable
from firearrow.protocol.bodies.naming.route import TopicRouteData
from firearrow.protocol.codes import ResponseCode

ORDER_TOPIC_CONFIG: Final = "ORDER_TOPIC_CONFIG"
QUEUES: Final = 8
READ_AND_WRITE: Final = PERM_READ | PERM_WRITE
ROUTE_SECONDS: Final = 40.0
"""Seconds that a change may take to reach the name servers: brokers register at least every thirty seconds."""
LOOK_SECONDS: Final = 0.05


class TopicOnBroker(Struct, frozen=True):
    """A topic as one broker has it. ``perm`` is 4 to read plus 2 to write."""

    broker: str
    read_queues: int
    write_queues: int
    perm: int
    order: bool = False
    attributes: Mapping[str, str] = {}


class TopicSummary(Struct, frozen=True):
    """A topic in a list. ``kind`` is normal, retry, dlq or system."""

    name: str
    kind: str
    brokers: tuple[TopicOnBroker, ...]

    @property
    def read_queues(self) -> int:
        """The sum over all brokers."""
        return sum(each.read_queues for each in self.brokers)

    @property
    def write_queues(self) -> int:
        """The sum over all brokers."""
        return sum(each.write_queues for each in self.brokers)


class QueueState(Struct, frozen=True, order=True):
    """The messages of one queue: from ``first`` to ``end`` (exclusive)."""

    queue: MessageQueue
    first: int
    end: int
    last_stored_ms: int

    @property
    def messages(self) -> int:
        """The number of messages."""
        return self.end - self.first


class TopicDescription(Struct, frozen=True):
    """Everything about one topic."""

    name: str
    kind: str
    brokers: tuple[TopicOnBroker, ...]
    queues: tuple[QueueState, ...]
    groups: tuple[str, ...]
    """The groups that consume it."""
    strict_order: str | None
    """The text of strict order, ``broker:queues;...``; None without strict order."""

    @property
    def messages(self) -> int:
        """The number of messages in all queues."""
        return sum(queue.messages for queue in self.queues)


def kind_of(topic: str) -> str:
    """Return the kind of a topic, from its name."""
    if is_retry_topic(topic):
        return "retry"
    if is_dlq_topic(topic):
        return "dlq"
    return "system" if is_system_topic(topic) else "normal"


class Topics:
    """The topics of a cluster."""

    def __init__(self, brokers: Brokers) -> None:
        self._brokers = brokers
        self._names = NameServerOperations(brokers)
        self.at_broker = BrokerTopics(brokers)

    # -- looking

    async def list(self, *, cluster: str = "", broker: str = "") -> Sequence[TopicSummary]:
        """Return all topics, sorted, system topics included."""
        members = await self._brokers.readable(cluster, broker)
        own = _own_names(members)
        found: dict[str, list[TopicOnBroker]] = {}
        tables = await together(self.at_broker.table(member) for member in members)
        for member, table in zip(members, tables, strict=True):
            for name, config in table.topic_config_table.items():
                found.setdefault(name, []).append(_on_broker(member.name, config))
        kinds = {name: "system" if name in own else kind_of(name) for name in found}
        return [TopicSummary(name, kinds[name], tuple(found[name])) for name in sorted(found)]

    async def describe(self, topic: str) -> TopicDescription:
        """Return everything about one topic; raise ``NoSuchName`` if it does not exist."""
        holders = await self._holders(topic)
        states = await together(self._stats(member, topic) for member in holders)
        groups = await together(self.at_broker.consumers(member, topic) for member in holders)
        queues = sorted(
            QueueState(queue, offsets.min_offset, offsets.max_offset, offsets.last_update_timestamp)
            for table in states
            for queue, offsets in table.offset_table.items()
        )
        return TopicDescription(
            name=topic,
            kind=kind_of(topic),
            brokers=tuple(_on_broker(member.name, config) for member, config in holders.items()),
            queues=tuple(queues),
            groups=tuple(sorted({group for each in groups for group in each})),
            strict_order=await self.order_text(topic),
        )

    async def exists(self, topic: str) -> bool:
        """Whether a broker has the topic."""
        return any(
            [await self.at_broker.config(member, topic) is not None for member in await self._brokers.readable()]
        )

    # -- changing

    async def create(
        self,
        topic: str,
        *,
        cluster: str = "",
        broker: str = "",
        queues: int = QUEUES,
        read_queues: int | None = None,
        write_queues: int | None = None,
        perm: int = READ_AND_WRITE,
        order: bool = False,
        attributes: Mapping[str, str] | None = None,
    ) -> None:
        """Create a topic on every master of a cluster, or on one broker; return when name servers route it.

        Raise ``AlreadyExists`` if all those brokers have the topic, or one with other settings: what failed halfway can
        be done again. ``update`` changes a topic.
        """
        fault = topic_fault(topic)
        if fault:
            raise IllegalMessage(fault)
        masters = await self._brokers.masters(cluster, broker)
        config = TopicConfig(
            topic_name=topic,
            read_queue_nums=queues if read_queues is None else read_queues,
            write_queue_nums=queues if write_queues is None else write_queues,
            perm=perm,
            order=order,
        )
        held = {master: await self.at_broker.config(master, topic) for master in masters}
        other = next((master for master, each in held.items() if each is not None and not _is_same(each, config)), None)
        if other is not None or None not in held.values():
            where = (other or masters[0]).name
            raise AlreadyExists(f"broker {where} has a topic {topic!r} already; update it instead")
        await self._apply({master: config for master, each in held.items() if each is None}, attributes or {})

    async def update(
        self,
        topic: str,
        *,
        cluster: str = "",
        broker: str = "",
        queues: int | None = None,
        read_queues: int | None = None,
        write_queues: int | None = None,
        perm: int | None = None,
        order: bool | None = None,
        attributes: Mapping[str, str] | None = None,
    ) -> None:
        """Change the given settings, on the brokers that have the topic; the others stay."""
        masters = set(await self._brokers.masters(cluster, broker))
        holders = {member: old for member, old in (await self._holders(topic)).items() if member in masters}
        if not holders:
            raise NoSuchName(f"{broker or cluster} has no topic {topic!r}; create it there")
        reads = queues if read_queues is None else read_queues
        writes = queues if write_queues is None else write_queues
        changed = {
            member: TopicConfig(
                topic_name=topic,
                read_queue_nums=old.read_queue_nums if reads is None else reads,
                write_queue_nums=old.write_queue_nums if writes is None else writes,
                perm=old.perm if perm is None else perm,
                order=old.order if order is None else order,
                topic_sys_flag=old.topic_sys_flag,
                topic_filter_type=old.topic_filter_type,
            )
            for member, old in holders.items()
        }
        await self._apply(changed, attributes or {})

    async def delete(self, topic: str, *, cluster: str = "") -> None:
        """Delete a topic and its messages, on every broker of a cluster and at every name server."""
        try:
            holders = await self._holders(topic)
        except NoSuchName:
            if not await self._is_left_behind(topic):
                raise
            holders = {}
        masters = [master for master in await self._brokers.masters(cluster) if master in holders]
        await at_each({f"broker {each.name}": partial(self.at_broker.delete, each, topic) for each in masters})
        await self._names.forget_topic(topic, cluster)
        if any(text is not None for text in await self._order_texts(topic)):
            await self.delete_order_text(topic)

    # -- strict order

    async def order_text(self, topic: str) -> str | None:
        """Return the text of strict order of a topic; None if it has none."""
        return await self._names.text(ORDER_TOPIC_CONFIG, topic)

    async def put_order_text(self, topic: str, text: str) -> None:
        """Set the text of strict order of a topic at every name server."""
        await self._names.put_text(ORDER_TOPIC_CONFIG, topic, text)

    async def delete_order_text(self, topic: str) -> None:
        """Delete the text of strict order of a topic at every name server."""
        await self._names.delete_text(ORDER_TOPIC_CONFIG, topic)

    # -- parts

    async def _is_left_behind(self, topic: str) -> bool:
        """Whether a name server knows a topic that no broker has: one that was away when the topic was deleted."""
        left = [*await self._brokers.routes(topic), *await self._order_texts(topic)]
        return any(each is not None for each in left)

    async def _apply(self, wanted: Mapping[BrokerMember, TopicConfig], attributes: Mapping[str, str]) -> None:
        for config in wanted.values():
            _check(config)
        by_broker = {member.name: config for member, config in wanted.items()}
        topic = next(iter(by_broker.values())).topic_name or ""
        before = await self.order_text(topic)
        is_ordered = before is not None or any(config.order for config in by_broker.values())
        if is_ordered:
            # First, because brokers of 4.9 read their strict order from this text at every registration.
            await self._set_order(topic, by_broker, before)
        signed = {f"+{name}": value for name, value in attributes.items()}
        work = {
            f"broker {member.name}": partial(self.at_broker.put, member, replace(config, attributes=signed))
            for member, config in wanted.items()
        }
        try:
            await at_each(work)
        except FireArrowError as failure:
            if is_ordered and not isinstance(failure, PartlyDone):
                done = "name servers have the text of strict order, but no broker has changed the topic"
                raise PartlyDone(f"{done}: {failure}; do the same again") from failure
            raise
        await self._routed(topic, by_broker)

    async def _set_order(self, topic: str, wanted: Mapping[str, TopicConfig], before: str | None) -> None:
        counts = dict(part.rpartition(":")[::2] for part in (before or "").split(";") if part)
        for broker, config in wanted.items():
            counts.pop(broker, None)
            if config.order:
                counts[broker] = str(config.write_queue_nums)
        text = ";".join(f"{broker}:{count}" for broker, count in sorted(counts.items()))
        if text:
            await self.put_order_text(topic, text)
        else:
            await self.delete_order_text(topic)

    async def _routed(self, topic: str, wanted: Mapping[str, TopicConfig]) -> None:
        try:
            async with asyncio.timeout(ROUTE_SECONDS):
                await self._until_routed(topic, wanted)
        except TimeoutError:
            late = f"the brokers have topic {topic!r}, but a name server does not route it after {ROUTE_SECONDS:g} s"
            raise RequestTimedOut(f"{late}; check whether the brokers register there") from None

    async def _until_routed(self, topic: str, wanted: Mapping[str, TopicConfig]) -> None:
        while not all(_agrees(route, wanted) for route in await self._brokers.routes(topic)):  # noqa: ASYNC110
            await asyncio.sleep(LOOK_SECONDS)

    async def _holders(self, topic: str) -> dict[BrokerMember, TopicConfig]:
        members = await self._brokers.readable()
        configs = await together(self.at_broker.config(member, topic) for member in members)
        found = {member: config for member, config in zip(members, configs, strict=True) if config is not None}
        if not found:
            raise NoSuchName(f"no broker has a topic {topic!r}; firearrow topic list shows those that are there")
        return found

    async def _stats(self, member: BrokerMember, topic: str) -> TopicStatsTable:
        try:
            return await self.at_broker.stats(member, topic)
        except RequestRefused as refusal:
            if refusal.code == ResponseCode.TOPIC_NOT_EXIST:
                return TopicStatsTable()
            raise

    async def _order_texts(self, topic: str) -> Sequence[str | None]:
        """Return the text of strict order of every name server that answers."""
        texts: list[str | None] = []
        for server in self._brokers.name_servers:
            with suppress(*UNANSWERED):
                texts.append(await self._names.text_at(server, ORDER_TOPIC_CONFIG, topic))
        return texts


def divided(queues: Sequence[MessageQueue], clients: Sequence[str]) -> dict[str, Sequence[MessageQueue]]:
    """Return the queues of each member of a group, as clients divide them by default."""
    return {client: average(client, queues, clients) for client in clients}


def _own_names(members: Sequence[BrokerMember]) -> set[str]:
    """Return the topics that are named after brokers and clusters; every broker has them."""
    return {name for member in members for name in (member.cluster, member.name, f"{member.cluster}_REPLY_TOPIC")}


def _on_broker(broker: str, config: TopicConfig) -> TopicOnBroker:
    return TopicOnBroker(
        broker,
        config.read_queue_nums,
        config.write_queue_nums,
        config.perm,
        config.order,
        {name.lstrip("+"): value for name, value in config.attributes.items()},
    )


def _is_same(held: TopicConfig, wanted: TopicConfig) -> bool:
    return (held.read_queue_nums, held.write_queue_nums, held.perm, held.order) == (
        wanted.read_queue_nums,
        wanted.write_queue_nums,
        wanted.perm,
        wanted.order,
    )


def _check(config: TopicConfig) -> None:
    if min(config.read_queue_nums, config.write_queue_nums) < 1:
        raise SettingsError("a topic needs at least one queue to read and one to write; use the permission to close it")
    if not is_legal_perm(config.perm):
        raise SettingsError(f"permission {config.perm} is not valid; give 2 (write), 4 (read) or 6 (both)")


def _agrees(route: TopicRouteData | None, wanted: Mapping[str, TopicConfig]) -> bool:
    """Whether a route agrees with the settings of these brokers."""
    if route is None:
        return False
    said = {data.broker_name: (data.read_queue_nums, data.write_queue_nums, data.perm) for data in route.queue_datas}
    return all(
        said.get(broker) == (config.read_queue_nums, config.write_queue_nums, config.perm)
        for broker, config in wanted.items()
    )
