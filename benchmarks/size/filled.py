"""A broker filled over the wire: topics, queues, groups, offsets, members, parked pulls, timers, half messages, locks.

The simulator (``tests/simulation/turns``) and ``python -m benchmarks.size steps`` fill brokers alike; `Shape` says how
large each table is. Every connection is a member of one large group and of a group of its own, and has parked pulls.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator
from typing import Final, NamedTuple

from msgspec.structs import replace

from benchmarks.overload.frames import frame
from benchmarks.size.probe import Line
from campaigns.samples import SEND, a_topic
from firearrow.model.flags import PREPARED
from firearrow.model.message import MessageQueue
from firearrow.protocol.bodies.admin.topic import CreateTopicListBody, TopicConfig
from firearrow.protocol.bodies.body import encode_body
from firearrow.protocol.bodies.group.group import SubscriptionGroupConfig, SubscriptionGroupList
from firearrow.protocol.bodies.group.heartbeat import ConsumerData, HeartbeatData, ProducerData, SubscriptionData
from firearrow.protocol.bodies.group.lock import LockBatchBody
from firearrow.protocol.codes import ResponseCode
from firearrow.protocol.requests.admin.topic import UpdateAndCreateTopicList
from firearrow.protocol.requests.group.group import UpdateAndCreateSubscriptionGroupList
from firearrow.protocol.requests.group.heartbeat import HeartBeat
from firearrow.protocol.requests.group.lock import LockBatchMq
from firearrow.protocol.requests.group.offset import GetMaxOffset, UpdateConsumerOffset
from firearrow.protocol.requests.message.pull import PullMessage
from firearrow.protocol.requests.message.send import SendMessageV2
from firearrow.record.properties import format_properties

Connect = Callable[[], Awaitable[Line]]

HOT: Final = "hot"
"""The topic at whose end the pulls wait."""
WIDE: Final = "wide"
"""The topic with many queues, each with a message."""
TIMED: Final = "timed"
"""The topic of the timers."""
HALVES: Final = "halves"
"""The topic of the half messages."""
MEMBERS: Final = "members"
"""The consumer group of all connections."""
MAKERS: Final = "makers"
"""The producer group of all connections."""
MOST_QUEUES: Final = 65_536
A_TIME: Final = 1_000
SENDS: Final = 100
BODY: Final = b"x" * 64
SUSPEND: Final = 0x2
SOON_MS: Final = 2_000
HOUR_MS: Final = 3_600_000
LANGUAGE_VERSION: Final = 477
SHOWN: Final = 50
"""Connections that are opened side by side."""


class Shape(NamedTuple):
    """The sizes of a broker's tables."""

    topics: int
    groups: int
    offsets: int
    connections: int
    pulls: int
    timers: int
    halves: int
    locks: int

    @classmethod
    def of(cls, size: int) -> "Shape":
        """Return the shape in which every table has so many rows."""
        return cls(size, size, size, size, size, size, size, size)

    @property
    def queues(self) -> int:
        """The queues of the topic that has many."""
        return min(self.topics, MOST_QUEUES)


def topic_name(number: int) -> str:
    """Return the name of a topic."""
    return f"orders-{number:06d}"


def group_name(number: int) -> str:
    """Return the name of a group."""
    return f"readers-{number:06d}"


def a_message(
    topic: str, queue_id: int, number: int, more: dict[str, str] | None = None, flag: int = 0
) -> SendMessageV2:
    """Return the request that sends a message with a key and a unique key."""
    properties = {"KEYS": f"key-{number}", "UNIQ_KEY": f"{number:032X}", "WAIT": "true", **(more or {})}
    return replace(
        SEND,
        producer_group=MAKERS,
        topic=topic,
        queue_id=queue_id,
        sys_flag=flag,
        properties=format_properties(properties),
        broker_name=None,
    )


def subscription(topic: str, expression: str = "*", version: int = 1, kind: str = "TAG") -> SubscriptionData:
    """Return a subscription to a topic."""
    return SubscriptionData(topic=topic, sub_string=expression, sub_version=version, expression_type=kind)


