"""One queue that a consumer owns: the offset of the next pull, waiting messages, messages in handlers. No I/O.

Concurrent: all pulled messages may be handled at once. Ordered: one message (or one batch) at a time, in order; a
failed message stays first and the queue pauses. An ordered queue delivers nothing while its lock is not held.
"""

import asyncio
from collections import deque
from collections.abc import Iterable
from typing import Any

from firearrow.client.consumer.message import ReceivedMessage
from firearrow.client.consumer.window import Window, WindowLimits
from firearrow.client.routes import MASTER_ID
from firearrow.model import MessageQueue, StoredMessage


class OwnedQueue:
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
        """The call of the listener for this queue, if there is a listener; pulling starts after it."""
        self.is_announced = False
        """Whether the listener was called for the assignment and not yet for the revocation."""
        self.error = ""
        """The reason why the last pull failed; empty if it succeeded."""
        self.full = ""
        """The reason why pulling waits now; None while it does not."""
        self.locked_until = 0.0
        self.last_pull_at = 0.0
        self.last_consume_at = 0.0
        self.moved_at = 0.0
        self._seen_committable = -1
        self.waiting: deque[ReceivedMessage[Any]] = deque()
        """Pulled messages that may not be delivered yet: if ordered, all but the first; if paused or leaving, all."""
        self.handed: dict[int, ReceivedMessage[Any]] = {}
        """Messages in handlers, by offset."""
        self.outdated: list[ReceivedMessage[Any]] = []
        """Ordered: messages of replaced windows that are still in handlers. Nothing is delivered until they end."""
        self.room = asyncio.Event()
        self.idle = asyncio.Event()
        self.idle.set()

    def restart(self, offset: int, now: float) -> None:
        """Continue at ``offset``; held messages and messages in handlers become outdated."""
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
        """Drop the window: another member owns the queue."""
        self.is_leaving = self.window.is_dropped = True
        self.waiting.clear()

    def hand(self, message: ReceivedMessage[Any], holder: str, now: float) -> None:
        """Note that a handler has the message."""
        message._handed_at, message._holder = now, holder
        if not message._window.is_dropped:
            self.handed[message.queue_offset] = message
            self.idle.clear()

    def take_back(self, message: ReceivedMessage[Any]) -> bool:
        """Note that a handler has given a message back; return False if the message is outdated."""
        is_current = message._window is self.window
        if is_current:
            self.handed.pop(message.queue_offset, None)
        elif message in self.outdated:
            self.outdated.remove(message)
        if not self.handed and not self.outdated:
            self.idle.set()
        return is_current and not self.window.is_dropped

    def finish(self, message: ReceivedMessage[Any], now: float) -> bool:
        """Note that a message is finished; return False if the message is outdated."""
        if not self.take_back(message):
            return False
        self.window.finish(message.queue_offset)
        self.last_consume_at = now
        self.room.set()
        return True

    def may_hand_out(self, now: float) -> bool:
        """Ordered: whether the next message may be delivered."""
        is_free = not self.handed and not self.outdated and not self.is_paused and not self.is_leaving
        return bool(self.waiting) and is_free and now < self.locked_until

    def keep(self, messages: Iterable[ReceivedMessage[Any]]) -> None:
        """Add messages to the waiting ones, in order."""
        self.waiting = deque(sorted((*self.waiting, *messages), key=lambda message: message.queue_offset))

    @property
    def is_handled(self) -> bool:
        """Whether a handler has a message of this queue."""
        return bool(self.outdated) or any(message._handed_at is not None for message in self.handed.values())

    def note_movement(self, now: float, *, is_held: bool) -> None:
        """Check whether the committable offset has moved since the last check.

        A paused queue need not, nor one whose oldest message is held back by a pause.
        """
        if self.is_paused or is_held or self.window.committable != self._seen_committable or not self.is_behind:
            self._seen_committable = self.window.committable
            self.moved_at = now

    @property
    def is_behind(self) -> bool:
        """Whether there are unfinished or unpulled messages."""
        return (
            not self.is_started or len(self.window) > 0 or self.max_offset > self.window.next_offset or bool(self.error)
        )

    @property
    def oldest(self) -> StoredMessage | None:
        """The unfinished message with the lowest offset."""
        return self.window.oldest
