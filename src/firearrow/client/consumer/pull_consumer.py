"""The pull consumer: reads chosen queues from chosen offsets, at its own pace.

    async with PullConsumer("127.0.0.1:9876", group="report") as consumer:
        await consumer.assign(await consumer.queues("orders"))
        await consumer.seek_to_time(yesterday_ms)
        async for message in consumer:
            ...

Queues are chosen by ``assign``, or by ``topics`` and ``subscribe``, which divide them among the members of the group.
The consumer reads ahead in the background up to its limits; ``poll`` and iteration return messages read ahead. A
message counts as consumed when the next one is asked for, so a crash in between repeats it. With ``auto_commit=False``
only ``commit`` commits offsets.

Below that, for tools and pipelines: ``pull_bytes`` is one request for records as they lie in the log, ``pull_range`` a
range of a queue with several such requests in flight, ``bounds`` the first and last offsets of all queues of a topic
with one request a broker, ``offsets_at`` the offsets at a time. They work without ``assign`` and change no offset.

Java: ``DefaultLitePullConsumerImpl``, ``DefaultMQPullConsumerImpl``.
"""

import asyncio
from collections.abc import AsyncGenerator, Coroutine, Iterable, Mapping, Sequence
from contextlib import aclosing
from types import TracebackType
from typing import Any, Final, Unpack, overload

from firearrow.client.consumer.broker_queries import (
    APACHE_PULL_BYTES,
    APACHE_PULL_MESSAGES,
    Bounds,
    PulledBytes,
    PullOrder,
)
from firearrow.client.consumer.division.strategies import Strategy
from firearrow.client.consumer.filter_check import CarriedFilters
from firearrow.client.consumer.group_consumer import GroupConsumer
from firearrow.client.consumer.group_member import GroupMember
from firearrow.client.consumer.message import ReceivedMessage
from firearrow.client.consumer.queue.acceptance import Accept
from firearrow.client.consumer.queue.handler_call import holder_of
from firearrow.client.consumer.range_reader import IN_FLIGHT, read_range
from firearrow.client.consumer.settings import ConsumerOptions, ConsumerSettings, consumer_settings
from firearrow.client.consumer.subscription import EVERYTHING, Expression, Topics, subscription
from firearrow.client.doors import Doors
from firearrow.client.name_servers import name_server_source
from firearrow.client.routes import MASTER_ID
from firearrow.client.settings import with_options
from firearrow.errors import ClientClosed, ConnectionLost, SettingsError
from firearrow.model import MessageQueue
from firearrow.protocol.bodies.group.heartbeat import ConsumeType
from firearrow.serializers import Deserializer, V

POLL_MS: Final = 5000
LARGE_MESSAGES: Final = 65_536
LARGE_BYTES: Final = 4 * 1024 * 1024
"""Most messages, and most bytes, in an answer of our brokers."""


