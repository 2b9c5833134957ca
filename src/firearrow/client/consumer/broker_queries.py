"""Requests to brokers for messages, offsets and the bounds of queues, shared by push and pull consumers.

A pull goes to the broker id that the last answer suggested (a slave, when the master is busy with old messages), or to
another member when the master cannot be reached. A pull that a broker refuses because a quota is used up waits as long
as the broker says, if that is within its timeout, and is sent again. A member that could not be reached is skipped for
a few seconds if there is another, because name servers may still list it. Java: ``PullAPIWrapper``,
``MQClientAPIImpl``.
"""

import asyncio
from enum import IntEnum
from typing import Final, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from firearrow import fastjson
from firearrow.client.consumer.subscription import Subscription
from firearrow.client.instance import Instance
from firearrow.client.routes import MASTER_ID
from firearrow.client.told_pause import told_pause_s
from firearrow.errors import BadBody, ConnectionFailed, NoRoute, Throttled
from firearrow.model import MessageQueue, StoredMessage
from firearrow.model.flags import is_wrapped_batch
from firearrow.protocol.bodies.admin.topic import TopicStatsTable
from firearrow.protocol.codes import ResponseCode
from firearrow.protocol.conversation import A, Request
from firearrow.protocol.requests.admin.topic import GetTopicStatsInfo
from firearrow.protocol.requests.group.offset import GetMaxOffset, GetMinOffset, SearchOffsetByTimestamp
from firearrow.protocol.requests.message.pull import PullMessage
from firearrow.record.batch import unwrap
from firearrow.record.decode import MAX_BODY_BYTES, decode_all
from firearrow.remoting.reply import SUCCESS_ONLY, Reply
from firearrow.runtime.network import Address

COMMITS: Final = 0x1
SUSPENDS: Final = 0x2
SUBSCRIBES: Final = 0x4

UNREACHABLE_S: Final = 3.0
BOUNDS_TIMEOUT_MS: Final = 10_000

APACHE_PULL_MESSAGES: Final = 32
APACHE_PULL_BYTES: Final = 256 * 1024
"""Most messages, and most bytes, in an answer of Apache's brokers, by default. Our brokers take a larger number in a
field of ours."""


class PullStatus(IntEnum):
    """The outcome of a pull; the values are response codes."""

    FOUND = ResponseCode.SUCCESS
    NOTHING_NEW = ResponseCode.PULL_NOT_FOUND
    NOTHING_MATCHED = ResponseCode.PULL_RETRY_IMMEDIATELY
    OFFSET_MOVED = ResponseCode.PULL_OFFSET_MOVED


_ANSWERS: Final = frozenset(int(status) for status in PullStatus)


class PulledBytes(Struct, frozen=True):
    """Records as they lie in the broker's log, end to end, and the offset of the next pull."""

    status: PullStatus
    body: bytes
    next_offset: int
    min_offset: int
    max_offset: int
    suggested_broker_id: int = MASTER_ID

    def messages(self, max_body_bytes: int = MAX_BODY_BYTES) -> list[StoredMessage]:
        """Decode the records into messages; raise ``BadRecord`` if they are malformed.

        A message whose body is damaged, or inflates past ``max_body_bytes``, keeps its stored body, and ``body_fault``
        says what is wrong; the other messages are not affected.
        """
        found: list[StoredMessage] = []
        for message in decode_all(self.body, max_body_bytes=max_body_bytes, keep_bad_bodies=True):
            if is_wrapped_batch(message.sys_flag) and not message.body_fault:
                found += _unwrapped(message)
            else:
                found.append(message)
        return found


def _unwrapped(message: StoredMessage) -> list[StoredMessage]:
    try:
        return unwrap(message)
    except BadBody as wrong:
        return [replace(message, body_fault=f"its body is no batch: {wrong}")]


class PullOrder(Struct, frozen=True):
    """One pull: its offset, how much it asks for, and how long it may wait at the broker."""

    queue: MessageQueue
    offset: int
    subscription: Subscription
    max_messages: int = APACHE_PULL_MESSAGES
    max_bytes: int = APACHE_PULL_BYTES
    suspend_ms: int = 15_000
    timeout_ms: int = 30_000
    commit_offset: int | None = None
    broker_id: int = MASTER_ID
    carries_filter: bool = False
    """Whether the pull carries an SQL expression. It always carries a tag expression; members of a group send SQL
    expressions with their heartbeats."""
    reads_hidden: bool = False
    """Whether the pull may read a queue that the topic has lost by shrinking, see `hidden_queues`."""

    @property
    def is_large(self) -> bool:
        """Whether the pull asks for more than Apache's brokers return."""
        return self.max_messages > APACHE_PULL_MESSAGES or self.max_bytes > APACHE_PULL_BYTES


class Bounds(NamedTuple):
    """The bounds of a queue: ``first`` is the offset of its first message, ``end`` the offset after its last."""

    first: int
    end: int


