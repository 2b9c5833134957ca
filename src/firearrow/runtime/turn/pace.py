"""Pauses of coroutines: they let the loop run between two pieces of their work.

A background task rests wherever it lets the loop run, once it has worked for `REST_AFTER_NS`.
"""

import asyncio
import types
from collections.abc import Generator
from typing import Any, Final

from firearrow.runtime.turn.turn import ChargedCoroutine, Turn, watched

PIECE_S: Final = 0.001
"""Seconds of work after which a `Pace` lets the loop run, however few steps are done; a loop counts whole
milliseconds."""
REST_S: Final = 0.001
"""Seconds for which a `Pace` that rests pauses after each such piece, and for which background work rests at least."""
REST_AFTER_NS: Final = 1_000_000
"""CPU time after which background work rests."""
OTHERS: Final = 19
"""While others keep the loop busy, background work rests for this multiple of its CPU time: it takes a twentieth."""
MOST_OWED_NS: Final = 20_000_000
"""The most CPU time for which background work rests at once."""


@types.coroutine
def _let_run() -> Generator[None, None, None]:
    yield


async def breathe() -> None:
    """Let the loop run what is ready; a background task rests. Never awaited under a lock that requests wait for."""
    if not await rest():
        await _let_run()


async def rest() -> bool:
    """Let a background task rest if it has worked for `REST_AFTER_NS`; return whether it did."""
    turn = watched()
    task = None if turn is None else turn.background_task
    if turn is None or task is None or task.owed_ns < REST_AFTER_NS:
        return False
    await _rest(turn, task)
    return True


async def _rest(turn: Turn, task: ChargedCoroutine[Any]) -> None:
    """Rest until the loop was idle for as long as the task has worked, or for `OTHERS` times as long.

    The time in which this thread had no CPU counts as idle, also where another process had it.
    """
    loop = asyncio.get_running_loop()
    began_s, began_cpu_ns = loop.time(), turn.cpu_ns()
    await asyncio.sleep(REST_S)
    owed_ns = min(task.take_owed(), MOST_OWED_NS)
    while True:
        rested_ns = int((loop.time() - began_s) * 1e9)
        idle_ns = rested_ns - (turn.cpu_ns() - began_cpu_ns)
        if idle_ns >= owed_ns or rested_ns >= OTHERS * owed_ns:
            return
        await asyncio.sleep(REST_S)


class Pace:
    """Counts steps of work, and lets the loop run whenever enough are done."""

    __slots__ = ("_at_once", "_began_s", "_done", "_rests")

    def __init__(self, at_once: int, *, rests: bool = False) -> None:
        self._at_once = at_once
        self._rests = rests
        self._done = 0
        self._began_s = 0.0

    async def did(self, work: int = 1) -> None:
        """Count ``work`` steps; let the loop run if it is time."""
        self._done += work
        loop = asyncio.get_running_loop()
        is_long = loop.time() - self._began_s >= PIECE_S
        if is_long or self._done >= self._at_once:
            self._done = 0
            if self._rests and is_long and not _in_background():
                await asyncio.sleep(REST_S)
            else:
                await breathe()
            self._began_s = loop.time()


def _in_background() -> bool:
    turn = watched()
    return turn is not None and turn.background_task is not None
