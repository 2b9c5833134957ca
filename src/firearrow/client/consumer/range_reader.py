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
from typing import Any, Final

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


async def read_range(
    ask: Ask, begin: int, end: int, most: int, in_flight: int = IN_FLIGHT
) -> AsyncGenerator[PulledBytes, None]:
    """Yield the answers that cover ``begin`` to ``end`` (exclusive), in order; stop early at the end of the queue."""
    cursor = ahead = begin
    stride, asked = Stride(most), deque[tuple[int, int, bool, asyncio.Task[PulledBytes]]]()

    def put(offset: int, limit: int, *, is_rest: bool = False) -> None:
        task = asyncio.get_running_loop().create_task(ask(offset, limit - offset))
        (asked.appendleft if is_rest else asked.append)((offset, limit, is_rest, task))

    try:
        while cursor < end:
            # The first answer shows how much an answer holds: until then one pull is enough.
            while ahead < end and len(asked) < (in_flight if cursor > begin else 1):
                limit = min(ahead + stride.next(), end)
                put(ahead, limit)
                ahead = limit
            offset, limit, is_rest, task = asked.popleft()
            if offset < cursor:  # an earlier answer went further than it was asked to
                await _forget(task)
                if limit > cursor:
                    put(cursor, limit, is_rest=True)
                continue
            pulled = await task
            reached = pulled.next_offset
            yield pulled
            if pulled.status is PullStatus.NOTHING_NEW or reached <= cursor:
                return
            if not is_rest:
                stride.held(limit - offset, reached - cursor)
            cursor = reached
            ahead = max(ahead, cursor)
            if cursor < limit and asked:
                put(cursor, limit, is_rest=True)
            elif cursor < limit:
                ahead = cursor  # no pull is in flight beyond this: cut the rest into strides too
    finally:
        for *_, task in asked:
            await _forget(task)


async def _forget(task: "asyncio.Task[PulledBytes]") -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
