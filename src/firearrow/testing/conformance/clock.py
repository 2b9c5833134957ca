"""Checks of the promises of every clock."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from firearrow.runtime.clock import Clock

ClockCheck = Callable[[Clock], Awaitable[None]]

_YEAR_2020_MS: Final = 1_577_836_800_000
_YEAR_2100_MS: Final = 4_102_444_800_000


async def wall_time_is_milliseconds_since_the_epoch(clock: Clock) -> None:
    """Wall time is a plausible whole number of milliseconds."""
    now = clock.now_ms()
    assert isinstance(now, int)
    assert _YEAR_2020_MS < now < _YEAR_2100_MS


async def time_passes(clock: Clock) -> None:
    """Wall time and ticks move with the loop's own time."""
    loop = asyncio.get_running_loop()
    wall, ticks, elapsed = clock.now_ms(), clock.ticks(), loop.time()
    await asyncio.sleep(0.025)
    assert clock.now_ms() >= wall + 20
    assert loop.time() - elapsed > 0.010
    assert clock.ticks() - ticks > 10_000_000


async def ticks_never_go_back(clock: Clock) -> None:
    """Ticks and CPU time are whole nanoseconds and never decrease."""
    for read in (clock.ticks, clock.cpu_ns):
        readings = [read() for _ in range(1000)]
        assert all(isinstance(reading, int) for reading in readings)
        assert readings == sorted(readings)


CLOCK_CHECKS: Final[tuple[ClockCheck, ...]] = (
    wall_time_is_milliseconds_since_the_epoch,
    time_passes,
    ticks_never_go_back,
)
