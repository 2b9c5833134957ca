"""Messages of one member on their way to handlers: ready, or kept back by order and pauses.

Invariant: of an ordered queue at most one message, or one batch, is ready or in handlers; no paused message is ready.
Messages that may not go out wait in their `OwnedQueue`.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from firearrow.client.consumer.message import ReceivedMessage
from firearrow.client.consumer.queue.delivery_meter import DeliveryMeter
from firearrow.client.consumer.queue.owned_queue import OwnedQueue
from firearrow.client.consumer.queue.pauses import Pausable, Pauses
from firearrow.client.consumer.queue.ready_messages import ReadyMessages, goes_with
from firearrow.model import MessageQueue


def _now() -> float:
    return asyncio.get_running_loop().time()


class Outlet:
    """Hands messages to handlers. ``flows`` are the owned queues, ``leaving`` the queues that the member gives up."""

    def __init__(
        self,
        flows: Mapping[MessageQueue, OwnedQueue],
        leaving: Mapping[MessageQueue, OwnedQueue],
        meter: DeliveryMeter | None = None,
    ) -> None:
        self._meter = meter
        self._flows = flows
        self._leaving = leaving
        self.ready: Final = ReadyMessages()
        self.pauses: Final = Pauses()

    def put(self, flow: OwnedQueue, messages: list[ReceivedMessage[Any]]) -> None:
        """Take pulled messages: offer them to handlers now, or keep them while the queue is ordered or paused."""
        if flow.ordered:
            flow.waiting.extend(messages)
            self.offer(flow)
        elif self.pauses:
            flow.waiting.extend(messages)
            self._let_go(flow)
        else:
            self.ready.put(messages)

    # -- pauses

    def pause(self, what: Iterable[Pausable]) -> None:
        """Stop delivery of these topics and queues, or of everything; pulled messages wait."""
        self.pauses.say(what, paused=True)
        for flow in self._flows.values():
            flow.is_paused = self.pauses.covers(flow.queue)
        self.withdraw(self.pauses.holds)

    def resume(self, what: Iterable[Pausable]) -> None:
        """Resume delivery of these topics and queues, or of everything."""
        self.pauses.say(what, paused=False)
        for flow in self._flows.values():
            flow.is_paused = self.pauses.covers(flow.queue)
            flow.moved_at = _now()
            flow.room.set()
            if flow.ordered:
                self.offer(flow)
            else:
                self._let_go(flow)

    def note_movement(self, flow: OwnedQueue, now: float) -> None:
        """Check whether a queue made progress; a queue whose oldest message is paused need not."""
        oldest, first = flow.oldest, flow.waiting[0] if flow.waiting else None
        is_held = (
            oldest is not None
            and first is not None
            and first.queue_offset == oldest.queue_offset
            and self.pauses.holds(first)
        )
        flow.note_movement(now, is_held=is_held)

    def withdraw(self, unwanted: Callable[[ReceivedMessage[Any]], bool]) -> None:
        """Move messages without a handler back from ``ready`` to their queues."""
        taken: dict[MessageQueue, list[ReceivedMessage[Any]]] = {}
        for message in self.ready.withdraw(unwanted):
            flow = self.flow_of(message)
            if flow is not None and flow.take_back(message):
                taken.setdefault(flow.queue, []).append(message)
        for queue, messages in taken.items():
            (self._flows.get(queue) or self._leaving[queue]).keep(messages)

    def _let_go(self, flow: OwnedQueue) -> None:
        """Concurrent: offer the waiting messages of a queue to handlers, unless they are paused."""
        held = [message for message in flow.waiting if self.pauses.holds(message)]
        free = [message for message in flow.waiting if not self.pauses.holds(message)] if held else flow.waiting
        self.ready.put(free)
        flow.waiting = deque(held)

    def flows_of(self, queue: MessageQueue) -> list[OwnedQueue]:
        """Return what the member has of a queue, which it may give up and own again."""
        return [flows[queue] for flows in (self._flows, self._leaving) if queue in flows]

    def flow_of(self, message: ReceivedMessage[Any]) -> OwnedQueue | None:
        """Return the queue of a message; None if the queue has left. An ordered queue counts until it is unlocked."""
        flow = self._flows.get(message.queue)
        if flow is None or flow.window is not message._window:
            flow = self._leaving.get(message.queue)
        return flow if flow is not None and flow.window is message._window else None

    # -- handing out

    def offer(self, flow: OwnedQueue) -> None:
        """Ordered: offer the next message to handlers, if nothing is in hand."""
        if flow.may_hand_out(_now()) and not self.pauses.holds(flow.waiting[0]):
            message = flow.waiting.popleft()
            flow.handed[message.queue_offset] = message
            flow.idle.clear()
            self.ready.put([message])

    def put_back(self, flow: OwnedQueue, message: ReceivedMessage[Any]) -> None:
        """Take a message that a handler gave back, to go out before all others of its queue."""
        if flow.ordered:
            flow.keep([message])
            self.offer(flow)
        elif flow.is_leaving or self.pauses.holds(message):
            flow.keep([message])
        else:
            self.ready.put_back(message)

    def take_now(self, holder: str) -> ReceivedMessage[Any] | None:
        """Return the next message if there is one now and no other task waits for it."""
        message = None if self.ready.takers else self.ready.take_now()
        return None if message is None else self._hand(message, holder)

    async def take_one(self, holder: str) -> ReceivedMessage[Any] | None:
        """Return the next message; None once the consumer is closing."""
        message = await self.ready.take()
        return None if message is None else self._hand(message, holder)

    def _hand(self, message: ReceivedMessage[Any], holder: str) -> ReceivedMessage[Any]:
        flow = self.flow_of(message)
        if flow is not None:
            flow.hand(message, holder, _now())
        if self._meter is not None:
            self._meter.handed((message,))
        return message

    async def take(self, holder: str, count: int = 1) -> list[ReceivedMessage[Any]]:
        """Return the next messages of one queue, at least one; none once the consumer is closing."""
        first = await self.ready.take()
        if first is None:
            return []
        flow = self.flow_of(first)
        taken = [first]
        if count > 1 and flow is not None and flow.ordered:
            while len(taken) < count and flow.waiting and self._may_follow(first, flow.waiting[0]):
                taken.append(flow.waiting.popleft())
        elif count > 1:
            taken += self.ready.take_like(first, count - 1)
        if flow is not None:
            now = _now()
            for message in taken:
                flow.hand(message, holder, now)
        if self._meter is not None:
            self._meter.handed(taken)
        return taken

    def _may_follow(self, first: ReceivedMessage[Any], other: ReceivedMessage[Any]) -> bool:
        return goes_with(first, other) and not self.pauses.holds(other)
