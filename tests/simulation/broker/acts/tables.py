"""An operator of a simulated group: makes, changes and deletes topics and groups, and moves groups to other offsets.

Every act that was answered must hold at the end, whoever is master then (F14). An act without an answer may have
happened or not, now or later: its name is not used again and not looked at. Offsets of a deleted group, and offsets in
a deleted topic, are deleted: also when the group or the topic is made again.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from firearrow.errors import FireArrowError, RequestRefused
from firearrow.fastjson import decode
from firearrow.protocol.bodies.admin.topic import TopicConfigAndQueueMapping
from firearrow.protocol.bodies.body import encode_body
from firearrow.protocol.bodies.group.group import SubscriptionGroupConfig, SubscriptionGroupTable
from firearrow.protocol.codes import ResponseCode
from firearrow.protocol.conversation import Request
from firearrow.protocol.requests.admin.topic import DeleteTopicInBroker, GetTopicConfig, UpdateAndCreateTopic
from firearrow.protocol.requests.group.group import (
    DeleteSubscriptionGroup,
    GetAllSubscriptionGroupConfig,
    UpdateAndCreateSubscriptionGroup,
)
from firearrow.protocol.requests.group.offset import GetMaxOffset, QueryConsumerOffset
from firearrow.protocol.requests.group.reset import InvokeBrokerToResetOffset
from firearrow.runtime.network import Address
from tests.simulation.broker.acts.act import Act, Stage
from tests.unit.broker.whole import Client, a_send

TIMEOUT_MS: Final = 6_000
NAMES: Final = 3
"""Names of topics, and of groups, that are in use at a time."""
NONE: Final = -1
TOPIC: Final = "T"
"""A topic that nobody deletes."""
_Name = TypeVar("_Name", str, tuple[str, str])
Place = tuple[str, str]
"""A topic, and a group that reads it."""


@dataclass
class Known:
    """The answers: by name the value, `NONE` for what is deleted."""

    topics: dict[str, int] = field(default_factory=dict)
    """The number of queues."""
    messages: dict[str, int] = field(default_factory=dict)
    """The number of messages in the present life of a topic."""
    groups: dict[str, int] = field(default_factory=dict)
    """The number of retries of a group."""
    offsets: dict[Place, int] = field(default_factory=dict)
    """The offset that a group was moved to in queue 0 of a topic; `NONE` after the group or the topic was deleted."""

    def unknown_offsets(self, name: str) -> None:
        """Know no offset of a group, or in a topic, any more."""
        self.offsets = {place: offset for place, offset in self.offsets.items() if name not in place}

    def deleted_offsets(self, name: str) -> None:
        """Know that a group, or a topic, has no offset."""
        self.offsets = {place: NONE if name in place else offset for place, offset in self.offsets.items()}


class Operator(Act):
    """Makes, changes and deletes topics and groups, and moves groups, one after the other."""

    name = "operator"
    pause_s = 0.3

    def __init__(self, stage: Stage) -> None:
        super().__init__(stage)
        self._made = 0
        self._is_last = False
        self.known = Known()

    async def step(self) -> None:
        if not self._is_last:
            await self._act()

    async def before_the_last_failover(self, master: Address, _slaves: list[Address]) -> None:
        """Do every kind of act once more; the master dies right after the last answer."""
        async with self.turn:
            self._is_last = True
            self.client.broker = master
            put, deleted = (self._put_topic, self._put_group, self._move), (self._delete_topic, self._delete_group)
            for act in (*put, *put, *self.rng.sample(deleted, len(deleted)), *put):
                await self._do(act)

    async def _act(self) -> None:
        put, deleted = (self._put_topic, self._put_group, self._move), (self._delete_topic, self._delete_group)
        await self._do(self.rng.choice((*put, *put, *deleted)))

    async def _do(self, act: Callable[[], Awaitable[None]]) -> None:
        if not await self._leads():
            self._last_good = self.rng.choice(self.stage.addresses)
            return
        self._last_good = self.client.broker
        await act()

    def _name(self, table: dict[str, int], kind: str) -> str:
        """One of the names in use, or a new one."""
        if len(table) < NAMES or self.rng.random() < 0.1:
            self._made += 1
            return f"{kind}{self._made}"
        return self.rng.choice(list(table)[-NAMES:])

    async def _put_topic(self) -> None:
        name = self._name(self.known.topics, "acts")
        queues = self.rng.randint(1, 6)
        request = UpdateAndCreateTopic(
            topic=name,
            default_topic="TBW102",
            read_queue_nums=queues,
            write_queue_nums=queues,
            perm=6,
            topic_filter_type="SINGLE_TAG",
            order=False,
        )
        was_there = self.known.topics.get(name, NONE) != NONE
        if await self._did(request, name, self.known.topics, queues):
            before = self.known.messages.get(name, 0) if was_there else 0
            self.known.messages[name] = before
            if await self._did(a_send(name), name, self.known.messages, before + 1, b"one"):
                return
            self.known.topics.pop(name, None)
        self.known.unknown_offsets(name)

    async def _delete_topic(self) -> None:
        if not (name := self._living(self.known.topics)):
            return
        if await self._did(DeleteTopicInBroker(topic=name), name, self.known.topics, NONE):
            self.known.deleted_offsets(name)
        else:
            self.known.messages.pop(name, None)
            self.known.unknown_offsets(name)

    def _living(self, table: dict[str, int]) -> str | None:
        """Return a topic, or a group, that is there: one with an offset if any has one; None if none is there."""
        living = [name for name, value in table.items() if value != NONE]
        used = {name for place, offset in self.known.offsets.items() if offset != NONE for name in place}
        choices = [name for name in living if name in used] or living
        return self.rng.choice(choices) if choices else None

    async def _put_group(self) -> None:
        name = self._name(self.known.groups, "group")
        tries = self.rng.randint(1, 99)
        body = encode_body(SubscriptionGroupConfig(group_name=name, retry_max_times=tries))
        if not await self._did(UpdateAndCreateSubscriptionGroup(), name, self.known.groups, tries, body):
            self.known.unknown_offsets(name)

    async def _delete_group(self) -> None:
        if not (name := self._living(self.known.groups)):
            return
        deletion = DeleteSubscriptionGroup(group_name=name, clean_offset=True)
        if await self._did(deletion, name, self.known.groups, NONE):
            self.known.deleted_offsets(name)
        else:
            self.known.unknown_offsets(name)

    async def _move(self) -> None:
        """Move a group to an offset of a topic, mostly of one that may be deleted."""
        topics = [name for name, queues in self.known.topics.items() if queues != NONE]
        groups = [name for name, tries in self.known.groups.items() if tries != NONE]
        if not groups:
            return
        topic, group = self.rng.choice([TOPIC, *topics]), self.rng.choice(groups)
        try:
            end = (await self.client.ask(GetMaxOffset(topic=topic, queue_id=0, committed=False))).answer.offset
        except FireArrowError:
            return
        offset = self.rng.randint(0, int(end))
        request = InvokeBrokerToResetOffset(
            topic=topic, group=group, queue_id=0, offset=offset, timestamp=-1, is_force=True
        )
        if not await self._did(request, (topic, group), self.known.offsets, offset):
            self.known.groups.pop(group, None)
            self.known.unknown_offsets(group)

    async def _did(
        self, request: Request[Any], name: _Name, table: dict[_Name, int], value: int, body: bytes = b""
    ) -> bool:
        """Ask the master; return whether it answered, and led before and after."""
        client = self.client
        try:
            before = await self.led_epoch()
            reply = await client.ask(request, body, timeout_ms=TIMEOUT_MS)
            is_done = before > 0 and reply.code == 0 and await self.led_epoch() == before
        except FireArrowError:
            is_done = False
        if is_done:
            table.pop(name, None)
            table[name] = value
            self.stage.counts["acts of the operator"] += 1
        else:
            table.pop(name, None)
            self.stage.counts["acts of the operator without an answer"] += 1
        return is_done

    async def _leads(self) -> bool:
        """Whether the broker that is asked is the master: a slave is not asked to change anything."""
        try:
            return await self.led_epoch() > 0
        except FireArrowError:
            return False

    # ---- checks

    async def check(self, client: Client) -> None:
        """Look at the master whether everything that was answered holds."""
        self._tell_what_is_looked_for()
        for name, queues in self.known.topics.items():
            found = await _queues(client, name)
            assert found == queues, f"F14: topic {name} has {found} queues, and {queues} were answered"
            messages = 0 if queues == NONE else self.known.messages.get(name)
            if messages is not None:
                end = (await client.ask(GetMaxOffset(topic=name, queue_id=0, committed=False))).answer.offset
                assert end == messages, f"F14: topic {name} has {end} messages, and {messages} in its last life"
        groups = decode((await client.ask(GetAllSubscriptionGroupConfig())).body, SubscriptionGroupTable)
        for name, tries in self.known.groups.items():
            group = groups.subscription_group_table.get(name)
            has = NONE if group is None else group.retry_max_times
            assert has == tries, f"F14: group {name} tries {has} times, and {tries} were answered"
        for (topic, name), offset in self.known.offsets.items():
            at = await _offset(client, topic, name)
            said = "its offset was deleted" if offset == NONE else f"was moved to {offset}"
            assert at == offset, f"F14: group {name} is at {at} in topic {topic}, and {said}"

    def _tell_what_is_looked_for(self) -> None:
        known = self.known
        tables = {
            "topics": list(known.topics.values()),
            "groups": list(known.groups.values()),
            "offsets": list(known.offsets.values()),
        }
        for kind, values in tables.items():
            deleted = values.count(NONE)
            self.looked_for(**{f"{kind}_kept": len(values) - deleted, f"{kind}_deleted": deleted})


async def _queues(client: Client, topic: str) -> int:
    try:
        reply = await client.ask(GetTopicConfig(topic=topic))
    except RequestRefused as refusal:
        if refusal.code != ResponseCode.TOPIC_NOT_EXIST:
            raise
        return NONE
    return decode(reply.body, TopicConfigAndQueueMapping).read_queue_nums


async def _offset(client: Client, topic: str, group: str) -> int:
    asked = QueryConsumerOffset(consumer_group=group, topic=topic, queue_id=0, set_zero_if_not_found=False)
    try:
        return int((await client.ask(asked)).answer.offset)
    except RequestRefused as refusal:
        if refusal.code != ResponseCode.QUERY_NOT_FOUND:
            raise
        return NONE
