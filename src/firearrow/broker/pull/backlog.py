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

from collections.abc import Callable
from functools import partial
from typing import Final, Generic, Protocol, TypeVar

from firearrow.broker.pull.ending import finish
from firearrow.errors import FireArrowError
from firearrow.remoting.handlers import Answer, Call, Later, Peer
from firearrow.runtime.turn import NS_A_BYTE, Share, ShareBudget, TurnBudgets

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


class LogTail(Protocol):
    """The part of the commit log that this module uses."""

    tail: int

    def write_pending(self) -> FireArrowError | None:
        """Hand appended records to the disk, and call the waiters for written records."""
        ...


class BacklogLine(Generic[T]):
    """Pulls that wait for the sends of their turn. ``T`` is what ``hand_out`` needs to serve a pull.

    With ``least`` of 0 no further pull waits. ``pulls`` is the budget of the pulls that wait for nothing.
    """

    def __init__(
        self,
        budgets: TurnBudgets,
        pulls: ShareBudget,
        commit_log: LogTail,
        hand_out: Callable[[T, Call], Answer | Later],
        least: int,
    ) -> None:
        self.least = least
        self._log = commit_log
        self._turn = budgets.turn
        self._hand_out = hand_out
        self._pulls = pulls
        self._share = budgets.share(Share.PULL, 0, 0, is_timed=False)
        self._share.on_serve = self._begin_turn
        self._seen = commit_log.tail
        self._room = self._handed = 0

    def __len__(self) -> int:
        return self._share.waiting

    @property
    def is_open(self) -> bool:
        """Whether a pull of a backlog should wait: other pulls wait, or messages came since the line was served."""
        return self.least > 0 and (self._log.tail != self._seen or self._share.waiting > 0)

    @property
    def is_full(self) -> bool:
        """Whether this turn of the loop has handed out so much that other pulls wait."""
        return self.least > 0 and (self._share.waiting > 0 or not self._pulls.has_time())

    def handed(self, size: int) -> None:
        """Count the bytes of an answer to a pull that did not wait here."""
        self._pulls.spent(size * NS_A_BYTE)

    def add(self, pull: T, call: Call) -> Later:
        """Add a pull to the line; it is answered in this turn of the loop or a later one."""
        later = call.later()
        self._share.add(later.peer, partial(self._serve_one, pull, call), later.peer.address.host)
        return later

    def drop(self, peer: Peer) -> None:
        """Forget the pulls of a connection that has ended."""
        self._share.drop(peer)

    def _begin_turn(self) -> None:
        """Let sends be answered, and reckon how much this turn hands out."""
        commit_log = self._log
        self._turn.run(Share.WRITE, commit_log.write_pending, ())
        appended = commit_log.tail - self._seen
        self._seen = commit_log.tail
        debt = max(self._handed - self._room, 0)
        self._room = share(appended, self.least or MOST_IN_A_TURN) - (debt if appended else 0)
        self._handed = 0
        self._share.part_ns = self._share.most_ns = max(self._room, 0) * NS_A_BYTE

    def _serve_one(self, pull: T, call: Call) -> bool:
        size = PULL_BYTES + finish(call.later(), partial(self._hand_out, pull, call))
        self._handed += size
        self._share.spent(size * NS_A_BYTE)
        return True
