"""Long work in turns: others run on the loop after every so much of it."""

from asyncio import sleep


class Pace:
    """Counts work, and lets others run whenever enough of it is done."""

    __slots__ = ("_at_once", "_done")

    def __init__(self, at_once: int) -> None:
        self._at_once = at_once
        self._done = 0

    async def did(self, work: int = 1) -> None:
        """So much is done."""
        self._done += work
        if self._done >= self._at_once:
            self._done = 0
            await sleep(0)
