"""Messages that wait for somebody to handle them.

Any number of tasks may take at once; they are served in turn. Messages of a dropped window are nobody's any more and
are passed over. After ``close`` nothing is handed out, and whoever waits is told.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any

from firearrow.client.consumer.message import ReceivedMessage


class Ready:
    """A queue of messages."""

    def __init__(self) -> None:
        self._messages: deque[ReceivedMessage[Any]] = deque()
        self._takers: deque[asyncio.Future[None]] = deque()
        self.is_closed = False

    def __len__(self) -> int:
        return len(self._messages)

    @property
    def takers(self) -> int:
        """How many wait for a message."""
        return len(self._takers)

    def put(self, messages: Iterable[ReceivedMessage[Any]]) -> None:
        """Let these be handled."""
        before = len(self._messages)
        self._messages.extend(messages)
        self._wake(len(self._messages) - before)

    def put_back(self, message: ReceivedMessage[Any]) -> None:
        """Let this be handled next."""
        self._messages.appendleft(message)
        self._wake(1)

    def withdraw(self, unwanted: Callable[[ReceivedMessage[Any]], bool]) -> list[ReceivedMessage[Any]]:
        """Take those back that are not to be handled now; return them in order."""
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
        """The next message, or None after ``close``."""
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
                    self._wake(1)  # this one was called and does not come: call the next
                raise

    def take_now(self) -> ReceivedMessage[Any] | None:
        """The next message, if there is one."""
        while self._messages and not self.is_closed:
            message = self._messages.popleft()
            if not message._window.is_dropped:
                return message
        return None

    def take_like(self, first: ReceivedMessage[Any], count: int) -> list[ReceivedMessage[Any]]:
        """Up to ``count`` more messages of the same queue, as far as they come next and can travel with others.

        One whose body cannot be read is handed out alone, so that it fails alone.
        """
        more: list[ReceivedMessage[Any]] = []
        while len(more) < count and self._messages and goes_with(first, self._messages[0]):
            more.append(self._messages.popleft())
        return more

    def close(self) -> None:
        """Hand out nothing more."""
        self.is_closed = True
        self._wake(len(self._takers))


def goes_with(first: ReceivedMessage[Any], other: ReceivedMessage[Any]) -> bool:
    """Whether a handler of batches may get both at once."""
    return other._window is first._window and not first.body_fault and not other.body_fault
