"""The consumer: a member of a group that gets messages as they arrive.

    async with Consumer("127.0.0.1:9876", group="shop", topics={"orders": "new || changed"}) as consumer:
        await consumer.run(handle)                      # a function, until the consumer is stopped

        async for message in consumer:                  # or message by message, from any number of tasks
            async with message.process():
                ...

Returning from the handler, or leaving the block, acknowledges the message. If the handler raises, the message is
delivered again later, and after the last attempt it goes to the dead letters. Handlers of one queue run concurrently;
the committed offset is the lowest unfinished one. With ``ordered=True`` a queue has one message in hand at a time.

``pause`` and ``resume`` stop and start delivery while the queues stay assigned to this member; a
``RebalanceListener`` is called when queues are assigned and revoked; a ``deserializer`` turns a body into
``message.value``.

Java: ``DefaultMQPushConsumer``.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any, Final, Unpack, overload

from firearrow.client.consumer.division.strategies import Strategy
from firearrow.client.consumer.group_consumer import GroupConsumer
from firearrow.client.consumer.group_member import GroupMember
from firearrow.client.consumer.message import ReceivedMessage
from firearrow.client.consumer.queue.acceptance import Accept, Acceptance
from firearrow.client.consumer.queue.handler_call import (
    Handler,
    as_coroutine,
    handle_batch,
    handle_one,
    holder_of,
)
from firearrow.client.consumer.queue.rebalance_listener import RebalanceListener
from firearrow.client.consumer.settings import ConsumerOptions, ConsumerSettings, consumer_settings
from firearrow.client.consumer.stalls import Stall
from firearrow.client.consumer.subscription import Topics
from firearrow.client.doors import Doors
from firearrow.client.name_servers import name_server_source
from firearrow.client.settings import with_options
from firearrow.protocol.bodies.group.heartbeat import ConsumeType
from firearrow.runtime.threads import Threads
from firearrow.serializers import Deserializer, V

CANCEL_S: Final = 1.0
"""Seconds that a close waits for cancelled handlers."""


class Consumer(GroupConsumer[V]):
    """Receives messages. Use it in an ``async with`` block.

    ``topics`` are its subscriptions: one topic, several, or topics with expressions (``{"orders": "new || changed"}``).
    ``deserializer`` turns a body into ``message.value``, ``rebalance_listener`` is called when queues are assigned and
    revoked, ``strategy`` divides queues among the members. ``accept``, a function or coroutine function, rejects a
    message by returning False: it is acknowledged and counted, and no handler gets it; if ``accept`` raises, the
    message is delivered again later, as if a handler had failed.
    """

    @overload
    def __init__(
        self: "Consumer[bytes]",
        name_servers: str | Sequence[str],
        *,
        group: str,
        topics: Topics = (),
        strategy: Strategy | str = "AVG",
        accept: Accept[bytes] | None = None,
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
        accept: Accept[V] | None = None,
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
        accept: Accept[Any] | None = None,
        deserializer: Deserializer[Any] | None = None,
        rebalance_listener: RebalanceListener | None = None,
        doors: Doors | None = None,
        **options: Unpack[ConsumerOptions],
    ) -> None:
        self.settings: Final[ConsumerSettings] = consumer_settings(group, options)
        self._member = GroupMember(
            name_server_source(name_servers),
            self.settings,
            topics=topics,
            strategy=strategy,
            consume_type=ConsumeType.CONSUME_PASSIVELY,
            accept=accept,
            deserializer=deserializer,
            rebalance_listener=rebalance_listener,
            doors=doors,
        )
        self._threads: list[Threads] = []
        self._working: set[asyncio.Task[None]] = set()

    def stop(self) -> None:
        """Stop delivery; ``run`` returns when its handlers have finished their messages."""
        self._member.receiver.outlet.ready.close()

    async def close(self) -> None:
        """Commit, leave the group, close connections. Unsettled messages are delivered again to other members.

        Coroutines of handlers that have not ended by then are cancelled, and ``run`` returns.
        """
        try:
            await super().close()
        finally:
            threads, self._threads = self._threads, []
            for pool in threads:
                pool.close()
            # A handler may close its own consumer: it goes on.
            working = [task for task in self._working if task is not asyncio.current_task()]
            for task in working:
                task.cancel()
        if working:
            await asyncio.wait(working, timeout=CANCEL_S)

    @property
    def failures(self) -> int:
        """The number of failed deliveries."""
        return self._member.parts.receiver.settlement.failures

    def stalls(self) -> list[Stall]:
        """Return the queues that have messages but made no progress for ``stall_ms``, each with the reason."""
        return self._member.stalls()

    async def commit(self) -> None:
        """Commit all offsets now instead of every ``persist_ms``; raise the error if a broker could not be reached."""
        error = await self._member.receiver.persist()
        if error is not None:
            raise error

    async def __anext__(self) -> ReceivedMessage[V]:
        """Return the next message; several tasks get others. Settle it by ``process()``, ``ack()`` or ``retry()``."""
        taken = await self._member.receiver.acceptance.take(holder_of(None))
        if not taken:
            raise StopAsyncIteration
        return taken[0]

    async def run(self, handler: Handler[ReceivedMessage[V]], *, workers: int | None = None) -> None:
        """Call ``handler`` with every message, ``workers`` at once, until the consumer is stopped or this is cancelled.

        A coroutine function runs on the loop, any other function in a thread; if it returns an awaitable, that is
        awaited.
        """
        call, holder = as_coroutine(handler, partial(self._pool, workers)), holder_of(handler)
        self._member.handled_by(call)
        try:
            await self._work(partial(_handle_one, self._member.receiver.acceptance, call, holder), workers)
        finally:
            self._member.handled_by(None)

    async def run_batches(
        self, handler: Handler[list[ReceivedMessage[V]]], *, size: int = 32, workers: int | None = None
    ) -> None:
        """Like ``run``, with up to ``size`` messages of one queue in a call, which succeed or fail together."""
        call, holder = as_coroutine(handler, partial(self._pool, workers)), holder_of(handler)
        await self._work(partial(_handle_some, self._member.receiver.acceptance, call, holder, size), workers)

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
            self._working.update(tasks)
            try:
                await asyncio.wait(tasks)
            finally:
                self._working.difference_update(tasks)
                is_over = True  # a handler may answer its cancellation with another error, or with none


async def _handle_one(
    acceptance: Acceptance, call: Callable[[ReceivedMessage[Any]], Awaitable[object]], holder: str
) -> bool:
    message = acceptance.take_now(holder) or await acceptance.take_one(holder)
    if message is None:
        return False
    await handle_one(call, message)
    return True


async def _handle_some(
    acceptance: Acceptance, call: Callable[[list[ReceivedMessage[Any]]], Awaitable[object]], holder: str, size: int
) -> bool:
    taken = await acceptance.take(holder, size)
    if taken:
        await handle_batch(call, taken)
    return bool(taken)


Consumer.__doc__ = with_options(Consumer.__doc__, ConsumerSettings, but=("group",))
