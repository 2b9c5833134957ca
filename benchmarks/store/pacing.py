"""Messages that arrive at a steady pace, each with the time from when it was due until it was written."""

import asyncio
import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from firearrow.errors import FireArrowError
from firearrow.record.encode import Draft
from firearrow.store.placement import WRITTEN
from firearrow.store.store import Store


@dataclass(slots=True)
class Latencies:
    """Milliseconds."""

    written: list[float] = field(default_factory=list)
    """From when a message was due until it was written: whatever holds the loop counts."""
    held: list[float] = field(default_factory=list)
    """Times for which the turn of an append held the loop: from the append to the end of its write and dispatch,
    without the time in which the loop could have run and the machine had no CPU for it."""
    clock: list[float] = field(default_factory=list)
    """The same with it."""
    turns: list[float] = field(default_factory=list)
    """Every time the loop was held for a millisecond or more by anything, a flush or the scrub for instance, without
    the time in which there was no CPU."""


class CpuWait:
    """The time for which this thread could have run and no CPU was free."""

    def __init__(self) -> None:
        self._numbers = os.open("/proc/thread-self/schedstat", os.O_RDONLY)

    def __call__(self) -> float:
        """Seconds so far."""
        return int(os.pread(self._numbers, 64, 0).split()[1]) / 1e9

    def close(self) -> None:
        os.close(self._numbers)


async def paced(store: Store, draft_of: Callable[[int], list[Draft]], every: float, seconds: float) -> Latencies:
    """Append what ``draft_of`` gives for 0, 1, 2, ... every so many seconds."""
    latencies = Latencies()
    loop = asyncio.get_running_loop()
    done = loop.create_future()
    cpu_wait = CpuWait()
    began = time.perf_counter()
    number = 0

    def arrive() -> None:
        nonlocal number
        due = began + number * every
        drafts = draft_of(number)
        start, waited = time.perf_counter(), cpu_wait()

        def told(error: FireArrowError | None) -> None:
            assert error is None, error
            latencies.written.append((time.perf_counter() - due) * 1e3)

        for draft in drafts:
            store.append(draft)
        store.on_reached(store.log.tail, WRITTEN, told)
        # In a broker the write comes at the end of the turn; here it is made now, so that its time is known.
        store.log.write_pending()
        took = (time.perf_counter() - start) * 1e3
        latencies.clock.append(took)
        latencies.held.append(max(0.0, took - (cpu_wait() - waited) * 1e3))
        number += 1
        following = began + number * every
        if following - began >= seconds:
            done.set_result(None)
        else:
            wait(following)

    last = (began, cpu_wait())

    def wait(until: float) -> None:
        nonlocal last
        before, last = last, (time.perf_counter(), cpu_wait())
        turn = (last[0] - before[0] - (last[1] - before[1])) * 1e3
        if turn >= 1.0:
            latencies.turns.append(turn)
        left = until - last[0]
        # Timers of the loop count whole milliseconds; and a loop that never sleeps shows what holds it.
        if left <= 0:
            loop.call_soon(arrive)
        else:
            loop.call_soon(wait, until)

    loop.call_soon(arrive)
    await done
    cpu_wait.close()
    return latencies