class PullConsumer(GroupConsumer[V]):
    """Reads queues. Use it in an ``async with`` block.

    ``deserializer`` turns a body into ``message.value``, ``accept``, a function or coroutine
    function, rejects messages by returning False; if it raises, ``poll`` or the iteration raises the error and the
    message is first again.
    """

    @overload
    def __init__(
        self: "PullConsumer[bytes]",
        name_servers: str | Sequence[str],
        *,
        group: str,
        topics: Topics = (),
        strategy: Strategy | str = "AVG",
        accept: Accept[bytes] | None = None,
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
        accept: Accept[V] | None = None,
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
        accept: Accept[Any] | None = None,
        deserializer: Deserializer[Any] | None = None,
        doors: Doors | None = None,
        **options: Unpack[ConsumerOptions],
    ) -> None:
        self.settings: Final[ConsumerSettings] = consumer_settings(group, options)
        if self.settings.ordered:
            raise SettingsError("a pull consumer reads every queue in order already; leave ordered out")
        self._member = GroupMember(
            name_server_source(name_servers),
            self.settings,
            topics=topics,
            strategy=strategy,
            consume_type=ConsumeType.CONSUME_ACTIVELY,
            accept=accept,
            deserializer=deserializer,
            doors=doors,
        )
        self._handed: list[ReceivedMessage[V]] = []
        self._carried = CarriedFilters()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close it. The last message counts as consumed, unless an error ends the block."""
        if kind is None and self.settings.auto_commit:
            await self._consumed()
        await self.close()

    # -- which queues

    async def queues(self, topic: str) -> tuple[MessageQueue, ...]:
        """Return all queues of a topic that can be read now."""
        return (await self._member.instance.route(topic)).read_queues

    async def assign(self, queues: Iterable[MessageQueue]) -> None:
        """Read exactly these queues, without dividing them among members."""
        await self._member.assign(queues)

    # -- from where

    async def seek(self, queue: MessageQueue, offset: int) -> None:
        """Continue at ``offset``; messages read ahead are discarded."""
        if not self._member.receiver.reset(queue, offset):
            raise SettingsError(f"{queue} is not assigned to this consumer; assign it first")
        self._handed = [message for message in self._handed if message.queue != queue]

    async def seek_to_begin(self, *queues: MessageQueue) -> None:
        """Continue at the first message of these queues, or of all assigned queues."""
        for queue in queues or self.assignment:
            await self.seek(queue, await self._member.receiver.puller.min_offset(queue))

    async def seek_to_end(self, *queues: MessageQueue) -> None:
        """Continue after the last message of these queues, or of all assigned queues."""
        for queue in queues or self.assignment:
            await self.seek(queue, await self._member.receiver.puller.max_offset(queue))

    async def seek_to_time(self, timestamp_ms: int, *queues: MessageQueue) -> None:
        """Continue at the first message stored at that time or later."""
        for queue, offset in (await self.offsets_at(queues or self.assignment, timestamp_ms)).items():
            await self.seek(queue, offset)

    def position(self, queue: MessageQueue) -> int | None:
        """The offset of the next message; None while it is unknown, or if the queue is not assigned."""
        flow = self._member.receiver.flows.get(queue)
        if flow is None or not flow.is_started:
            return None
        waiting = (offset for offset in flow.window.offsets() if offset not in flow.handed)
        return min(waiting, default=flow.window.next_offset)

    # -- messages

    async def poll(self, max_messages: int = 32, *, timeout_ms: float = POLL_MS) -> list[ReceivedMessage[V]]:
        """Return messages of one queue as soon as there are any; an empty list after the timeout."""
        await self._consumed()
        acceptance = self._member.receiver.acceptance
        self._handed = await acceptance.take(holder_of(None), max_messages, wait_s=timeout_ms / 1000)
        return self._handed

    async def __anext__(self) -> ReceivedMessage[V]:
        """Return the next message; the previous one counts as consumed."""
        await self._consumed()
        taken = await self._member.receiver.acceptance.take(holder_of(None))
        if not taken:
            raise StopAsyncIteration
        self._handed = taken
        return taken[0]

    async def _consumed(self) -> None:
        handed, self._handed = self._handed, []
        for message in handed:
            await message.ack()

    async def commit(self, offsets: Mapping[MessageQueue, int] | None = None) -> None:
        """Commit all messages returned so far, or these offsets; raise the error if a broker could not be reached."""
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
        """Return the committed offset of the group in a queue; None if there is none."""
        await self._member.instance.route(queue.topic)
        return await self._member.receiver.offsets.read(queue)

    # -- single requests

    async def pull_bytes(
        self,
        queue: MessageQueue,
        offset: int,
        *,
        expression: Expression = EVERYTHING,
        max_messages: int = APACHE_PULL_MESSAGES,
        max_bytes: int = APACHE_PULL_BYTES,
        wait_ms: int = 0,
        timeout_ms: int = 30_000,
        broker_id: int = MASTER_ID,
    ) -> PulledBytes:
        """Ask a broker once for records from ``offset`` on, without decoding them. Calls may run concurrently.

        Apache's brokers return at most 32 messages or 256 KiB by default, ours as much as the request asks for, up to
        4 MiB. ``wait_ms`` is how long the broker may hold the request until a message arrives. ``broker_id`` is the
        member of the broker name to read from: 0 the master, others slaves; if that member is missing, another is
        asked.
        """
        await self._member.instance.route(queue.topic)
        wanted = subscription(queue.topic, expression, version=0)
        await self._carried.check(self._member.instance, self.settings.group, wanted, queue.broker_name)
        limits = (max_messages, max_bytes, wait_ms, timeout_ms)
        order = PullOrder(queue, offset, wanted, *limits, broker_id=broker_id, carries_filter=True)
        try:
            return await self._pull(order)
        except ConnectionLost as error:
            if self._member.is_open:
                raise
            raise ClientClosed("the consumer was closed while this pull waited") from error

    async def _pull(self, order: PullOrder) -> PulledBytes:
        return await self._member.receiver.puller.pull(order)

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
        """Yield records from ``begin`` to ``end`` (exclusive), undecoded, in order, ``in_flight`` pulls at once.

        Each answer begins where the previous one ended. Iteration stops early at the end of the queue. An answer whose
        ``status`` is ``OFFSET_MOVED``, or whose first record lies beyond the offset asked for, means that the broker
        has deleted messages: iteration goes on behind them, and the caller decides what that means.
        """

        def ask(offset: int, most: int) -> Coroutine[Any, Any, PulledBytes]:
            return self.pull_bytes(
                queue, offset, max_messages=most, max_bytes=max_bytes, timeout_ms=timeout_ms, broker_id=broker_id
            )

        async with aclosing(read_range(ask, begin, end, max_messages, in_flight)) as answers:
            async for pulled in answers:
                yield pulled

    async def bounds(self, topic: str) -> dict[MessageQueue, Bounds]:
        """Return the bounds of all queues of a topic, with one request a broker."""
        route = await self._member.instance.route(topic)
        puller, brokers = self._member.receiver.puller, dict.fromkeys(queue.broker_name for queue in route.read_queues)
        found: dict[MessageQueue, Bounds] = {}
        for bounds in await asyncio.gather(*(puller.bounds(broker, topic) for broker in brokers)):
            found.update(bounds)
        return found

    async def offsets_at(self, queues: Iterable[MessageQueue], timestamp_ms: int) -> dict[MessageQueue, int]:
        """Return the offset of each queue at a time, asked concurrently."""
        puller, listed = self._member.receiver.puller, list(queues)
        for topic in dict.fromkeys(queue.topic for queue in listed):
            await self._member.instance.route(topic)
        offsets = await asyncio.gather(*(puller.offset_at(queue, timestamp_ms) for queue in listed))
        return dict(zip(listed, offsets, strict=True))


PullConsumer.__doc__ = with_options(PullConsumer.__doc__, ConsumerSettings, but=("group",))
