"""A stretch of one queue as bytes, in order, with several pulls under way at once.

Brokers hand out so much at a time: Apache's 32 messages (8 from disk), ours up to 4 MiB. Waiting for each answer before
the next question would cost a round trip a pull, so questions are put ahead: the queue is cut into strides of as many
messages as an answer held lately, and each stride is asked for by itself. An answer that holds less than its stride is
followed by a question for the rest, before anything that comes after it is handed out.

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


async def read_range(
    ask: Ask, begin: int, end: int, most: int, in_flight: int = IN_FLIGHT
) -> AsyncGenerator[PulledBytes, None]:
    """The answers that cover ``begin`` to ``end`` (exclusive), in order. It ends early where the queue does."""
    cursor = ahead = begin
    stride, asked = most, deque[tuple[int, int, asyncio.Task[PulledBytes]]]()

    def put(offset: int, limit: int, *, first: bool = False) -> None:
        task = asyncio.get_running_loop().create_task(ask(offset, limit - offset))
        (asked.appendleft if first else asked.append)((offset, limit, task))

    try:
        while cursor < end:
            # The first answer tells how much an answer holds: until then one question is enough.
            while ahead < end and len(asked) < (in_flight if cursor > begin else 1):
                limit = min(ahead + stride, end)
                put(ahead, limit)
                ahead = limit
            offset, limit, task = asked.popleft()
            if offset < cursor:  # an answer before it went further than it was asked to
                await _forget(task)
                if limit > cursor:
                    put(cursor, limit, first=True)
                continue
            pulled = await task
            reached = pulled.next_offset
            yield pulled
            if pulled.status is PullStatus.NOTHING_NEW or reached <= cursor:
                return
            stride = max(1, min(most, reached - cursor)) if reached < limit or cursor == begin else stride
            cursor = reached
            ahead = max(ahead, cursor)
            if cursor < limit and asked:
                put(cursor, limit, first=True)
            elif cursor < limit:
                ahead = cursor  # nothing was asked beyond this: cut the rest into strides too
    finally:
        for _, _, task in asked:
            await _forget(task)


async def _forget(task: "asyncio.Task[PulledBytes]") -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
