"""From assigned queues to messages that wait for a handler, and back from handlers to offsets.

Each queue has one task (`reading`). What it pulled and is wanted goes to ``ready``; what handlers finish frees room and
moves the offset. A message that failed is sent back (`returning`), and a broker delivers it again later; where that
does not work it stays here and is tried again, so it is never skipped.

Java: ``ConsumeMessageConcurrentlyService``, ``ConsumeMessageOrderlyService``, ``RebalancePushImpl``.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import Any, Final

from firearrow.client.consumer.departure import Departures, tell_of_departure
from firearrow.client.consumer.flow import Flow
from firearrow.client.consumer.handling import Filter, is_wanted
from firearrow.client.consumer.message import ReceivedMessage
from firearrow.client.consumer.offsets import Offsets
from firearrow.client.consumer.ordering import TRUST_S, QueueLocks
from firearrow.client.consumer.pausing import Pausable, Pauses
from firearrow.client.consumer.pulling import PulledBytes, Puller, PullStatus
from firearrow.client.consumer.reading import Reader
from firearrow.client.consumer.ready import Ready, goes_with
from firearrow.client.consumer.rebalance import Announcer
from firearrow.client.consumer.returning import TO_DEAD_LETTERS, Returns
from firearrow.client.consumer.settings import ConsumerSettings
from firearrow.client.consumer.subscription import Subscription
from firearrow.client.instance import Instance
from firearrow.client.misuse import check_loop
from firearrow.errors import FireArrowError
from firearrow.model import MessageQueue, StoredMessage
from firearrow.serializers import Deserializer

log: Final = logging.getLogger(__name__)

AGAIN_S: Final = 5.0
"""Before a message that could not be sent back is handled here again."""
CLOSING_S: Final = 5.0
"""How long closing waits for queues that are being given up: to commit and to unlock."""


class Receiver:
    """The queues of one member. It is the settler of their messages."""

    def __init__(
        self,
        instance: Instance,
        settings: ConsumerSettings,
        puller: Puller,
        offsets: Offsets,
        subscriptions: Mapping[str, Subscription],
        wanted: Filter[Any] | None = None,
        *,
        commits_with_pulls: bool = True,
        deserializer: Deserializer[Any] | None = None,
        announcer: Announcer | None = None,
    ) -> None:
        self._instance = instance
        self._settings = settings
        self._reader = Reader(
            instance, settings, puller, offsets, subscriptions, self._take_in, commits_with_pulls=commits_with_pulls
        )
        self._returns = Returns(instance, settings)
        self._announcer = announcer
        self.deserializer: Final = deserializer
        self.puller: Final = puller
        self.locks: Final[QueueLocks] = self._reader.locks
        self.needs_locks: Final = self._reader.needs_locks
        self.offsets: Final = offsets
        self.ready: Final = Ready()
        self.flows: Final[dict[MessageQueue, Flow]] = {}
        self._subscriptions = subscriptions
        self._wanted = wanted
        self._departures = Departures(
            instance,
            settings,
            self._reader,
            announcer,
            lambda flow: self._withdraw(lambda each: each._window is flow.window),
        )
        self._pauses = Pauses()
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
        came = [self._begun(queue) for queue in mine if queue not in self.flows]
        if came:
            self._announce(came)
            for flow in came:
                self._start(flow)
            changed = True
        if changed and mine:
            limits = self._settings.window_among(len(mine))
            for queue in mine:
                self.flows[queue].limits = limits
                self.flows[queue].room.set()
        return changed

    def _begun(self, queue: MessageQueue) -> Flow:
        flow = self.flows[queue] = Flow(queue, ordered=self._settings.ordered)
        flow.moved_at = self._now()
        flow.locked_until = 0.0 if self.needs_locks else float("inf")
        flow.is_paused = self._pauses.covers(queue)
        return flow

    def _announce(self, flows: list[Flow]) -> None:
        """Tell the application of queues that came, if it wants to hear that."""
        if self._announcer is not None:
            telling = self._instance.tasks.spawn(self._tell(self._announcer, flows), "announce")
            for flow in flows:
                flow.announcement = telling

    async def _tell(self, announcer: Announcer, flows: list[Flow]) -> None:
        for flow in flows:
            await self._departures.over(flow.queue)
        here = [flow for flow in flows if self.flows.get(flow.queue) is flow]
        for flow in here:
            flow.is_announced = True
        if here:
            await announcer.assigned([flow.queue for flow in here])

    def _start(self, flow: Flow) -> None:
        queue = flow.queue
        name = f"{queue.topic} {queue.broker_name}:{queue.queue_id}"
        flow.task = self._instance.tasks.spawn(self._run(flow), name)

    async def _run(self, flow: Flow) -> None:
        await self._departures.over(flow.queue)
        if flow.announcement is not None:
            await asyncio.wait([flow.announcement])
        await self._reader.run(flow)

    def _revoke(self, queue: MessageQueue) -> None:
        flow = self.flows.pop(queue)
        self._pauses.forget(queue)
        if queue in self._departures.flows:  # it waits for the departure of before, and has begun nothing
            flow.drop()
            if flow.task is not None:
                flow.task.cancel()
        else:
            self._departures.begin(flow)

    async def close(self) -> None:
        """Give every queue up. Handlers that still run change nothing any more.

        The lock of an ordered queue whose handler still runs is left to lapse: nobody else begins before that.
        """
        self.ready.close()
        flows = list(self.flows.values())
        for flow in flows:
            flow.is_leaving = True
            if flow.task is not None:
                flow.task.cancel()
        flows += [flow for flow in self._departures.flows.values() if flow.is_handled]
        if self._settings.drain_ms:
            with suppress(TimeoutError):
                async with asyncio.timeout(self._settings.drain_ms / 1000):
                    for flow in flows:
                        await flow.idle.wait()
        await self._departures.close(CLOSING_S)
        if self._settings.auto_commit:
            await self.persist()
        if self._announcer is not None:
            await tell_of_departure(self._announcer, flows)
        for flow in flows:
            flow.drop()
        if self.needs_locks:
            await self.locks.unlock(flow.queue for flow in flows if flow.is_started and not flow.is_handled)

    # -- offsets

    async def persist(self) -> FireArrowError | None:
        """Commit how far every queue is; return why, if that did not work for one.

        A queue that is given up counts while it is locked, or while its application commits by itself: another member
        may be further otherwise.
        """
        for flow in self.flows.values():
            self._reader.note(flow)
        for flow in self._departures.flows.values():
            if flow.ordered or not self._settings.auto_commit:
                self._reader.note(flow)
        return await self.offsets.persist()

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

    # -- locks

    async def renew_locks(self) -> None:
        """Renew the locks of all queues; a queue that is locked again goes on where its group is.

        A queue that is given up keeps its lock while its handler still runs.
        """
        asked_at = self._now()
        flows = [flow for flow in (*self.flows.values(), *self._departures.flows.values()) if flow.is_started]
        ours = await self.locks.lock(flow.queue for flow in flows)
        for flow in flows:
            if flow.queue not in ours or flow.is_leaving:
                continue
            if self._now() >= flow.locked_until:  # somebody else may have read on meanwhile
                if flow.is_handled:
                    continue  # nothing is handed out beside a handler of before; the next renewal looks again
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

    # -- what came

    def _take_in(self, flow: Flow, pulled: PulledBytes, messages: list[StoredMessage]) -> None:
        flow.broker_id, flow.max_offset = pulled.suggested_broker_id, pulled.max_offset
        if pulled.status is PullStatus.OFFSET_MOVED:
            was, now = flow.window.next_offset, pulled.next_offset
            log.warning(
                "%s goes on at offset %d instead of %d: its broker does not have what lies between",
                flow.queue,
                now,
                was,
                extra={"queue": str(flow.queue), "was": was, "now": now},
            )
            self._move(flow, pulled.next_offset)
            return
        subscription = self._subscriptions.get(flow.queue.topic)
        if subscription is not None and subscription.tags:
            messages = [message for message in messages if subscription.wants(message.tag)]
        fresh = flow.window.extend(messages, pulled.next_offset)
        received = [ReceivedMessage(stored, flow.queue, flow.window, self) for stored in fresh]
        for message in received:
            if message.stored.body_fault:
                _warn_of_body(message)
        self._hand_on(flow, received)

    def _hand_on(self, flow: Flow, messages: list[ReceivedMessage[Any]]) -> None:
        if self._wanted is not None:
            for message in messages:
                if not is_wanted(self._wanted, message):
                    flow.window.finish(message.queue_offset)
            messages = [message for message in messages if message.queue_offset in flow.window]
        if flow.ordered:
            flow.waiting.extend(messages)
            self._offer(flow)
        elif self._pauses:
            flow.waiting.extend(messages)
            self._let_go(flow)
        else:
            self.ready.put(messages)

    # -- pauses

    def pause(self, what: Iterable[Pausable]) -> None:
        """Hand nothing over of these topics and queues, or nothing at all; what was pulled waits."""
        self._pauses.say(what, paused=True)
        for flow in self.flows.values():
            flow.is_paused = self._pauses.covers(flow.queue)
        self._withdraw(self._pauses.holds)

    def resume(self, what: Iterable[Pausable]) -> None:
        """Go on with these topics and queues, or with everything."""
        self._pauses.say(what, paused=False)
        for flow in self.flows.values():
            flow.is_paused = self._pauses.covers(flow.queue)
            flow.moved_at = self._now()
            flow.room.set()
            if flow.ordered:
                self._offer(flow)
            else:
                self._let_go(flow)

    def note_movement(self, flow: Flow, now: float) -> None:
        """Look whether a queue has moved; one whose oldest message is paused need not."""
        oldest, first = flow.oldest, flow.waiting[0] if flow.waiting else None
        is_held = (
            oldest is not None
            and first is not None
            and first.queue_offset == oldest.queue_offset
            and self._pauses.holds(first)
        )
        flow.note_movement(now, is_held=is_held)

    def _withdraw(self, unwanted: Callable[[ReceivedMessage[Any]], bool]) -> None:
        """Take messages back that nobody has begun with; they wait in their queues."""
        taken: dict[MessageQueue, list[ReceivedMessage[Any]]] = {}
        for message in self.ready.withdraw(unwanted):
            flow = self._flow_of(message)
            if flow is not None and flow.take_back(message):
                taken.setdefault(flow.queue, []).append(message)
        for queue, messages in taken.items():
            (self.flows.get(queue) or self._departures.flows[queue]).keep(messages)

    def _let_go(self, flow: Flow) -> None:
        """Concurrent: let what waits be handled, unless it is paused."""
        held = [message for message in flow.waiting if self._pauses.holds(message)]
        free = [message for message in flow.waiting if not self._pauses.holds(message)] if held else flow.waiting
        self.ready.put(free)
        flow.waiting = deque(held)

    # -- handing out

    def _offer(self, flow: Flow) -> None:
        """Ordered: let the next message be handled, if it may."""
        if flow.may_hand_out(self._now()) and not self._pauses.holds(flow.waiting[0]):
            message = flow.waiting.popleft()
            flow.handed[message.queue_offset] = message
            flow.idle.clear()
            self.ready.put([message])

    def take_now(self, holder: str) -> ReceivedMessage[Any] | None:
        """The next message, if there is one now and nobody waits for it."""
        message = None if self.ready.takers else self.ready.take_now()
        return None if message is None else self._hand(message, holder)

    async def take_one(self, holder: str) -> ReceivedMessage[Any] | None:
        """The next message; None once the consumer is closing."""
        message = await self.ready.take()
        return None if message is None else self._hand(message, holder)

    def _hand(self, message: ReceivedMessage[Any], holder: str) -> ReceivedMessage[Any]:
        flow = self._flow_of(message)
        if flow is not None:
            flow.hand(message, holder, self._now())
        return message

    async def take(self, holder: str, count: int = 1) -> list[ReceivedMessage[Any]]:
        """The next messages of one queue, one at least; none once the consumer is closing."""
        first = await self.ready.take()
        if first is None:
            return []
        flow = self._flow_of(first)
        taken = [first]
        if count > 1 and flow is not None and flow.ordered:
            while len(taken) < count and flow.waiting and self._may_follow(first, flow.waiting[0]):
                taken.append(flow.waiting.popleft())
        elif count > 1:
            taken += self.ready.take_like(first, count - 1)
        if flow is not None:
            now = self._now()
            for message in taken:
                flow.hand(message, holder, now)
        return taken

    def _may_follow(self, first: ReceivedMessage[Any], other: ReceivedMessage[Any]) -> bool:
        return goes_with(first, other) and not self._pauses.holds(other)

    # -- settling

    def _flow_of(self, message: ReceivedMessage[Any]) -> Flow | None:
        """The queue of a message, unless it is somebody else's by now. An ordered queue counts until it has left."""
        flow = self.flows.get(message.queue)
        if flow is None or flow.window is not message._window:
            flow = self._departures.flows.get(message.queue)
        return flow if flow is not None and flow.window is message._window else None

    def ack(self, message: ReceivedMessage[Any]) -> None:
        """A message is done with."""
        flow = self._flow_of(message)
        if flow is None:
            self._settle_outdated(message)
        elif flow.finish(message, self._now()) and flow.ordered:
            self._offer(flow)

    def _settle_outdated(self, message: ReceivedMessage[Any]) -> None:
        """A handler is done with a message that does not count any more: an ordered queue may have waited for that."""
        for flows in (self.flows, self._departures.flows):
            flow = flows.get(message.queue)
            if flow is not None and message in flow.outdated:
                flow.take_back(message)
                self._offer(flow)

    def release(self, message: ReceivedMessage[Any]) -> None:
        """A message goes back to those that wait."""
        flow = self._flow_of(message)
        if flow is None:
            self._settle_outdated(message)
        if flow is None or not flow.take_back(message):
            return
        again = ReceivedMessage(message.stored, message.queue, message._window, self)
        again._attempts = message._attempts
        if flow.ordered:
            flow.keep([again])
            self._offer(flow)
        elif flow.is_leaving or self._pauses.holds(again):
            flow.keep([again])
        else:
            self.ready.put_back(again)

    async def retry(self, message: ReceivedMessage[Any], delay_level: int) -> None:
        """A message is to be delivered again.

        Whoever waits for that may give up waiting (a handler's task is cancelled): the message is settled all the same.
        """
        self.failures += 1
        flow = self._flow_of(message)
        if flow is None or message._window.is_dropped:
            self._settle_outdated(message)
            return  # whoever owns the queue now gets it
        if self._settings.broadcasting:
            self.ack(message)
        elif flow.ordered and delay_level >= 0 and not self._is_beyond_limit(message):
            message._attempts += 1
            self._again(message, self._settings.suspend_ms / 1000)
        else:
            level = TO_DEAD_LETTERS if flow.ordered else delay_level
            await asyncio.shield(self._instance.tasks.spawn(self._send_back(message, level), "send back"))

    def check_loop(self) -> None:
        """Raise ``ClientClosed`` in another event loop than the consumer's."""
        check_loop(self._instance.loop, "consumer", "settle its messages in the loop that opened it")

    def fate(self, message: ReceivedMessage[Any]) -> str:
        """What becomes of a message that fails now, as a sentence says it."""
        if self._settings.broadcasting:
            return "it is given up, as it is broadcast"
        return "it goes to the dead letters" if self._is_beyond_limit(message) else "it comes again"

    async def _send_back(self, message: ReceivedMessage[Any], delay_level: int) -> None:
        if await self._returns.send_back(message, delay_level):
            self.ack(message)
        else:
            message._attempts += 1
            self._again(message, AGAIN_S)

    def _is_beyond_limit(self, message: ReceivedMessage[Any]) -> bool:
        """Whether a message has had all its deliveries; those of an ordered queue have no limit unless one is set."""
        limit = self._settings.max_reconsume_times if self._settings.ordered else self._settings.reconsume_limit
        return 0 <= limit <= message.reconsume_times

    def _again(self, message: ReceivedMessage[Any], after_s: float) -> None:
        self._instance.tasks.spawn(self._release_later(message, after_s), f"again {message.message_id}")

    async def _release_later(self, message: ReceivedMessage[Any], after_s: float) -> None:
        await asyncio.sleep(after_s)
        self.release(message)


def _warn_of_body(message: ReceivedMessage[Any]) -> None:
    log.warning(
        "the body of %s (%s) cannot be read: %s",
        message.message_id,
        message.place,
        message.body_fault,
        extra={
            "id": message.message_id,
            "queue": str(message.queue),
            "offset": message.queue_offset,
            "reason": message.body_fault,
        },
    )
