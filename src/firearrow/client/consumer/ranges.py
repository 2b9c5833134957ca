"""A stretch of one queue as bytes, in order, with several pulls under way at once.

Brokers hand out so much at a time: Apache's 32 messages (8 from disk), ours up to 4 MiB. Waiting for each answer before
the next question would cost a round trip a pull, so questions are put ahead: the queue is cut into strides of as many
messages as answers held lately, and each stride is asked for by itself. An answer that holds less than its stride is
followed by a question for the rest, before anything that comes after it is handed out. Now and then one question is for
more: a broker may give little where its log file ends, and much again behind that.

Invariants: what is handed out is in order, without overlap and without a gap, except where an answer itself says that
offsets are gone (``OFFSET_MOVED``, or a ``next_offset`` beyond what was asked); at most ``in_flight`` questions are
under way, and one more while an answer is followed up; none is when the iteration has ended.
"""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Callable, Coroutine
from typing import Any, Final

from firearrow.client.consumer.pulling import PulledBytes, PullStatus

Ask = Callable[[int, int], Coroutine[Any, Any, PulledBytes]]
"""(offset, most) -> one pull of up to ``most`` messages from ``offset`` on."""

IN_FLIGHT: Final = 8
LATELY: Final = 8
"""Answers by whose largest a stride is measured."""
TRIED_AFTER: Final = 16
TRIED_AFTER_MOST: Final = 1024
"""Whole answers in a row before a longer stride is tried; after each that was tried for nothing, twice as many."""


class Stride:
    """How many messages to ask for at a time."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._lately: deque[int] = deque(maxlen=LATELY)
        self._whole = 0
        self._tried_after = TRIED_AFTER
        self.length = most

    def next(self) -> int:
        """For the next question: as many as answers held lately, or twice as many to see whether they hold more."""
        if self._whole < self._tried_after or self.length >= self._most:
            return self.length
        self._whole = 0
        return min(2 * self.length, self._most)

    def held(self, asked: int, got: int) -> None:
        """An answer to a question for ``asked`` messages held ``got``."""
        self._whole = self._whole + 1 if got >= asked else 0
        if asked > self.length:
            more = got > self.length
            self._tried_after = 1 if more else min(max(2 * self._tried_after, TRIED_AFTER), TRIED_AFTER_MOST)
        self._lately.append(max(1, min(got, self._most)))
        self.length = max(self._lately)


async def read_range(
    ask: Ask, begin: int, end: int, most: int, in_flight: int = IN_FLIGHT
) -> AsyncGenerator[PulledBytes, None]:
    """The answers that cover ``begin`` to ``end`` (exclusive), in order. It ends early where the queue does."""
    cursor = ahead = begin
    stride, asked = Stride(most), deque[tuple[int, int, bool, asyncio.Task[PulledBytes]]]()

    def put(offset: int, limit: int, *, is_rest: bool = False) -> None:
        task = asyncio.get_running_loop().create_task(ask(offset, limit - offset))
        (asked.appendleft if is_rest else asked.append)((offset, limit, is_rest, task))

    try:
        while cursor < end:
            # The first answer tells how much an answer holds: until then one question is enough.
            while ahead < end and len(asked) < (in_flight if cursor > begin else 1):
                limit = min(ahead + stride.next(), end)
                put(ahead, limit)
                ahead = limit
            offset, limit, is_rest, task = asked.popleft()
            if offset < cursor:  # an answer before it went further than it was asked to
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
                ahead = cursor  # nothing was asked beyond this: cut the rest into strides too
    finally:
        for *_, task in asked:
            await _forget(task)


async def _forget(task: "asyncio.Task[PulledBytes]") -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
