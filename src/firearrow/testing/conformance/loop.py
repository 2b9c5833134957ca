"""Checks of the promises of every event loop about timers: stock asyncio's, uvloop's and the simulated one.

What a timer returns can be cancelled, and no more is promised: uvloop hands out a plain handle, without ``when``, where
the delay rounds to no millisecond at all. A timer comes at its time or a millisecond before it by the loop's own clock.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

EARLY_S: Final = 0.0015
PATIENCE_S: Final = 5.0
AT_ONCE_S: Final = (-1.0, 0.0, 0.000_01, 0.000_4, 0.000_5, 0.000_9)

LoopCheck = Callable[[], Awaitable[None]]


async def timers_due_at_once_come() -> None:
    """A timer whose time is over, is now, or comes within a millisecond comes soon."""
    loop = asyncio.get_running_loop()
    came: list[float] = []
    for delay in AT_ONCE_S:
        loop.call_at(loop.time() + delay, came.append, delay)
        loop.call_later(max(delay, 0.0), came.append, delay)
    async with asyncio.timeout(PATIENCE_S):
        while len(came) < 2 * len(AT_ONCE_S):  # noqa: ASYNC110 - another timer would be what is looked at
            await asyncio.sleep(0.001)
    assert sorted(came) == sorted(2 * AT_ONCE_S)


async def a_cancelled_timer_stays_away() -> None:
    """Also one that is due at once."""
    loop = asyncio.get_running_loop()
    came: list[float] = []
    for delay in (*AT_ONCE_S, 0.01):
        loop.call_at(loop.time() + delay, came.append, delay).cancel()
    await asyncio.sleep(0.03)
    assert came == []


async def timers_are_not_early() -> None:
    """No timer fires more than a millisecond early."""
    loop = asyncio.get_running_loop()
    early: list[float] = []
    due = [loop.time() + delay / 1000 for delay in (1.0, 1.4, 2.0, 5.5, 20.0)]
    for when in due:
        loop.call_at(when, lambda when=when: early.append(when - loop.time()))  # type: ignore[misc]
    async with asyncio.timeout(PATIENCE_S):
        while len(early) < len(due):  # noqa: ASYNC110 - another timer would be what is looked at
            await asyncio.sleep(0.005)
    assert max(early) <= EARLY_S, f"{max(early):.4f} s early"


async def a_timer_set_by_a_timer_comes() -> None:
    """A chain of timers that are all due at once ends, and lets others run."""
    loop = asyncio.get_running_loop()
    done = asyncio.Event()

    def again(left: int) -> None:
        if left:
            loop.call_at(loop.time(), again, left - 1)
        else:
            done.set()

    again(100)
    async with asyncio.timeout(PATIENCE_S):
        await done.wait()


LOOP_CHECKS: Final[tuple[LoopCheck, ...]] = (
    timers_due_at_once_come,
    a_cancelled_timer_stays_away,
    timers_are_not_early,
    a_timer_set_by_a_timer_comes,
)
