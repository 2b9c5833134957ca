"""Messages that wait for a handler.

Any number of tasks may take messages at once; they are served in turn. Messages of a dropped window are outdated and
skipped. After ``close`` nothing is delivered, and waiting tasks get None.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any

from firearrow.client.consumer.message import ReceivedMessage


class ReadyMessages:
    """A queue of messages in memory."""

    def __init__(self) -> None:
        self._messages: deque[ReceivedMessage[Any]] = deque()
        self._takers: deque[asyncio.Future[None]] = deque()
        self.is_closed = False

    def __len__(self) -> int:
        return len(self._messages)

    @property
    def takers(self) -> int:
        """The number of tasks that wait for a message."""
        return len(self._takers)

    def put(self, messages: Iterable[ReceivedMessage[Any]]) -> None:
        """Add messages at the end."""
        before = len(self._messages)
        self._messages.extend(messages)
        self._wake(len(self._messages) - before)

    def put_back(self, message: ReceivedMessage[Any]) -> None:
        """Add a message at the front."""
        self._messages.appendleft(message)
        self._wake(1)

    def withdraw(self, unwanted: Callable[[ReceivedMessage[Any]], bool]) -> list[ReceivedMessage[Any]]:
        """Remove the messages for which ``unwanted`` is true; return them in order."""
        kept: deque[ReceivedMessage[Any]] = deque()
        withdrawn: list[ReceivedMessage[Any]] = []
        for message in self._messages:
            (withdrawn if unwanted(message) else kept).append(message)
        self._messages = kept
        return withdrawn

    def _wake(self, count: int) -> None:
        while count > 0 and self._takers:
            taker = self._takers.popleft()
            if not taker.done():
                taker.set_result(None)
                count -= 1

    async def take(self) -> ReceivedMessage[Any] | None:
        """Wait for the next message; return None after ``close``."""
        while True:
            message = self.take_now()
            if message is not None or self.is_closed:
                return message
            taker = asyncio.get_running_loop().create_future()
            self._takers.append(taker)
            try:
                await taker
            except asyncio.CancelledError:
                if taker.done() and not taker.cancelled():
                    self._wake(1)  # this task was woken and is cancelled: wake the next
                raise

    def take_now(self) -> ReceivedMessage[Any] | None:
        """Return the next message, if there is one."""
        while self._messages and not self.is_closed:
            message = self._messages.popleft()
            if not message._window.is_dropped:
                return message
        return None

    def take_like(self, first: ReceivedMessage[Any], count: int) -> list[ReceivedMessage[Any]]:
        """Return up to ``count`` more messages of the same queue that come next and may share a batch.

        A message whose body cannot be read is delivered alone, so that it fails alone.
        """
        more: list[ReceivedMessage[Any]] = []
        while len(more) < count and self._messages and goes_with(first, self._messages[0]):
            more.append(self._messages.popleft())
        return more

    def close(self) -> None:
        """Deliver nothing more."""
        self.is_closed = True
        self._wake(len(self._takers))


def goes_with(first: ReceivedMessage[Any], other: ReceivedMessage[Any]) -> bool:
    """Whether both messages may be in one batch for a handler."""
    return other._window is first._window and not first.body_fault and not other.body_fault
