"""Long work in turns: others run on the loop after every so much of it, or after every so much time."""

from asyncio import get_running_loop, sleep
from typing import Final

TURN_S: Final = 0.001
"""How long work goes on before others get their turn, however little of it is done; loops count whole milliseconds."""
REST_S: Final = 0.001
"""How long work that nobody waits for leaves the loop to others after such a turn."""


class Pace:
    """Counts work, and lets others run whenever enough of it is done."""

    __slots__ = ("_at_once", "_began_s", "_done", "_rest_s")

    def __init__(self, at_once: int, *, rests: bool = False) -> None:
        self._at_once = at_once
        self._rest_s = REST_S if rests else 0.0
        self._done = 0
        self._began_s = 0.0

    async def did(self, work: int = 1) -> None:
        """So much is done."""
        self._done += work
        loop = get_running_loop()
        is_long = loop.time() - self._began_s >= TURN_S
        if is_long or self._done >= self._at_once:
            self._done = 0
            await sleep(self._rest_s if is_long else 0)
            self._began_s = loop.time()
