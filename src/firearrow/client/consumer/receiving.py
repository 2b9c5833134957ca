"""From assigned queues to messages that wait for a handler, and back from handlers to offsets.

Each queue has one task. It finds out where to start (and, for ordered consumption, gets the lock), then pulls again and
again: while there is room, with a long poll at the broker, sooner after an error that may pass than after one that will
not. What was pulled and is wanted goes to ``ready``; what handlers finish frees room and moves the offset.

A message that failed is sent back to its broker, which delivers it again later. Where that does not work it stays here
and is tried again, so it is never skipped. Java: ``DefaultMQPushConsumerImpl.pullMessage``,
``ConsumeMessageConcurrentlyService``, ``ConsumeMessageOrderlyService``, ``RebalancePushImpl``.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import Final

from firearrow.client.consumer.flow import Flow
from firearrow.client.consumer.membership import is_hopeless
from firearrow.client.consumer.message import ReceivedMessage
from firearrow.client.consumer.offsets import Offsets
from firearrow.client.consumer.ordering import TRUST_S, QueueLocks
from firearrow.client.consumer.pulling import PulledBytes, Puller, PullOrder, PullStatus
from firearrow.client.consumer.ready import Ready
from firearrow.client.consumer.settings import DEFAULT_TIMESTAMP_AGO_MS, FIRST, LAST, ConsumerSettings
from firearrow.client.consumer.subscription import EVERYTHING, Subscription
from firearrow.client.instance import Instance
from firearrow.errors import FireArrowError, RequestRefused
from firearrow.model import MessageQueue, StoredMessage
from firearrow.model.names import is_retry_topic
from firearrow.protocol.codes import ResponseCode
from firearrow.protocol.requests.send import ConsumerSendMsgBack
from firearrow.runtime.network import Address

log: Final = logging.getLogger(__name__)

AFTER_REFUSAL_S: Final = 3.0
BUSY_S: Final = 0.02
FIRST_BACKOFF_S: Final = 0.1
LONGEST_BACKOFF_S: Final = 1.0
EMPTY_PAUSE_S: Final = 0.1
"""Before the next pull when a broker answered at once that there is nothing, instead of holding the pull."""
AGAIN_S: Final = 5.0
"""Before a message that could not be sent back is handled here again."""
LEAVING_S: Final = 60.0
"""How long an ordered queue that goes to another member waits for its handler."""

Filter = Callable[[ReceivedMessage], bool]


class Receiver:
    """The queues of one member. It is the settler of their messages."""

    def __init__(
        self,
        instance: Instance,
        settings: ConsumerSettings,
        offsets: Offsets,
        subscriptions: Mapping[str, Subscription],
        wanted: Filter | None = None,
    ) -> None:
        self._instance = instance
        self._settings = settings
        self.puller: Final = Puller(instance, settings.group)
        self.offsets: Final = offsets
        self.locks: Final = QueueLocks(instance, settings.group)
        self.ready: Final = Ready()
        self.flows: Final[dict[MessageQueue, Flow]] = {}
        self._subscriptions = subscriptions
        self._wanted = wanted
        self._leaving: dict[MessageQueue, asyncio.Task[None]] = {}
        self._departing: dict[MessageQueue, Flow] = {}
        self._opened_ms = instance.doors.clock.now_ms()
        self.needs_locks: Final = settings.ordered and not settings.broadcasting
        self.failures = 0
        """Messages whose handler failed."""

    def _now(self) -> float:
        return asyncio.get_running_loop().time()

    # -- queues come and go

    def assign(self, topic: str, queues: Iterable[MessageQueue]) -> bool:
        """Own exactly these queues of a topic; return whether that changed anything."""
        mine = sorted(queues)
        changed = False
        for queue in [queue for queue in self.flows if queue.topic == topic and queue not in mine]:
            self._revoke(queue)
            changed = True
        for queue in mine:
            if queue not in self.flows:
                flow = self.flows[queue] = Flow(queue, ordered=self._settings.ordered)
                flow.moved_at = self._now()
                flow.locked_until = 0.0 if self.needs_locks else float("inf")
                self._start(flow)
                changed = True
        return changed

    def _start(self, flow: Flow) -> None:
        queue = flow.queue
        name = f"{queue.topic} {queue.broker_name}:{queue.queue_id}"
        flow.task = self._instance.tasks.spawn(self._run(flow), name)

    def _revoke(self, queue: MessageQueue) -> None:
        flow = self.flows.pop(queue)
        leaving = self._instance.tasks.spawn(self._leave(flow), f"leave {queue}")
        self._leaving[queue], self._departing[queue] = leaving, flow
        leaving.add_done_callback(lambda _: self._has_left(queue))

    def _has_left(self, queue: MessageQueue) -> None:
        self._leaving.pop(queue, None)
        self._departing.pop(queue, None)

    async def _leave(self, flow: Flow) -> None:
        """Give a queue up: let an ordered handler finish, commit, unlock."""
        flow.is_leaving = True
        if flow.task is not None:
            flow.task.cancel()
        if flow.ordered and any(message.handed_at is not None for message in flow.handed.values()):
            with suppress(TimeoutError):
                async with asyncio.timeout(LEAVING_S):
                    await flow.idle.wait()
        if self._settings.auto_commit:
            self._note(flow)
        flow.drop()
        if self._settings.auto_commit:
            await self.offsets.persist()
        self.offsets.table.forget(flow.queue)
        if self.needs_locks and flow.is_started:
            await self.locks.unlock([flow.queue])

    async def close(self) -> None:
        """Give every queue up. Handlers that still run change nothing any more."""
        self.ready.close()
        flows = list(self.flows.values())
        for flow in flows:
            flow.is_leaving = True
            if flow.task is not None:
                flow.task.cancel()
        if self._leaving:
            await asyncio.wait(list(self._leaving.values()), timeout=LEAVING_S)
        if self._settings.auto_commit:
            await self.persist()
        for flow in flows:
            flow.drop()
        if self.needs_locks:
            await self.locks.unlock(flow.queue for flow in flows if flow.is_started)

    # -- offsets

    def _note(self, flow: Flow) -> None:
        if flow.is_started and not flow.window.is_dropped:
            self.offsets.table.note(flow.queue, flow.window.committable)

    async def persist(self) -> None:
        """Commit how far every queue is."""
        for flow in self.flows.values():
            self._note(flow)
        await self.offsets.persist()

    def reset(self, queue: MessageQueue, offset: int) -> bool:
        """Go on from another offset; return False when the queue is not this member's."""
        flow = self.flows.get(queue)
        if flow is None:
            return False
        self._move(flow, offset)
        if flow.task is not None:
            flow.task.cancel()  # it may wait at the broker for what comes after the old offset
        self._start(flow)
        return True

    def _move(self, flow: Flow, offset: int) -> None:
        flow.restart(offset, self._now())
        self.offsets.table.note(flow.queue, offset, is_reset=True)

    # -- pulling

    async def _run(self, flow: Flow) -> None:
        leaving = self._leaving.get(flow.queue)
        if leaving is not None:
            await asyncio.wait([leaving])
        await self._begin(flow)
        pauses = 0
        while True:
            await self._room(flow)
            asked_at, window = self._now(), flow.window
            flow.last_pull_at = asked_at
            try:
                pulled = await self.puller.pull(self._order(flow))
                messages = pulled.messages()
            except FireArrowError as error:
                pauses += 1
                flow.error = str(error)
                await asyncio.sleep(await self._pause_after(flow, error, pauses))
                continue
            flow.error, pauses = "", 0
            if flow.window is window:  # else it was reset meanwhile, and this answer is to an old question
                self._take_in(flow, pulled, messages)
            if self._settings.pull_interval_ms:
                await asyncio.sleep(self._settings.pull_interval_ms / 1000)
            elif pulled.status is PullStatus.NOTHING_NEW and self._now() - asked_at < EMPTY_PAUSE_S:
                await asyncio.sleep(EMPTY_PAUSE_S)

    async def _begin(self, flow: Flow) -> None:
        pauses = 0
        while not flow.is_started:
            try:
                if self.needs_locks and not await self._locked(flow):
                    flow.error = "another member holds its lock"
                    await asyncio.sleep(LONGEST_BACKOFF_S)
                    continue
                offset = await self._start_offset(flow.queue)
            except FireArrowError as error:
                pauses += 1
                flow.error = str(error)
                await asyncio.sleep(await self._pause_after(flow, error, pauses))
            else:
                flow.error = ""
                flow.restart(offset, self._now())

    async def _locked(self, flow: Flow) -> bool:
        asked_at = self._now()
        if flow.queue not in await self.locks.lock([flow.queue]):
            return False
        flow.locked_until = asked_at + TRUST_S
        return True

    async def renew_locks(self) -> None:
        """Renew the locks of all queues; a queue that is locked again goes on where its group is."""
        asked_at = self._now()
        flows = [flow for flow in self.flows.values() if flow.is_started]
        ours = await self.locks.lock(flow.queue for flow in flows)
        for flow in flows:
            if flow.queue not in ours or flow.is_leaving:
                continue
            if self._now() >= flow.locked_until:  # somebody else may have read on meanwhile
                await self._resume(flow)
            flow.locked_until = asked_at + TRUST_S
            self._offer(flow)

    async def _resume(self, flow: Flow) -> None:
        try:
            stored = await self.offsets.read(flow.queue)
        except FireArrowError as error:
            flow.error = str(error)
            return
        if stored is not None:
            flow.restart(stored, self._now())

    async def _start_offset(self, queue: MessageQueue) -> int:
        stored = await self.offsets.read(queue)
        if stored is not None and stored >= 0:
            return stored
        start, is_retry = self._settings.start, is_retry_topic(queue.topic)
        if start == LAST:
            return 0 if is_retry else await self.puller.max_offset(queue)
        if start == FIRST:
            return await self.puller.min_offset(queue)
        if is_retry:
            return await self.puller.max_offset(queue)
        when = start if isinstance(start, int) else self._opened_ms - DEFAULT_TIMESTAMP_AGO_MS
        return await self.puller.offset_at(queue, when)

    async def _room(self, flow: Flow) -> None:
        while (full := flow.window.fullness(self._settings.window, ordered=flow.ordered)) is not None:
            flow.full = full
            flow.room.clear()
            await flow.room.wait()
        flow.full = ""

    def _order(self, flow: Flow) -> PullOrder:
        settings = self._settings
        return PullOrder(
            flow.queue,
            flow.window.next_offset,
            self._subscriptions.get(flow.queue.topic) or Subscription(flow.queue.topic, EVERYTHING),
            settings.pull_batch,
            settings.pull_batch_bytes,
            settings.suspend_pull_ms,
            settings.pull_timeout_ms,
            self._to_commit(flow),
            flow.broker_id,
        )

    def _to_commit(self, flow: Flow) -> int | None:
        if not self._settings.auto_commit or self._settings.broadcasting:
            return None
        self._note(flow)
        return self.offsets.table.get(flow.queue)

    async def _pause_after(self, flow: Flow, error: FireArrowError, count: int) -> float:
        log.info("a pull failed", extra={"queue": str(flow.queue), "reason": str(error)})
        if isinstance(error, RequestRefused):
            if error.code == ResponseCode.SUBSCRIPTION_NOT_EXIST:
                await self._instance.beat()
                return LONGEST_BACKOFF_S
            return AFTER_REFUSAL_S if is_hopeless(error) else BUSY_S
        self._instance.hurry()
        flow.broker_id = 0
        return min(FIRST_BACKOFF_S * count, LONGEST_BACKOFF_S)

    def _take_in(self, flow: Flow, pulled: PulledBytes, messages: list[StoredMessage]) -> None:
        flow.broker_id, flow.max_offset = pulled.suggested_broker_id, pulled.max_offset
        if pulled.status is PullStatus.OFFSET_MOVED:
            log.warning(
                "a queue goes on elsewhere",
                extra={"queue": str(flow.queue), "was": flow.window.next_offset, "now": pulled.next_offset},
            )
            self._move(flow, pulled.next_offset)
            return
        subscription = self._subscriptions.get(flow.queue.topic)
        if subscription is not None and subscription.tags:
            messages = [message for message in messages if subscription.wants(message.tag)]
        fresh = flow.window.extend(messages, pulled.next_offset)
        self._hand_on(flow, [ReceivedMessage(stored, flow.queue, flow.window, self) for stored in fresh])

    def _hand_on(self, flow: Flow, messages: list[ReceivedMessage]) -> None:
        if self._wanted is not None:
            for message in messages:
                if not self._wanted(message):
                    flow.window.finish(message.queue_offset)
            messages = [message for message in messages if message.queue_offset in flow.window]
        if flow.ordered:
            flow.waiting.extend(messages)
            self._offer(flow)
        else:
            self.ready.put(messages)

    # -- handing out

    def _offer(self, flow: Flow) -> None:
        """Ordered: let the next message be handled, if it may."""
        if flow.may_hand_out(self._now()):
            message = flow.waiting.popleft()
            flow.handed[message.queue_offset] = message
            flow.idle.clear()
            self.ready.put([message])

    async def take(self, holder: str, count: int = 1) -> list[ReceivedMessage]:
        """The next messages of one queue, one at least; none once the consumer is closing."""
        first = await self.ready.take()
        if first is None:
            return []
        flow = self.flows.get(first.queue)
        taken = [first]
        if count > 1 and flow is not None and flow.ordered:
            taken += [flow.waiting.popleft() for _ in range(min(count - 1, len(flow.waiting)))]
        elif count > 1:
            taken += self.ready.take_like(first, count - 1)
        if flow is not None:
            now = self._now()
            for message in taken:
                flow.hand(message, holder, now)
        return taken

    # -- settling

    def _flow_of(self, message: ReceivedMessage) -> Flow | None:
        """The queue of a message, unless it is somebody else's by now. An ordered queue counts until it has left."""
        for flows in (self.flows, self._departing):
            flow = flows.get(message.queue)
            if flow is not None and flow.window is message.window:
                return flow
        return None

    def ack(self, message: ReceivedMessage) -> None:
        """A message is done with."""
        flow = self._flow_of(message)
        if flow is not None and flow.finish(message, self._now()) and flow.ordered:
            self._offer(flow)

    def release(self, message: ReceivedMessage) -> None:
        """A message goes back to those that wait."""
        flow = self._flow_of(message)
        if flow is None or not flow.take_back(message):
            return
        again = ReceivedMessage(message.stored, message.queue, message.window, self)
        again.attempts = message.attempts
        if flow.ordered:
            before = sum(other.queue_offset < again.queue_offset for other in flow.waiting)
            flow.waiting.insert(before, again)
            self._offer(flow)
        else:
            self.ready.put_back(again)

    async def retry(self, message: ReceivedMessage, delay_level: int) -> None:
        """A message is to be delivered again."""
        self.failures += 1
        flow = self._flow_of(message)
        if flow is None or message.window.is_dropped:
            return  # whoever owns the queue now gets it
        if self._settings.broadcasting:
            log.error("a broadcast message is given up", extra={"id": message.message_id, "queue": str(message.queue)})
            self.ack(message)
        elif flow.ordered and delay_level >= 0 and not self._is_beyond_limit(message):
            message.attempts += 1
            self._again(message, self._settings.suspend_ms / 1000)
        elif await self._sent_back(message, -1 if flow.ordered else delay_level):
            self.ack(message)
        else:
            message.attempts += 1
            self._again(message, AGAIN_S)

    def _is_beyond_limit(self, message: ReceivedMessage) -> bool:
        limit = self._settings.max_reconsume_times
        return limit >= 0 and message.reconsume_times >= limit

    def _again(self, message: ReceivedMessage, after_s: float) -> None:
        self._instance.tasks.spawn(self._release_later(message, after_s), f"again {message.message_id}")

    async def _release_later(self, message: ReceivedMessage, after_s: float) -> None:
        await asyncio.sleep(after_s)
        self.release(message)

    async def _sent_back(self, message: ReceivedMessage, delay_level: int) -> bool:
        stored = message.stored
        host = Address(stored.store_host.ip, stored.store_host.port)
        request = ConsumerSendMsgBack(
            offset=stored.physical_offset,
            group=self._settings.group,
            delay_level=delay_level,
            origin_msg_id=message.message_id,
            origin_topic=stored.topic,
            max_reconsume_times=self._settings.reconsume_limit,
        )
        try:
            await self._instance.caller.call(self._instance.routes.master(message.queue.broker_name) or host, request)
        except FireArrowError as error:
            extra = {"id": message.message_id, "queue": str(message.queue), "reason": str(error)}
            log.warning("a message could not be sent back, it is tried again here", extra=extra)
            return False
        return True
