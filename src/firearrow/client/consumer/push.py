"""The consumer: a member of a group that gets messages as they come.

    async with Consumer("127.0.0.1:9876", group="shop", topics={"orders": "new || changed"}) as consumer:
        await consumer.run(handle)                      # a function, until the consumer is stopped

        async for message in consumer:                  # or message by message, from any number of tasks
            async with message.process():
                ...

Returning from the handler, or leaving the block, acknowledges; raising has the message delivered again later, and after
the last attempt puts it with the dead letters. Handlers of one queue run side by side; the offset that is committed is
the lowest one unfinished. With ``ordered=True`` a queue has one message in hand at a time.

``pause`` and ``resume`` stop and start the handing over while the queues stay this member's; a ``RebalanceListener``
hears of queues that come and go; a ``deserializer`` makes ``message.value`` of the body.

Java: ``DefaultMQPushConsumer``.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from functools import partial
from types import TracebackType
from typing import Any, Final, Generic, Self, Unpack, overload

from firearrow.client.access import with_options
from firearrow.client.consumer.assignment import Strategy
from firearrow.client.consumer.flow import Stall
from firearrow.client.consumer.handling import Filter, Handler, as_coroutine, handle_batch, handle_one, holder_of
from firearrow.client.consumer.member import Member
from firearrow.client.consumer.message import ReceivedMessage
from firearrow.client.consumer.rebalance import RebalanceListener
from firearrow.client.consumer.receiving import Receiver
from firearrow.client.consumer.settings import ConsumerOptions, ConsumerSettings, consumer_settings
from firearrow.client.consumer.subscription import EVERYTHING, TAG, Topics
from firearrow.client.doors import Doors
from firearrow.client.misuse import NeedsAwait
from firearrow.client.nameservers import whereabouts
from firearrow.model import MessageQueue
from firearrow.protocol.bodies.heartbeat import ConsumeType
from firearrow.runtime.threads import Threads
from firearrow.serializers import Deserializer, V


class Consumer(NeedsAwait, Generic[V]):
    """Receives messages. Use it in an ``async with`` block.

    ``topics`` are what it wants: one, several, or each with its expression (``{"orders": "new || changed"}``).
    ``deserializer`` makes ``message.value`` of a body, ``rebalance_listener`` hears of queues that come and go,
    ``wanted`` passes over messages for which it returns False, ``strategy`` divides queues among the members.
    """

    @overload
    def __init__(
        self: "Consumer[bytes]",
        name_servers: str | Sequence[str],
        *,
        group: str,
        topics: Topics = (),
        strategy: Strategy | str = "AVG",
        wanted: Filter[bytes] | None = None,
        deserializer: None = None,
        rebalance_listener: RebalanceListener | None = None,
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
        rebalance_listener: RebalanceListener | None = None,
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
        rebalance_listener: RebalanceListener | None = None,
        doors: Doors | None = None,
        **options: Unpack[ConsumerOptions],
    ) -> None:
        self.settings: Final[ConsumerSettings] = consumer_settings(group, options)
        self._member = Member(
            whereabouts(name_servers),
            self.settings,
            topics=topics,
            strategy=strategy,
            consume_type=ConsumeType.CONSUME_PASSIVELY,
            wanted=wanted,
            deserializer=deserializer,
            rebalance_listener=rebalance_listener,
            doors=doors,
        )
        self._threads: list[Threads] = []

    async def __aenter__(self) -> Self:
        """Open it."""
        await self.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close it."""
        await self.close()

    async def open(self) -> None:
        """Join the group."""
        await self._member.open()

    def stop(self) -> None:
        """Hand out nothing more; ``run`` returns when its handlers have finished what they have."""
        self._member.receiver.ready.close()

    async def close(self) -> None:
        """Commit, leave the group, end every connection. Messages that are not settled come again elsewhere."""
        await self._member.close()
        threads, self._threads = self._threads, []
        for pool in threads:
            pool.close()

    @property
    def client_id(self) -> str:
        """How brokers and the other members know this consumer."""
        return self._member.parts[0].id

    async def subscribe(self, topic: str, expression: str = EVERYTHING, *, kind: str = TAG) -> None:
        """Want a topic from now on, or want something else of it."""
        await self._member.subscribe(topic, expression, kind=kind)

    async def unsubscribe(self, topic: str) -> None:
        """Want nothing more of a topic."""
        await self._member.unsubscribe(topic)

    @property
    def assignment(self) -> list[MessageQueue]:
        """The queues of this member now."""
        return sorted(self._member.receiver.flows)

    def pause(self, *what: str | MessageQueue) -> None:
        """Hand nothing more over of these topics or queues, or of anything when none is given, until ``resume``.

        What runs goes on; what was pulled waits here. The queues stay this member's, and offsets move no further than
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

    @property
    def failures(self) -> int:
        """How many deliveries failed."""
        return self._member.parts[1].failures

    def stalls(self) -> list[Stall]:
        """The queues that have not moved for ``stall_ms`` although they should, each with the reason."""
        return self._member.stalls()

    async def commit(self) -> None:
        """Commit now how far every queue is, not only every ``persist_ms``; raise what kept brokers from hearing it."""
        error = await self._member.receiver.persist()
        if error is not None:
            raise error

    def __aiter__(self) -> AsyncIterator[ReceivedMessage[V]]:
        """Message by message; several tasks may iterate at once, each gets others."""
        return self

    async def __anext__(self) -> ReceivedMessage[V]:
        """The next message. It must be settled: by ``process()``, ``ack()`` or ``retry()``."""
        taken = await self._member.receiver.take(holder_of(None))
        if not taken:
            raise StopAsyncIteration
        return taken[0]

    async def run(self, handler: Handler[ReceivedMessage[V]], *, workers: int | None = None) -> None:
        """Call ``handler`` with every message, ``workers`` at once, until the consumer is stopped or this is cancelled.

        A coroutine function runs on the loop, any other in a thread; what that returns is awaited, if it can be.
        """
        call, holder = as_coroutine(handler, partial(self._pool, workers)), holder_of(handler)
        self._member.handled_by(call)
        try:
            await self._work(partial(_handle_one, self._member.receiver, call, holder), workers)
        finally:
            self._member.handled_by(None)

    async def run_batches(
        self, handler: Handler[list[ReceivedMessage[V]]], *, size: int = 32, workers: int | None = None
    ) -> None:
        """The same with up to ``size`` messages of one queue at a time, which succeed or fail together."""
        call, holder = as_coroutine(handler, partial(self._pool, workers)), holder_of(handler)
        await self._work(partial(_handle_some, self._member.receiver, call, holder, size), workers)

    def _pool(self, workers: int | None) -> Threads:
        pool = Threads(workers or self.settings.workers, self.settings.group)
        self._threads.append(pool)
        return pool

    async def _work(self, step: Callable[[], Awaitable[bool]], workers: int | None) -> None:
        is_over = False

        async def work() -> None:
            while not is_over and await step():
                pass

        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(work()) for _ in range(workers or self.settings.workers)]
            try:
                await asyncio.wait(tasks)
            finally:
                is_over = True  # a handler may answer its cancellation with another error, or with none


async def _handle_one(
    receiver: Receiver, call: Callable[[ReceivedMessage[Any]], Awaitable[object]], holder: str
) -> bool:
    message = receiver.take_now(holder) or await receiver.take_one(holder)
    if message is None:
        return False
    await handle_one(call, message)
    return True


async def _handle_some(
    receiver: Receiver, call: Callable[[list[ReceivedMessage[Any]]], Awaitable[object]], holder: str, size: int
) -> bool:
    taken = await receiver.take(holder, size)
    if taken:
        await handle_batch(call, taken)
    return bool(taken)


Consumer.__doc__ = with_options(Consumer.__doc__, ConsumerSettings, but=("group",))
