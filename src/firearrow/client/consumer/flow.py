"""One queue that a consumer owns: how far it is pulled, what waits, what is being handled. No I/O.

Concurrent: everything pulled may be handled at once. Ordered: one message (or one batch) at a time, in order; one that
fails stays first and the queue pauses. While an ordered queue's lock is not held nothing is handed out.

Stall reasons are told from here: ``why_stuck`` is pure.
"""

import asyncio
from collections import deque
from collections.abc import Iterable
from typing import Any, Final

from msgspec import Struct

from firearrow.client.consumer.message import ReceivedMessage
from firearrow.client.consumer.window import Window, WindowLimits
from firearrow.client.routes import MASTER_ID
from firearrow.model import MessageQueue, StoredMessage

NO_QUEUE: Final = -1
"""Stands for the queues of a topic that are not known, or for a whole consumer."""


class Flow:
    """The state of one queue."""

    def __init__(self, queue: MessageQueue, *, ordered: bool) -> None:
        self.queue = queue
        self.ordered = ordered
        self.window = Window(0)
        self.limits = WindowLimits()
        self.task: asyncio.Task[Any] | None = None
        self.broker_id = MASTER_ID
        self.max_offset = 0
        self.is_started = False
        self.is_leaving = False
        self.is_paused = False
        self.announcement: asyncio.Task[None] | None = None
        """Telling the application that the queue has come, where it wants to hear that; nothing is pulled before."""
        self.is_announced = False
        """Whether the application has heard that the queue has come, and not yet that it goes."""
        self.error = ""
        """Why the last pull failed; empty when it did not."""
        self.full = ""
        """Why nothing is pulled now, if it is not."""
        self.locked_until = 0.0
        self.last_pull_at = 0.0
        self.last_consume_at = 0.0
        self.moved_at = 0.0
        self._seen_committable = -1
        self.waiting: deque[ReceivedMessage[Any]] = deque()
        """What was pulled and may not be handed out yet: ordered, all but the first; paused, or leaving, everything."""
        self.handed: dict[int, ReceivedMessage[Any]] = {}
        """What handlers have, by offset."""
        self.outdated: list[ReceivedMessage[Any]] = []
        """Ordered: what handlers still have of windows that were replaced. Nothing is handed out beside them."""
        self.room = asyncio.Event()
        self.idle = asyncio.Event()
        self.idle.set()

    def restart(self, offset: int, now: float) -> None:
        """Go on from ``offset``; what is held or being handled does not count any more."""
        self.window.is_dropped = True
        self.window = Window(offset)
        self.waiting.clear()
        if self.ordered:
            self.outdated += [message for message in self.handed.values() if message._handed_at is not None]
        self.handed.clear()
        if not self.outdated:
            self.idle.set()
        self.is_started = True
        self.moved_at = now
        self._seen_committable = offset
        self.room.set()

    def drop(self) -> None:
        """The queue belongs to somebody else."""
        self.is_leaving = self.window.is_dropped = True
        self.waiting.clear()

    def hand(self, message: ReceivedMessage[Any], holder: str, now: float) -> None:
        """A handler has the message."""
        message._handed_at, message._holder = now, holder
        if not message._window.is_dropped:
            self.handed[message.queue_offset] = message
            self.idle.clear()

    def take_back(self, message: ReceivedMessage[Any]) -> bool:
        """A handler has it no more; return whether that matters still."""
        is_current = message._window is self.window
        if is_current:
            self.handed.pop(message.queue_offset, None)
        elif message in self.outdated:
            self.outdated.remove(message)
        if not self.handed and not self.outdated:
            self.idle.set()
        return is_current and not self.window.is_dropped

    def finish(self, message: ReceivedMessage[Any], now: float) -> bool:
        """A message is done with; return whether that matters still."""
        if not self.take_back(message):
            return False
        self.window.finish(message.queue_offset)
        self.last_consume_at = now
        self.room.set()
        return True

    def may_hand_out(self, now: float) -> bool:
        """Ordered: whether the next message may be handed out."""
        is_free = not self.handed and not self.outdated and not self.is_paused and not self.is_leaving
        return bool(self.waiting) and is_free and now < self.locked_until

    def keep(self, messages: Iterable[ReceivedMessage[Any]]) -> None:
        """Let messages wait among the others, in order."""
        self.waiting = deque(sorted((*self.waiting, *messages), key=lambda message: message.queue_offset))

    @property
    def is_handled(self) -> bool:
        """Whether a handler has a message of it."""
        return bool(self.outdated) or any(message._handed_at is not None for message in self.handed.values())

    def note_movement(self, now: float, *, is_held: bool) -> None:
        """Look whether the committable offset has moved since the last look.

        A paused queue need not, nor one whose oldest message is held back by a pause.
        """
        if self.is_paused or is_held or self.window.committable != self._seen_committable or not self.is_behind:
            self._seen_committable = self.window.committable
            self.moved_at = now

    @property
    def is_behind(self) -> bool:
        """Whether there is anything that should move."""
        return (
            not self.is_started or len(self.window) > 0 or self.max_offset > self.window.next_offset or bool(self.error)
        )

    @property
    def oldest(self) -> StoredMessage | None:
        """The message that holds the offset back."""
        return self.window.oldest


class Stall(Struct, frozen=True):
    """A queue that does not move, and why."""

    queue: MessageQueue
    offset: int
    seconds: float
    reason: str


def why_stuck(flow: Flow, now: float, *, busy_workers: str) -> str:
    """The reason why a queue does not move, for people to read."""
    oldest = flow.oldest
    if not flow.is_started:
        return f"it has not started: {flow.error or 'its offset is not known yet'}"
    if flow.ordered and now >= flow.locked_until:
        return "its lock is held by another member of the group, or could not be had"
    if flow.outdated:
        return f"{_who_has(flow.outdated[0], now)}, handed out before the queue went on elsewhere"
    if oldest is not None:
        held = flow.handed.get(oldest.queue_offset)
        if held is not None and held._handed_at is not None:
            return _who_has(held, now)
        return f"the message at offset {oldest.queue_offset} waits for a handler: {busy_workers}"
    if flow.error:
        return f"pulls fail: {flow.error}"
    return f"offset {flow.window.next_offset} is not delivered although the queue reaches {flow.max_offset}"


def _who_has(held: ReceivedMessage[Any], now: float) -> str:
    return (
        f"{held._holder or 'somebody'} has had the message at offset {held.queue_offset} "
        f"({held.message_id}) for {now - (held._handed_at or now):.0f} s and has not settled it"
    )


def who_is_busy(flows: Iterable[Flow]) -> str:
    """Who has the messages of these queues."""
    held = [message for flow in flows for message in flow.handed.values() if message._handed_at is not None]
    if not held:
        return "nobody takes messages; call run, or iterate"
    holders = sorted({message._holder for message in held})
    return f"{len(held)} messages are in the hands of {', '.join(holders)}"


def spoken(queue: MessageQueue) -> str:
    """A queue as a sentence names it."""
    if queue.queue_id == NO_QUEUE:
        return f"topic {queue.topic}" if queue.topic else "the consumer"
    return f"queue {queue.broker_name}:{queue.queue_id} of topic {queue.topic}"
