"""The line of calls that wait until their peer reads: first come, first served, and by size.

When the peer reads again, all waiting calls at once would be more than may wait to be sent. So a turn of the loop
admits calls for so many bytes, at least one call, and the next turn goes on if these bytes have left.
"""

import asyncio
from collections import deque
from typing import Final

HEADER_BYTES: Final = 1024
"""The bytes that a call counts in addition to its body."""


class WriteLine:
    """Calls that wait, each with the bytes that it is going to send.

    A call that may go on is in the line until it does: a newcomer of the same turn would come before it otherwise.
    """

    def __init__(self) -> None:
        self._waiting: deque[tuple[asyncio.Future[None], int]] = deque()
        self._leaving = 0

    def __len__(self) -> int:
        return len(self._waiting) + self._leaving

    def join(self, size: int) -> asyncio.Future[None]:
        """Return a future that is done when it is the call's turn; a call that gives up cancels it. Then `leave`."""
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((turn, size + HEADER_BYTES))
        return turn

    def leave(self, turn: asyncio.Future[None]) -> None:
        """Note that a call goes on, or has given up."""
        if not (turn.cancel() or turn.cancelled()):
            self._leaving -= 1

    def admit(self, room: float) -> bool:
        """Let calls go on until ``room`` bytes are given away: the last one may take more than is left.

        Return whether other calls wait.
        """
        while self._waiting and room > 0:
            turn, size = self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                self._leaving += 1
                room -= size
        return bool(self._waiting)
