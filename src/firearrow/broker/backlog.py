"""Readers of a backlog behind those who send: in one turn of the loop sends are written and answered first, and what is
handed out of a backlog after that is bounded.

A reader far behind asks again as soon as it is answered, and every answer is large. Served where it is read, each of
its pulls would delay the sends of its turn, and a dozen of them would make the turn long for whoever sends next. So
while messages come in, such pulls wait in a line until the turn has read everything. Then the log writes, which answers
the sends, and the line is served from its head until the turn has handed out its share; the rest goes on in the next
turn, in order. A share is at least ``least`` bytes, and grows with what was appended: however much is sent, readers
are handed twice as much, and catch up. An answer that is larger than what is left of a share is given all the same, and
counts in the turns after it as long as they bring sends.

Without sends nothing waits here. A pull at the end of its queue never does: it has no backlog, and its reader is in a
hurry.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final, Generic, Protocol, TypeVar

from firearrow.errors import FireArrowError
from firearrow.remoting.handlers import Answer, Call, Later

PULL_BYTES: Final = 16 << 10
"""What a pull counts beside its messages: finding them takes as long as handing out so many bytes."""
AHEAD_OF_SENDS: Final = 2
"""Bytes handed out for every byte that was appended."""

T = TypeVar("T")


def share(appended: int, least: int) -> int:
    """Bytes of backlogs to hand out in a turn that has appended so many."""
    return max(least, appended * AHEAD_OF_SENDS)


class Log(Protocol):
    """What is asked of the commit log."""

    tail: int

    def write_pending(self) -> FireArrowError | None:
        """Hand what was appended to the disk, and tell those who wait for that."""
        ...


class BacklogLine(Generic[T]):
    """Pulls that wait for the sends of their turn. ``T`` is whatever it takes to hand out messages.

    ``least`` of 0 lets none wait.
    """

    def __init__(self, commit_log: Log, hand_out: Callable[[T, Call], Answer | Later], least: int) -> None:
        self.least = least
        self._log = commit_log
        self._hand_out = hand_out
        self._line: deque[tuple[T, Call]] = deque()
        self._seen = commit_log.tail
        self._debt = 0

    def __len__(self) -> int:
        return len(self._line)

    @property
    def is_open(self) -> bool:
        """Whether a pull of a backlog should wait: some do, or messages have come since the last was served."""
        return self.least > 0 and (bool(self._line) or self._log.tail != self._seen)

    def add(self, pull: T, call: Call) -> Later:
        """Let a pull wait; it is answered in this turn of the loop or one of the next."""
        later = call.later()
        if not self._line:
            asyncio.get_running_loop().call_soon(self._serve)
        self._line.append((pull, call))
        return later

    def _serve(self) -> None:
        line, commit_log = self._line, self._log
        commit_log.write_pending()
        appended = commit_log.tail - self._seen
        self._seen = commit_log.tail
        room = share(appended, self.least) - (self._debt if appended else 0)
        while line and room > 0:
            room -= PULL_BYTES + self._answer(*line.popleft())
        self._debt = max(-room, 0)
        if line:
            asyncio.get_running_loop().call_soon(self._serve)

    def _answer(self, pull: T, call: Call) -> int:
        """Serve one; return how many bytes of messages it was handed."""
        later = call.later()
        if not later.is_owed:
            return 0
        try:
            answer = self._hand_out(pull, call)
        except Exception as error:  # noqa: BLE001 - the others in the line must not pay for it
            later.fail(error)
            return 0
        if isinstance(answer, Later):
            return 0
        later.answer(answer)
        return len(answer.body)
