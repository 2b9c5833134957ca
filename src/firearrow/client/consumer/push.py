"""The consumer: a member of a group that gets messages as they come.

    async with Consumer("127.0.0.1:9876", group="shop", topics={"orders": "new || changed"}) as consumer:
        await consumer.run(handle)                      # a function, until the consumer is stopped

        async for message in consumer:                  # or message by message, from any number of tasks
            async with message.process():
                ...

Returning from the handler, or leaving the block, acknowledges; raising has the message delivered again later, and after
the last attempt puts it with the dead letters. Handlers of one queue run side by side; the offset that is committed is
the lowest one unfinished. With ``ordered=True`` a queue has one message in hand at a time.

Java: ``DefaultMQPushConsumerImpl``.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from types import TracebackType
from typing import Final, Self, Unpack

from firearrow.client.consumer.assignment import Strategy, strategy_named
from firearrow.client.consumer.flow import Flow, Stall, why_stuck
from firearrow.client.consumer.handling import Handler, as_coroutine, handle_batch, holder_of
from firearrow.client.consumer.membership import Membership
from firearrow.client.consumer.message import ReceivedMessage
from firearrow.client.consumer.offsets import BrokerOffsets, LocalOffsets, Offsets
from firearrow.client.consumer.ordering import RENEW_S
from firearrow.client.consumer.pulling import Puller
from firearrow.client.consumer.receiving import Filter, Receiver
from firearrow.client.consumer.requests import BrokerRequests
from firearrow.client.consumer.settings import FIRST, LAST, ConsumerOptions, ConsumerSettings, consumer_settings
from firearrow.client.consumer.subscription import EVERYTHING, TAG, Subscription, subscription
from firearrow.client.doors import Doors, system_doors
from firearrow.client.instance import Instance, Rhythm, client_id
from firearrow.client.nameservers import parse_name_servers
from firearrow.client.routes import Route
from firearrow.errors import ClientClosed
from firearrow.model import MessageQueue
from firearrow.model.names import retry_topic
from firearrow.protocol.bodies.heartbeat import (
    ConsumeFromWhere,
    ConsumerData,
    ConsumeType,
    HeartbeatData,
    MessageModel,
)
from firearrow.runtime.threads import Threads
from firearrow.runtime.tlssettings import client_context

log: Final = logging.getLogger(__name__)

UNSETTLED_S: Final = 1.0
"""How soon queues are divided again when that did not work for all topics."""
MIN_REBALANCE_S: Final = 0.1

Topics = str | Sequence[str] | Mapping[str, str]
"""A topic, several, or topics with their expressions."""


class Consumer:
    """Receives messages. Use it in an ``async with`` block."""

    def __init__(
        self,
        name_servers: str | Sequence[str],
        *,
        group: str,
        topics: Topics = (),
        strategy: Strategy | str = "AVG",
        wanted: Filter | None = None,
        doors: Doors | None = None,
        **options: Unpack[ConsumerOptions],
    ) -> None:
        self.settings: Final[ConsumerSettings] = consumer_settings(group, options)
        self._addresses = parse_name_servers(name_servers)
        self._strategy = strategy_named(strategy) if isinstance(strategy, str) else strategy
        self._wanted = wanted
        self._given_doors = doors
        self._topics = _expressions(topics)
        self._subscriptions: dict[str, Subscription] = {}
        self._parts: tuple[Instance, Receiver, Membership] | None = None
        self._threads: Threads | None = None
        self._divide = asyncio.Event()

    async def __aenter__(self) -> Self:
        """Open it."""
        await self.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close it."""
        await self.close()

    # -- beginning and end

    async def open(self) -> None:
        """Join the group."""
        if self._parts is not None:
            raise ClientClosed("the consumer is open already")
        settings, doors = self.settings, self._given_doors or system_doors()
        for topic, expression in self._topics.items():
            self._subscriptions[topic] = subscription(topic, expression, version=doors.clock.now_ms())
        if not settings.broadcasting:
            again = retry_topic(settings.group)
            self._subscriptions[again] = subscription(again, EVERYTHING, version=doors.clock.now_ms())
        loop = asyncio.get_running_loop()
        requests = BrokerRequests(
            settings,
            self._subscriptions,
            self._divide.set,
            lambda at: doors.clock.now_ms() - int((loop.time() - at) * 1000) if at else 0,
        )
        identity = client_id(doors, settings.instance_name, is_stable=settings.broadcasting)
        instance = Instance(
            self._addresses,
            identity,
            doors,
            lambda: self._heartbeat(identity),
            rhythm=Rhythm(settings.poll_name_server_ms, settings.heartbeat_ms),
            handlers=requests.handlers,
            tls=client_context(settings.tls) if settings.tls.enabled else None,
            on_route_change=self._route_changed,
        )
        receiver = Receiver(instance, settings, self._offsets(instance), self._subscriptions, self._wanted)
        requests.receiver = receiver
        membership = Membership(instance, settings.group, self._strategy, broadcasting=settings.broadcasting)
        self._parts = instance, receiver, membership
        instance.open()
        for work, name in (
            (self._divide_on(), "rebalance"),
            (self._persist_on(), "offsets"),
            (self._watch_on(), "watch"),
        ):
            instance.tasks.spawn(work, name)
        if receiver.needs_locks:
            instance.tasks.spawn(self._renew_on(), "locks")

    def _offsets(self, instance: Instance) -> Offsets:
        group = self.settings.group
        if self.settings.broadcasting:
            return LocalOffsets(instance.doors.offsets_disk(), instance.id, group)
        return BrokerOffsets(instance, Puller(instance, group), group)

    def stop(self) -> None:
        """Hand out nothing more; ``run`` returns when its handlers have finished what they have."""
        self._opened()[1].ready.close()

    async def close(self) -> None:
        """Commit, leave the group, end every connection. Messages that are not settled come again elsewhere."""
        parts, self._parts = self._parts, None
        if parts is None:
            return
        instance, receiver, _ = parts
        await receiver.close()
        await instance.close(consumer_group=self.settings.group)
        if self._threads is not None:
            self._threads.close()

    def _opened(self) -> tuple[Instance, Receiver, Membership]:
        if self._parts is None:
            raise ClientClosed("the consumer is not open; use it inside an async with block")
        return self._parts

    @property
    def client_id(self) -> str:
        """How brokers and the other members know this consumer."""
        return self._opened()[0].id

    # -- what is subscribed

    async def subscribe(self, topic: str, expression: str = EVERYTHING, *, kind: str = TAG) -> None:
        """Want a topic from now on, or want something else of it."""
        instance = self._opened()[0]
        self._subscriptions[topic] = subscription(topic, expression, version=instance.doors.clock.now_ms(), kind=kind)
        await self._subscriptions_changed(instance)

    async def unsubscribe(self, topic: str) -> None:
        """Want nothing more of a topic."""
        instance = self._opened()[0]
        self._subscriptions.pop(topic, None)
        await self._subscriptions_changed(instance)

    async def _subscriptions_changed(self, instance: Instance) -> None:
        await instance.beat()
        self._divide.set()

    def _heartbeat(self, identity: str) -> HeartbeatData:
        settings = self.settings
        starts = {
            FIRST: ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET,
            LAST: ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET,
        }
        mine = ConsumerData(
            group_name=settings.group,
            consume_type=ConsumeType.CONSUME_PASSIVELY.value,
            message_model=(MessageModel.BROADCASTING if settings.broadcasting else MessageModel.CLUSTERING).value,
            consume_from_where=starts.get(str(settings.start), ConsumeFromWhere.CONSUME_FROM_TIMESTAMP).value,
            subscription_data_set=[each.data() for each in self._subscriptions.values()],
        )
        return HeartbeatData(client_id=identity, consumer_data_set=[mine])

    # -- who reads what

    def _route_changed(self, _route: Route) -> None:
        self._divide.set()

    async def _divide_on(self) -> None:
        instance, _, _ = self._opened()
        for topic in list(self._subscriptions):
            instance.want(topic)
        is_first = True
        while True:
            self._divide.clear()
            is_settled = await self._divide_once(is_first=is_first)
            is_first = False
            pause_s = self.settings.rebalance_ms / 1000
            try:
                async with asyncio.timeout(pause_s if is_settled else min(pause_s, UNSETTLED_S)):
                    await self._divide.wait()
            except TimeoutError:
                continue
            await asyncio.sleep(MIN_REBALANCE_S)  # several notices at once make one division

    async def _divide_once(self, *, is_first: bool) -> bool:
        instance, receiver, membership = self._opened()
        known = instance.routes.topics()
        division = await membership.divide(self._subscriptions)
        if is_first or known != instance.routes.topics():
            # Brokers that were not known before have not heard of this member: tell them, then ask again.
            await instance.beat()
            division = await membership.divide(self._subscriptions)
        for topic, queues in division.queues.items():
            receiver.assign(topic, queues)
        for topic in {queue.topic: None for queue in receiver.flows}:
            if topic not in self._subscriptions:
                receiver.assign(topic, ())
        return division.is_settled

    # -- regular work

    async def _persist_on(self) -> None:
        _, receiver, _ = self._opened()
        while True:
            await asyncio.sleep(self.settings.persist_ms / 1000)
            await receiver.persist()

    async def _renew_on(self) -> None:
        _, receiver, _ = self._opened()
        while True:
            await asyncio.sleep(RENEW_S)
            await receiver.renew_locks()

    async def _watch_on(self) -> None:
        told: dict[MessageQueue, int] = {}
        while True:
            await asyncio.sleep(self.settings.stall_ms / 4000)
            for stall in self.stalls():
                if told.get(stall.queue) != stall.offset:
                    told[stall.queue] = stall.offset
                    extra = {"queue": str(stall.queue), "offset": stall.offset, "reason": stall.reason}
                    log.warning("a queue does not move", extra=extra)
            await self._take_from_the_slow()

    async def _take_from_the_slow(self) -> None:
        """Send messages back whose handlers take longer than they may."""
        _, receiver, _ = self._opened()
        now, limit_s = asyncio.get_running_loop().time(), self.settings.consume_timeout_ms / 1000
        if self.settings.ordered:
            return
        for flow in list(receiver.flows.values()):
            for message in list(flow.handed.values()):
                if message.handed_at is not None and now - message.handed_at > limit_s:
                    log.error("a handler took too long", extra={"id": message.message_id, "holder": message.holder})
                    await message.retry(3)

    def stalls(self) -> list[Stall]:
        """The queues that have not moved for ``stall_ms`` although they should, each with the reason."""
        _, receiver, _ = self._opened()
        now = asyncio.get_running_loop().time()
        found = []
        for flow in receiver.flows.values():
            flow.note_movement(now)
            if flow.is_behind and now - flow.moved_at > self.settings.stall_ms / 1000:
                reason = why_stuck(flow, now, busy_workers=_busy(receiver.flows))
                found.append(Stall(flow.queue, flow.window.committable, now - flow.moved_at, reason))
        return found

    # -- messages

    @property
    def assignment(self) -> list[MessageQueue]:
        """The queues of this member now."""
        return sorted(self._opened()[1].flows)

    @property
    def failures(self) -> int:
        """How many deliveries failed."""
        return self._opened()[1].failures

    async def commit(self) -> None:
        """Commit now how far every queue is, instead of every ``persist_ms``."""
        await self._opened()[1].persist()

    def __aiter__(self) -> AsyncIterator[ReceivedMessage]:
        """Message by message; several tasks may iterate at once, each gets others."""
        return self

    async def __anext__(self) -> ReceivedMessage:
        """The next message. It must be settled: by ``process()``, ``ack()`` or ``retry()``."""
        taken = await self._opened()[1].take(holder_of(None))
        if not taken:
            raise StopAsyncIteration
        return taken[0]

    async def run(self, handler: Handler[ReceivedMessage], *, workers: int | None = None) -> None:
        """Call ``handler`` with every message, ``workers`` at once, until the consumer is stopped or this is cancelled.

        A coroutine function runs on the loop, any other in a thread.
        """
        call = as_coroutine(handler, self._pool)
        await self._work(lambda: self._handle_one(call, holder_of(handler)), workers)

    async def run_batches(
        self, handler: Handler[list[ReceivedMessage]], *, size: int = 32, workers: int | None = None
    ) -> None:
        """The same with up to ``size`` messages of one queue at a time, which succeed or fail together."""
        call = as_coroutine(handler, self._pool)
        await self._work(lambda: self._handle_some(call, holder_of(handler), size), workers)

    def _pool(self) -> Threads:
        if self._threads is None:
            self._threads = Threads(self.settings.workers, self.settings.group)
        return self._threads

    async def _work(self, step: Callable[[], Awaitable[bool]], workers: int | None) -> None:
        async def work() -> None:
            while await step():
                pass

        async with asyncio.TaskGroup() as group:
            for _ in range(workers or self.settings.workers):
                group.create_task(work())

    async def _handle_one(self, call: Callable[[ReceivedMessage], Awaitable[object]], holder: str) -> bool:
        taken = await self._opened()[1].take(holder)
        for message in taken:
            async with message.process():
                await call(message)
        return bool(taken)

    async def _handle_some(
        self, call: Callable[[list[ReceivedMessage]], Awaitable[object]], holder: str, size: int
    ) -> bool:
        taken = await self._opened()[1].take(holder, size)
        if taken:
            await handle_batch(call, taken)
        return bool(taken)


def _expressions(topics: Topics) -> dict[str, str]:
    if isinstance(topics, str):
        return {topics: EVERYTHING}
    if isinstance(topics, Mapping):
        return dict(topics)
    return dict.fromkeys(topics, EVERYTHING)


def _busy(flows: Mapping[MessageQueue, Flow]) -> str:
    held = [message for flow in flows.values() for message in flow.handed.values() if message.handed_at is not None]
    if not held:
        return "nobody takes messages; call run, or iterate"
    holders = sorted({message.holder for message in held})
    return f"{len(held)} messages are in the hands of {', '.join(holders)}"
