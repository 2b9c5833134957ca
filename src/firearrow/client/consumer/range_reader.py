"""A range of one queue as bytes, in order, with several pulls in flight at once.

A broker limits its answers: Apache's to 32 messages (8 from disk), ours to 4 MiB. Waiting for each answer before the
next pull would cost a round trip a pull, so the reader pulls ahead: it cuts the queue into strides of as many messages
as recent answers held, and sends a pull for each stride. If an answer holds less than its stride, the reader pulls the
rest before it yields later answers. Now and then a pull asks for more: a broker may return few messages at the end of
a log file, and many behind it.

Invariants: answers are yielded in order, without overlap and without a gap, except where an answer itself says that
messages were deleted (``OFFSET_MOVED``, or a ``next_offset`` beyond the range asked for); at most ``in_flight`` pulls
are in flight, plus one while the rest of an answer is pulled; none after the iteration has ended.
"""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Callable, Coroutine
from typing import Any, Final, NamedTuple

from firearrow.client.consumer.broker_queries import PulledBytes, PullStatus

Ask = Callable[[int, int], Coroutine[Any, Any, PulledBytes]]
"""(offset, most) -> one pull of up to ``most`` messages from ``offset`` on."""

IN_FLIGHT: Final = 8
LATELY: Final = 8
"""The number of recent answers that count; the largest of them sets the stride."""
TRIED_AFTER: Final = 16
TRIED_AFTER_MOST: Final = 1024
"""Full answers in a row before a longer stride is tried; doubled after every try that brought no more messages."""


class Stride:
    """The number of messages that each pull asks for."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._lately: deque[int] = deque(maxlen=LATELY)
        self._whole = 0
        self._tried_after = TRIED_AFTER
        self.length = most

    def next(self) -> int:
        """Return the size of the next pull: the largest recent answer, or twice that to probe for larger answers."""
        if self._whole < self._tried_after or self.length >= self._most:
            return self.length
        self._whole = 0
        return min(2 * self.length, self._most)

    def held(self, asked: int, got: int) -> None:
        """Note that an answer to a pull of ``asked`` messages held ``got``."""
        self._whole = self._whole + 1 if got >= asked else 0
        if asked > self.length:
            more = got > self.length
            self._tried_after = 1 if more else min(max(2 * self._tried_after, TRIED_AFTER), TRIED_AFTER_MOST)
        self._lately.append(max(1, min(got, self._most)))
        self.length = max(self._lately)


class _Pull(NamedTuple):
    offset: int
    limit: int
    task: "asyncio.Task[PulledBytes]"
    is_rest: bool
    """Whether it asks for what an answer held less than its stride."""

    async def forget(self) -> None:
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)


class _PullsInFlight:
    def __init__(self, ask: Ask, begin: int) -> None:
        self._ask = ask
        self.queue: deque[_Pull] = deque()
        """By offset."""
        self.cursor = begin
        """The offset that the next answer must begin at."""
        self.ahead = begin
        """The offset up to which pulls are in flight."""

    def _pull(self, offset: int, limit: int, *, is_rest: bool) -> _Pull:
        task = asyncio.get_running_loop().create_task(self._ask(offset, limit - offset))
        return _Pull(offset, limit, task, is_rest)

    def add(self, limit: int) -> None:
        """Pull the next stride."""
        self.queue.append(self._pull(self.ahead, limit, is_rest=False))
        self.ahead = limit

    def _add_rest(self, limit: int) -> None:
        self.queue.appendleft(self._pull(self.cursor, limit, is_rest=True))

    async def replace(self, pull: _Pull) -> None:
        """Drop a pull that an earlier answer has overtaken, and pull what is left of it."""
        await pull.forget()
        if pull.limit > self.cursor:
            self._add_rest(pull.limit)

    def move(self, reached: int, limit: int) -> None:
        """Go on where an answer ended that was asked for the messages up to ``limit``."""
        self.cursor = reached
        self.ahead = max(self.ahead, reached)
        if reached < limit and self.queue:
            self._add_rest(limit)
        elif reached < limit:
            self.ahead = reached  # no pull is in flight beyond this: cut the rest into strides too


async def read_range(
    ask: Ask, begin: int, end: int, most: int, in_flight: int = IN_FLIGHT
) -> AsyncGenerator[PulledBytes, None]:
    """Yield the answers that cover ``begin`` to ``end`` (exclusive), in order; stop early at the end of the queue."""
    pulls, stride = _PullsInFlight(ask, begin), Stride(most)
    try:
        while pulls.cursor < end:
            # The first answer shows how much an answer holds: until then one pull is enough.
            while pulls.ahead < end and len(pulls.queue) < (in_flight if pulls.cursor > begin else 1):
                pulls.add(min(pulls.ahead + stride.next(), end))
            pull = pulls.queue.popleft()
            if pull.offset < pulls.cursor:
                await pulls.replace(pull)
                continue
            pulled = await pull.task
            reached = pulled.next_offset
            yield pulled
            if pulled.status is PullStatus.NOTHING_NEW or reached <= pulls.cursor:
                return
            if not pull.is_rest:
                stride.held(pull.limit - pull.offset, reached - pulls.cursor)
            pulls.move(reached, pull.limit)
    finally:
        for pull in pulls.queue:
            await pull.forget()