def a_consumer(group: str, subscriptions: list[SubscriptionData]) -> ConsumerData:
    """Return a consumer group of a heartbeat."""
    return ConsumerData(
        group_name=group,
        consume_type="CONSUME_PASSIVELY",
        message_model="CLUSTERING",
        consume_from_where="CONSUME_FROM_LAST_OFFSET",
        subscription_data_set=subscriptions,
    )


def a_pull(group: str, topic: str, queue_id: int, offset: int, waits_ms: int = 0) -> PullMessage:
    """Return a pull that is served by the subscription of its group."""
    return PullMessage(
        consumer_group=group,
        topic=topic,
        queue_id=queue_id,
        queue_offset=offset,
        max_msg_nums=32,
        sys_flag=SUSPEND if waits_ms else 0,
        commit_offset=0,
        suspend_timeout_millis=waits_ms,
        sub_version=1,
    )


def a_commit(group: str, topic: str, queue_id: int, offset: int = 1) -> UpdateConsumerOffset:
    """Return the request that commits an offset."""
    return UpdateConsumerOffset(consumer_group=group, topic=topic, queue_id=queue_id, commit_offset=offset)


class Filler:
    """Fills one broker."""

    def __init__(self, shape: Shape, connect: Connect) -> None:
        self.shape = shape
        self._connect = connect
        self.members: list[Line] = []
        """The connections of the members, in the order of their numbers."""
        self.hot_end = 1
        """The offset at which pulls wait: whoever sends a message to that queue adds one."""

    async def fill(self) -> None:
        """Make everything but connections, members and parked pulls."""
        line = await self._connect()
        await self._make_topics(line)
        await self._make_groups(line)
        await self._send(line, self._timers())
        await self._send(line, self._halves())
        await self._send(line, self._messages())
        await self._commit(line)
        await self._lock(line)
        line.transport.close()

    async def _make_topics(self, line: Line) -> None:
        names = [topic_name(number) for number in range(self.shape.topics)]
        for first in range(0, len(names), A_TIME):
            topics = [
                TopicConfig(topic_name=name, read_queue_nums=1, write_queue_nums=1)
                for name in names[first : first + A_TIME]
            ]
            made = encode_body(CreateTopicListBody(topic_config_list=topics))
            await _done(line.ask(UpdateAndCreateTopicList(), made))
        for name, queues in ((WIDE, self.shape.queues), (HOT, 4), (TIMED, 4), (HALVES, 4)):
            await _done(line.ask(a_topic(name, queues)))

    async def _make_groups(self, line: Line) -> None:
        names = [MEMBERS, *(group_name(number) for number in range(self.shape.groups))]
        for first in range(0, len(names), A_TIME):
            groups = [SubscriptionGroupConfig(group_name=name) for name in names[first : first + A_TIME]]
            made = encode_body(SubscriptionGroupList(group_config_list=groups))
            await _done(line.ask(UpdateAndCreateSubscriptionGroupList(), made))

    def _timers(self) -> Iterator[SendMessageV2]:
        """Yield timers: of every two one is due soon, the other in an hour or later."""
        for number in range(self.shape.timers):
            waits_ms = SOON_MS if number % 2 else HOUR_MS + number // 100 * 1_000
            yield a_message(TIMED, number % 4, number, {"TIMER_DELAY_MS": str(waits_ms)})

    def _halves(self) -> Iterator[SendMessageV2]:
        for number in range(self.shape.halves):
            more = {"TRAN_MSG": "true", "PGROUP": MAKERS, "CHECK_IMMUNITY_TIME_IN_SECONDS": "7200"}
            yield a_message(HALVES, number % 4, 10_000_000 + number, more, PREPARED)

    def _messages(self) -> Iterator[SendMessageV2]:
        for number in range(self.shape.topics):
            yield a_message(topic_name(number), 0, 20_000_000 + number)
        for number in range(self.shape.queues):
            yield a_message(WIDE, number, 30_000_000 + number)
        for queue_id in range(4):
            yield a_message(HOT, queue_id, 40_000_000 + queue_id)

    async def _send(self, line: Line, messages: Iterable[SendMessageV2]) -> None:
        waiting = list(messages)
        waiting.reverse()
        while waiting:
            some = [waiting.pop() for _ in range(min(SENDS, len(waiting)))]
            codes = await asyncio.gather(*(line.ask(message, BODY) for message in some))
            assert set(codes) <= {0, ResponseCode.SYSTEM_BUSY, ResponseCode.FLUSH_DISK_TIMEOUT}, f"refused: {codes}"
            waiting += [message for message, code in zip(some, codes, strict=True) if code == ResponseCode.SYSTEM_BUSY]

    async def _commit(self, line: Line) -> None:
        commits = self._commits()
        for number in range(self.shape.offsets):
            line.transport.write(frame(next(commits), 0))
            if number % A_TIME == 0:
                await line.ask(GetMaxOffset(topic=HOT, queue_id=0))
        await line.ask(GetMaxOffset(topic=HOT, queue_id=0))

    def _commits(self) -> Iterator[UpdateConsumerOffset]:
        """Yield commits in thirds: one group everywhere, all groups in one queue, one group in a topic's queues."""
        shape, number = self.shape, 0
        while True:
            yield a_commit(MEMBERS, topic_name(number % shape.topics), 0)
            yield a_commit(group_name(number % shape.groups), HOT, number // shape.groups % 4)
            yield a_commit(MEMBERS, WIDE, number % shape.queues)
            if number >= shape.topics:
                for topic in range(shape.topics):
                    yield a_commit(group_name(number % shape.groups), topic_name(topic), 0)
            number += 1

    async def _lock(self, line: Line) -> None:
        for first in range(0, self.shape.locks, A_TIME):
            queues = [
                MessageQueue(topic=topic_name(number), broker_name="", queue_id=0)
                for number in range(first, min(first + A_TIME, self.shape.locks))
            ]
            body = LockBatchBody(client_id="locker", consumer_group=MEMBERS, mq_set=queues)
            await _done(line.ask(LockBatchMq(), encode_body(body)))

    async def join(self) -> None:
        """Open the connections, each a member of the large group and of a group of its own, and a producer."""
        numbers = range(self.shape.connections)
        for first in range(0, len(numbers), SHOWN):
            self.members += await asyncio.gather(*(self._join(number) for number in numbers[first : first + SHOWN]))

    async def _join(self, number: int) -> Line:
        line = await self._connect()
        own = a_consumer(group_name(number % self.shape.groups), [subscription(topic_name(number % self.shape.topics))])
        await _done(line.ask(HeartBeat(), heartbeat(number, a_consumer(MEMBERS, [subscription(HOT)]), own)))
        return line

    async def park(self, waits_ms: int) -> None:
        """Park pulls at the end of one queue: half of them of one connection, the others of each member in turn."""
        one = await self._connect()
        for number in range(self.shape.pulls):
            line = one if number % 2 else self.members[number // 2 % len(self.members)]
            line.transport.write(frame(a_pull(MEMBERS, HOT, 0, self.hot_end, waits_ms), 1 << 20))
            if number % A_TIME == 0:
                await one.ask(GetMaxOffset(topic=HOT, queue_id=0))
        await one.ask(GetMaxOffset(topic=HOT, queue_id=0))
        self.members.append(one)


def heartbeat(number: int, *consumers: ConsumerData) -> bytes:
    """Return the heartbeat of a member, who is a producer too."""
    makers = [ProducerData(group_name=MAKERS), ProducerData(group_name=f"makers-{number:06d}")]
    data = HeartbeatData(client_id=f"client-{number:06d}", consumer_data_set=list(consumers), producer_data_set=makers)
    return encode_body(data)


async def _done(answer: Awaitable[int]) -> None:
    code = await answer
    assert code == 0, f"the broker refused with {code}"