class Puller:
    """Sends pulls and offset requests to brokers, on behalf of one group."""

    def __init__(self, instance: Instance, group: str) -> None:
        self._instance = instance
        self._group = group
        self._unreachable: dict[Address, float] = {}

    def where(self, broker: str, preferred: int = MASTER_ID) -> tuple[int, Address]:
        """Return the member of a broker name to read from; raise ``NoRoute`` if there is none."""
        found = self._instance.routes.readable(broker, preferred)
        if found is None:
            self._instance.hurry()
            raise NoRoute(f"no name server knows an address of broker {broker} now")
        return self._reachable(broker, found)

    def _reachable(self, broker: str, found: tuple[int, Address]) -> tuple[int, Address]:
        now = asyncio.get_running_loop().time()
        if self._unreachable.get(found[1], now) <= now:
            return found
        members = self._instance.routes.brokers.get(broker, {}).items()
        return next((each for each in members if self._unreachable.get(each[1], now) <= now), found)

    async def ask(
        self,
        broker: str,
        request: Request[A],
        *,
        timeout_ms: float | None = None,
        accept: frozenset[int] = SUCCESS_ONLY,
    ) -> Reply[A]:
        """Send a request to a broker name: to its master, or to a slave if the master cannot be reached."""
        _, address = self.where(broker)
        limit_ms = self._instance.request_timeout_ms if timeout_ms is None else timeout_ms
        return await self._call(address, request, timeout_ms=limit_ms, accept=accept)

    async def _call(
        self, address: Address, request: Request[A], *, timeout_ms: float, accept: frozenset[int]
    ) -> Reply[A]:
        try:
            return await self._instance.caller.call(address, request, timeout_ms=timeout_ms, accept=accept)
        except ConnectionFailed:
            self._unreachable[address] = asyncio.get_running_loop().time() + UNREACHABLE_S
            raise

    async def pull(self, order: PullOrder) -> PulledBytes:
        """Pull once, when quotas allow it. Without messages the pull returns after ``suspend_ms``."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + order.timeout_ms / 1000
        while True:
            try:
                return await self._pull_now(order)
            except Throttled as error:
                pause_s = told_pause_s(error, self._instance.doors.chance)
                if loop.time() + pause_s >= deadline:
                    raise
                what, topic = "pulls of topic %s wait for a quota: %s", order.queue.topic
                self._instance.trouble.say(loop.time(), f"quota {topic}", what, topic, error, topic=topic)
                await asyncio.sleep(pause_s)

    async def _pull_now(self, order: PullOrder) -> PulledBytes:
        number, address = self.where(order.queue.broker_name, order.broker_id)
        flags = SUSPENDS if order.suspend_ms else 0
        commits = order.commit_offset is not None and number == MASTER_ID
        flags |= COMMITS if commits else 0
        carries = order.carries_filter or order.subscription.is_by_tag
        flags |= SUBSCRIBES if carries else 0
        request = PullMessage(
            consumer_group=self._group,
            topic=order.queue.topic,
            queue_id=order.queue.queue_id,
            queue_offset=order.offset,
            max_msg_nums=order.max_messages,
            sys_flag=flags,
            commit_offset=order.commit_offset if commits and order.commit_offset is not None else 0,
            suspend_timeout_millis=order.suspend_ms,
            subscription=order.subscription.expression if carries else None,
            sub_version=order.subscription.version,
            expression_type=order.subscription.kind,
            max_msg_bytes=order.max_bytes,
            large=True if order.is_large else None,
            hidden=True if order.reads_hidden else None,
        )
        reply = await self._call(address, request, timeout_ms=order.timeout_ms, accept=_ANSWERS)
        answer = reply.answer
        return PulledBytes(
            PullStatus(reply.code),
            reply.body,
            answer.next_begin_offset,
            answer.min_offset,
            answer.max_offset,
            answer.suggest_which_broker_id,
        )

    async def max_offset(self, queue: MessageQueue) -> int:
        """Return the offset after the last message."""
        request = GetMaxOffset(topic=queue.topic, queue_id=queue.queue_id)
        return (await self.ask(queue.broker_name, request)).answer.offset

    async def min_offset(self, queue: MessageQueue) -> int:
        """Return the offset of the first stored message."""
        request = GetMinOffset(topic=queue.topic, queue_id=queue.queue_id)
        return (await self.ask(queue.broker_name, request)).answer.offset

    async def offset_at(self, queue: MessageQueue, timestamp_ms: int) -> int:
        """Return the offset of the first message stored at that time or later."""
        request = SearchOffsetByTimestamp(topic=queue.topic, queue_id=queue.queue_id, timestamp=timestamp_ms)
        return (await self.ask(queue.broker_name, request)).answer.offset

    async def bounds(self, broker: str, topic: str) -> dict[MessageQueue, Bounds]:
        """Return the bounds of the queues that a broker has of a topic."""
        reply = await self.ask(broker, GetTopicStatsInfo(topic=topic), timeout_ms=BOUNDS_TIMEOUT_MS)
        table = fastjson.decode(reply.body, TopicStatsTable).offset_table
        return {queue: Bounds(each.min_offset, each.max_offset) for queue, each in sorted(table.items())}
