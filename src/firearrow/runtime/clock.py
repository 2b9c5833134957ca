"""Wall time, ticks for metrics, and CPU time.

Elapsed time, timers and deadlines belong to the event loop (``loop.time()``, ``asyncio.timeout``); this door
has the other readings. Wall time may jump either way, so nothing measures a duration with it. Ticks only
move forward but count from an arbitrary start, and they are for metrics alone: no decision may depend on
them. CPU time decides whose turn it is: how many messages filters look at, and which connection of a server is served,
before other work has its turn.
"""

import asyncio
import threading
import time
from typing import Protocol


class Clock(Protocol):
    """Wall time, ticks and CPU time."""

    def now_ms(self) -> int:
        """Return wall time in milliseconds since the epoch. It may jump forwards or backwards."""
        ...

    def now_ns(self) -> int:
        """Return the same wall time in nanoseconds."""
        ...

    def ticks(self) -> int:
        """Return a steady count of nanoseconds, for metrics only."""
        ...

    def cpu_ns(self) -> int:
        """Return the nanoseconds that this thread has run on a CPU; a reading takes about half a microsecond."""
        ...


class SystemClock:
    """The machine's clock."""

    def now_ms(self) -> int:
        """Return wall time in milliseconds since the epoch."""
        return time.time_ns() // 1_000_000

    now_ns = staticmethod(time.time_ns)
    """Return wall time in nanoseconds; read in every turn that appends, so nothing stands in between."""

    ticks = staticmethod(time.perf_counter_ns)
    """Return a steady count of nanoseconds; read twice for every send that is timed, so nothing stands in between."""

    cpu_ns = staticmethod(time.thread_time_ns)
    """Return the nanoseconds that this thread has run on a CPU; read twice for every read of a server."""


def elapsed_ms() -> int:
    """Return the running event loop's time in milliseconds: it only moves forward, from an arbitrary start."""
    return int(asyncio.get_running_loop().time() * 1000)


def block(seconds: float) -> None:
    """Let this thread do nothing for a while. Never call it on a loop."""
    threading.Event().wait(seconds)
