"""The pull consumer: reads queues of its own choice, from where it likes, at its own pace.

    async with PullConsumer("127.0.0.1:9876", group="report") as consumer:
        await consumer.assign(await consumer.queues("orders"))
        await consumer.seek_to_time(yesterday_ms)
        async for message in consumer:
            ...

Queues come by ``assign``, or by ``topics`` and ``subscribe``, which share them with the other members of the group.
Reading goes on in the background up to the usual limits; ``poll`` and iteration hand out what has come. What was handed
out counts as consumed when the next is asked for, so a crash in between repeats it. With ``auto_commit=False`` offsets
are committed by ``commit`` alone.

Below that, for tools and pipelines: ``pull_bytes`` is one request for records as they lie in the log, ``pull_range`` a
stretch of a queue with several such requests under way, ``bounds`` the first and last offsets of all queues of a topic
with one request a broker, ``offsets_at`` their places at a time. None of them needs ``assign``, nor changes an offset.

Java: ``DefaultLitePullConsumerImpl``, ``DefaultMQPullConsumerImpl``.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Coroutine, Iterable, Mapping, Sequence
from contextlib import aclosing
from types import TracebackType
from typing import Any, Final, Generic, NamedTuple, Self, Unpack, overload

from firearrow import fastjson
from firearrow.client.access import with_options
from firearrow.client.consumer.assignment import Strategy
from firearrow.client.consumer.handling import Filter, holder_of
from firearrow.client.consumer.member import Member
from firearrow.client.consumer.message import ReceivedMessage
from firearrow.client.consumer.pulling import APACHE_PULL_BYTES, APACHE_PULL_MESSAGES, PulledBytes, PullOrder
from firearrow.client.consumer.ranges import IN_FLIGHT, read_range
from firearrow.client.consumer.settings import ConsumerOptions, ConsumerSettings, consumer_settings
from firearrow.client.consumer.subscription import EVERYTHING, TAG, Topics, subscription
from firearrow.client.doors import Doors
from firearrow.client.misuse import NeedsAwait
from firearrow.client.nameservers import whereabouts
from firearrow.client.routes import MASTER_ID
from firearrow.errors import ClientClosed, ConnectionLost, SettingsError
from firearrow.model import MessageQueue
from firearrow.protocol.bodies.heartbeat import ConsumeType
from firearrow.protocol.bodies.topic import TopicStatsTable
from firearrow.protocol.requests.topic import GetTopicStatsInfo
from firearrow.serializers import Deserializer, V

POLL_MS: Final = 5000
BOUNDS_TIMEOUT_MS: Final = 10_000
LARGE_MESSAGES: Final = 65_536
LARGE_BYTES: Final = 4 * 1024 * 1024
"""What our brokers hand out at once, to those who ask for it."""


class Bounds(NamedTuple):
    """Where a queue begins and ends: ``first`` is its first message, ``end`` one past its last."""

    first: int
    end: int


class PullConsumer(NeedsAwait, Generic[V]):
    """Reads queues. Use it in an ``async with`` block. ``deserializer`` makes ``message.value`` of a body."""

    @overload
    def __init__(
        self: "PullConsumer[bytes]",
        name_servers: str | Sequence[str],
        *,
        group: str,
        topics: Topics = (),
        strategy: Strategy | str = "AVG",
        wanted: Filter[bytes] | None = None,
        deserializer: None = None,
        doors: Doors | None = None,
        **options: Unpack[ConsumerOptions],
    ) -> None: ...
    @overload
    def __init__(
        self,
        name_servers: str | Sequence[str],
        *,
        group: str,
        topics: Topics = (),
        strategy: Strategy | str = "AVG",
        wanted: Filter[V] | None = None,
        deserializer: Deserializer[V],
        doors: Doors | None = None,
        **options: Unpack[ConsumerOptions],
    ) -> None: ...
    def __init__(
        self,
        name_servers: str | Sequence[str],
        *,
        group: str,
        topics: Topics = (),
        strategy: Strategy | str = "AVG",
        wanted: Filter[Any] | None = None,
        deserializer: Deserializer[Any] | None = None,
        doors: Doors | None = None,
        **options: Unpack[ConsumerOptions],
    ) -> None:
        self.settings: Final[ConsumerSettings] = consumer_settings(group, options)
        if self.settings.ordered:
            raise SettingsError("a pull consumer reads every queue in order already; leave ordered out")
        self._member = Member(
            whereabouts(name_servers),
            self.settings,
            topics=topics,
            strategy=strategy,
            consume_type=ConsumeType.CONSUME_ACTIVELY,
            wanted=wanted,
            deserializer=deserializer,
            doors=doors,
        )
        self._handed: list[ReceivedMessage[V]] = []

    async def __aenter__(self) -> Self:
        """Open it."""
        await self.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close it. What was handed out last counts as consumed, unless an error ends the block."""
        if kind is None and self.settings.auto_commit:
            await self._consumed()
        await self.close()

    async def open(self) -> None:
        """Begin."""
        await self._member.open()

    async def close(self) -> None:
        """End every connection."""
        await self._member.close()

    @property
    def client_id(self) -> str:
        """How brokers know this consumer."""
        return self._member.parts[0].id

    # -- which queues

    async def queues(self, topic: str) -> tuple[MessageQueue, ...]:
        """All queues of a topic that can be read now."""
        return (await self._member.instance.route(topic)).read_queues

    async def assign(self, queues: Iterable[MessageQueue]) -> None:
        """Read exactly these queues, whoever else reads them."""
        await self._member.assign(queues)

    async def subscribe(self, topic: str, expression: str = EVERYTHING, *, kind: str = TAG) -> None:
        """Share the queues of a topic with the other members of the group."""
        await self._member.subscribe(topic, expression, kind=kind)

    async def unsubscribe(self, topic: str) -> None:
        """Want nothing more of a topic."""
        await self._member.unsubscribe(topic)

    @property
    def assignment(self) -> list[MessageQueue]:
        """The queues that are read now."""
        return sorted(self._member.receiver.flows)

    def pause(self, *what: str | MessageQueue) -> None:
        """Hand nothing more over of these topics or queues, or of anything when none is given, until ``resume``.

        What was pulled waits here. The queues stay this member's, and offsets move no further than
        what was handled. A pause of a topic, or of everything, counts for queues that come later too; that of a single
        queue ends when the queue goes to another member.
        """
        self._member.pause(what)

    def resume(self, *what: str | MessageQueue) -> None:
        """Go on with these topics or queues, or with everything when none is given."""
        self._member.resume(what)

    @property
    def paused(self) -> list[MessageQueue]:
        """The queues of this member that are paused now."""
        return sorted(flow.queue for flow in self._member.receiver.flows.values() if flow.is_paused)

    # -- from where

    async def seek(self, queue: MessageQueue, offset: int) -> None:
        """Go on from ``offset``; what was read ahead is forgotten."""
        receiver = self._member.receiver
        if not receiver.reset(queue, offset):
            raise SettingsError(f"{queue} is not assigned to this consumer; assign it first")
        self._handed = [message for message in self._handed if message.queue != queue]

    async def seek_to_begin(self, *queues: MessageQueue) -> None:
        """Go on from the first message of these queues, or of all that are assigned."""
        for queue in queues or self.assignment:
            await self.seek(queue, await self._member.receiver.puller.min_offset(queue))

    async def seek_to_end(self, *queues: MessageQueue) -> None:
        """Go on after the last message of these queues, or of all that are assigned."""
        for queue in queues or self.assignment:
            await self.seek(queue, await self._member.receiver.puller.max_offset(queue))

    async def seek_to_time(self, timestamp_ms: int, *queues: MessageQueue) -> None:
        """Go on from the first message stored at that time or later."""
        for queue, offset in (await self.offsets_at(queues or self.assignment, timestamp_ms)).items():
            await self.seek(queue, offset)

    def position(self, queue: MessageQueue) -> int | None:
        """The offset that is handed out next; None while it is not known, or the queue is not assigned."""
        flow = self._member.receiver.flows.get(queue)
        if flow is None or not flow.is_started:
            return None
        waiting = (offset for offset in flow.window.offsets() if offset not in flow.handed)
        return min(waiting, default=flow.window.next_offset)

    # -- messages

    async def poll(self, max_messages: int = 32, *, timeout_ms: float = POLL_MS) -> list[ReceivedMessage[V]]:
        """Some messages of one queue, as soon as there are any; none when the time is over."""
        await self._consumed()
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                taken = await self._member.receiver.take(holder_of(None), max_messages)
        except TimeoutError:
            return []
        self._handed = taken
        return taken

    def __aiter__(self) -> AsyncIterator[ReceivedMessage[V]]:
        """Message by message."""
        return self

    async def __anext__(self) -> ReceivedMessage[V]:
        """The next message; the one before counts as consumed."""
        await self._consumed()
        taken = await self._member.receiver.take(holder_of(None))
        if not taken:
            raise StopAsyncIteration
        self._handed = taken
        return taken[0]

    async def _consumed(self) -> None:
        handed, self._handed = self._handed, []
        for message in handed:
            await message.ack()

    async def commit(self, offsets: Mapping[MessageQueue, int] | None = None) -> None:
        """Commit everything handed out so far, or these offsets; raise what kept a broker from hearing it."""
        instance, receiver = self._member.instance, self._member.receiver
        if offsets is None:
            await self._consumed()
            error = await receiver.persist()
        else:
            for topic in dict.fromkeys(queue.topic for queue in offsets):
                await instance.route(topic)
            await self._member.announce()
            for queue, offset in offsets.items():
                receiver.offsets.table.note(queue, offset, is_reset=True)
            error = await receiver.offsets.persist()
        if error is not None:
            raise error

    async def committed(self, queue: MessageQueue) -> int | None:
        """How far the group is in a queue, as its broker knows; None when it was never there."""
        await self._member.instance.route(queue.topic)
        return await self._member.receiver.offsets.read(queue)

    # -- single requests

    async def pull_bytes(
        self,
        queue: MessageQueue,
        offset: int,
        *,
        expression: str = EVERYTHING,
        kind: str = TAG,
        max_messages: int = APACHE_PULL_MESSAGES,
        max_bytes: int = APACHE_PULL_BYTES,
        wait_ms: int = 0,
        timeout_ms: int = 30_000,
        broker_id: int = MASTER_ID,
    ) -> PulledBytes:
        """Ask a broker once for records from ``offset`` on, without decoding them. Any number may be under way.

        Apache's brokers hand out 32 messages or 256 KiB at most unless they are set otherwise, ours as much as is
        asked for, up to 4 MiB. ``wait_ms`` lets the broker hold the request that long while there is nothing.
        ``broker_id`` is the member of the broker's group to read from: 0 the master, others slaves; when it is not
        there another one is asked.
        """
        await self._member.instance.route(queue.topic)
        wanted = subscription(queue.topic, expression, version=0, kind=kind)
        order = PullOrder(
            queue,
            offset,
            wanted,
            max_messages,
            max_bytes,
            wait_ms,
            timeout_ms,
            broker_id=broker_id,
            carries_filter=True,
        )
        puller = self._member.receiver.puller
        try:
            return await puller.pull(order)
        except ConnectionLost as error:
            if self._member.is_open:
                raise
            raise ClientClosed("the consumer was closed while this pull waited") from error

    async def pull_range(
        self,
        queue: MessageQueue,
        begin: int,
        end: int,
        *,
        max_messages: int = LARGE_MESSAGES,
        max_bytes: int = LARGE_BYTES,
        in_flight: int = IN_FLIGHT,
        timeout_ms: int = 30_000,
        broker_id: int = MASTER_ID,
    ) -> AsyncGenerator[PulledBytes, None]:
        """Records from ``begin`` to ``end`` (exclusive), undecoded, in order, with ``in_flight`` pulls under way.

        Each answer goes on where the one before ended. It stops early at the end of the queue. An answer whose
        ``status`` is ``OFFSET_MOVED``, or whose first record lies beyond the place asked for, tells of messages that
        the broker has deleted: the reading goes on behind them, and the caller decides what to make of it.
        """

        def ask(offset: int, most: int) -> Coroutine[Any, Any, PulledBytes]:
            return self.pull_bytes(
                queue, offset, max_messages=most, max_bytes=max_bytes, timeout_ms=timeout_ms, broker_id=broker_id
            )

        async with aclosing(read_range(ask, begin, end, max_messages, in_flight)) as answers:
            async for pulled in answers:
                yield pulled

    async def bounds(self, topic: str) -> dict[MessageQueue, Bounds]:
        """The bounds of all queues of a topic, with one request a broker."""
        instance = self._member.instance
        route = await instance.route(topic)
        puller, request = self._member.receiver.puller, GetTopicStatsInfo(topic=topic)

        async def of(broker: str) -> dict[MessageQueue, Bounds]:
            reply = await puller.ask(broker, request, timeout_ms=BOUNDS_TIMEOUT_MS)
            table = fastjson.decode(reply.body, TopicStatsTable).offset_table
            return {queue: Bounds(each.min_offset, each.max_offset) for queue, each in sorted(table.items())}

        found: dict[MessageQueue, Bounds] = {}
        for some in await asyncio.gather(*map(of, dict.fromkeys(queue.broker_name for queue in route.read_queues))):
            found.update(some)
        return found

    async def offsets_at(self, queues: Iterable[MessageQueue], timestamp_ms: int) -> dict[MessageQueue, int]:
        """Where each queue is at a time, asked all at once."""
        puller, listed = self._member.receiver.puller, list(queues)
        for topic in dict.fromkeys(queue.topic for queue in listed):
            await self._member.instance.route(topic)
        offsets = await asyncio.gather(*(puller.offset_at(queue, timestamp_ms) for queue in listed))
        return dict(zip(listed, offsets, strict=True))


PullConsumer.__doc__ = with_options(PullConsumer.__doc__, ConsumerSettings, but=("group",))
