"""Pulls of a backlog wait for the sends of their turn: a turn of the loop writes and answers sends first, and then
hands out a bounded number of bytes of backlogs.

A consumer with a backlog pulls again as soon as it is answered, and every answer is large. If such a pull were served
when it is read, it would delay the sends of its turn, and a dozen such pulls would delay those of the next turn too.
So while messages come in, these pulls wait in a line until the turn has read every connection. Then the log writes,
which answers the sends, and the line is served from its head until the turn has handed out its share; the rest is
served in the next turns, in order. A share is at least ``least`` bytes and at least twice the bytes appended, so
consumers catch up however much is sent. An answer larger than the rest of a share is given in full, and is deducted
from the shares of later turns as long as these turns append messages.

Without sends a pull waits here only when its turn has handed out `MOST_IN_A_TURN` already: large answers to many
connections would delay everybody. A pull at the end of its queue never waits here: it has no backlog, and its consumer
needs new messages soon.
"""

from collections import deque
from collections.abc import Callable
from typing import Final, Generic, Protocol, TypeVar

from firearrow.errors import FireArrowError
from firearrow.remoting.handlers import Answer, Call, Later
from firearrow.runtime.turn import Share, mark, soon

PULL_BYTES: Final = 16 << 10
"""The bytes that a pull counts in addition to its messages: a lookup takes as long as handing out so many bytes."""
AHEAD_OF_SENDS: Final = 2
"""Bytes of backlogs handed out for every byte appended."""

MOST_IN_A_TURN: Final = 1 << 20
"""Bytes handed out in a turn of the loop after which further pulls wait."""

T = TypeVar("T")


def share(appended: int, least: int) -> int:
    """Return how many bytes of backlogs to hand out in a turn that has appended ``appended`` bytes."""
    return max(least, appended * AHEAD_OF_SENDS)


class Log(Protocol):
    """The part of the commit log that this module uses."""

    tail: int

    def write_pending(self) -> FireArrowError | None:
        """Hand appended records to the disk, and call the waiters for written records."""
        ...


class BacklogLine(Generic[T]):
    """Pulls that wait for the sends of their turn. ``T`` is what ``hand_out`` needs to serve a pull.

    With ``least`` of 0 no pull waits.
    """

    def __init__(self, commit_log: Log, hand_out: Callable[[T, Call], Answer | Later], least: int) -> None:
        self.least = least
        self._log = commit_log
        self._hand_out = hand_out
        self._line: deque[tuple[T, Call]] = deque()
        self._seen = commit_log.tail
        self._debt = 0
        self._handed = 0

    def __len__(self) -> int:
        return len(self._line)

    @property
    def is_open(self) -> bool:
        """Whether a pull of a backlog should wait: other pulls wait, or messages came since the line was served."""
        return self.least > 0 and (bool(self._line) or self._log.tail != self._seen)

    @property
    def is_full(self) -> bool:
        """Whether this turn of the loop has handed out so much that other pulls wait."""
        return self.least > 0 and (self._handed >= MOST_IN_A_TURN or bool(self._line))

    def handed(self, size: int) -> None:
        """Count the bytes of an answer to a pull that did not wait here."""
        if size and not self._handed:
            mark(self._begin_turn)
        self._handed += size

    def _begin_turn(self) -> None:
        self._handed = 0

    def add(self, pull: T, call: Call) -> Later:
        """Add a pull to the line; it is answered in this turn of the loop or a later one."""
        later = call.later()
        if not self._line:
            soon(Share.PULL, self._serve)
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
            soon(Share.PULL, self._serve)

    def _answer(self, pull: T, call: Call) -> int:
        """Serve one pull; return how many bytes of messages it was handed."""
        later = call.later()
        if not later.is_owed:
            return 0
        try:
            answer = self._hand_out(pull, call)
        except Exception as error:  # noqa: BLE001 - the other pulls in the line must still be served
            later.fail(error)
            return 0
        if isinstance(answer, Later):
            return 0
        later.answer(answer)
        return len(answer.body)
