"""Long work that yields to the event loop after a number of steps or a time."""

from asyncio import get_running_loop, sleep
from typing import Final

TURN_S: Final = 0.001
"""Seconds of work after which the loop runs, however few steps are done; a loop counts whole milliseconds."""
REST_S: Final = 0.001
"""Seconds that background work pauses after each such time."""


class Pace:
    """Counts steps of work, and yields to the loop whenever enough are done."""

    __slots__ = ("_at_once", "_began_s", "_done", "_rest_s")

    def __init__(self, at_once: int, *, rests: bool = False) -> None:
        self._at_once = at_once
        self._rest_s = REST_S if rests else 0.0
        self._done = 0
        self._began_s = 0.0

    async def did(self, work: int = 1) -> None:
        """Count ``work`` steps; yield to the loop if it is time."""
        self._done += work
        loop = get_running_loop()
        is_long = loop.time() - self._began_s >= TURN_S
        if is_long or self._done >= self._at_once:
            self._done = 0
            await sleep(self._rest_s if is_long else 0)
            self._began_s = loop.time()
