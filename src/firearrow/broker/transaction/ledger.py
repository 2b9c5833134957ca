"""The ledger: which half messages are pending. A fold over the half queue and the op queue. Pure.

Nothing else changes the ledger: it starts empty at two stored offsets, and every half message and op message from there
on is passed to `took_half` and `took_op`, after a restart as while the broker runs. So running and recovering are the
same code, and there is no file beside the log that could disagree with it.

A half message is *pending* until an op message names its queue offset, or a later half message replaces it:

- one of ours that a check wrote (property PREVIOUS_HALF): the transaction goes on under the new offset. The op message
  for the old offset that follows it is for Apache's broker, which does not know that property;
- a copy that Apache's check wrote (property TRAN_PREPARED_QUEUE_OFFSET). An op message that names the offset of the
  first ends the copy too.

A decision that is appended but whose op message was not folded yet is *announced*: the second of two ends of a
transaction finds the first one there, and changes nothing.

`half_done` and `op_done` are the offsets to store: everything below is over, for this broker and for Apache's.
"""

from collections import deque
from enum import Enum
from typing import Final

from msgspec import Struct

KEPT_BEFORE: Final = 16
"""Earlier offsets of a transaction under which an end is still recognized: the first one and the last ones."""
LOOKED_AT_ONCE: Final = 10_000
"""Most offsets that `Ledger.half_done` looks at in one call: about 1 ms."""
KEPT_OUTCOMES: Final = 65_536
"""At least so many outcomes are kept after the end, at most twice as many: a repeated request gets the same answer."""


class Outcome(Enum):
    """The end of a half message in the half queue."""

    COMMITTED = "committed"
    ROLLED_BACK = "rolled back"
    MOVED = "moved"
    """Replaced by a later half message, or dropped because it is damaged."""
    GIVEN_UP = "given up"
    """Moved to TRANS_CHECK_MAX_TIME_TOPIC after the last question."""


class Half(Struct, frozen=True, gc=False):
    """A pending half message."""

    queue_offset: int
    physical: int
    size: int
    born_ms: int
    group: str
    """The producer group."""
    checks: int = 0
    """The number of questions to producers."""
    immunity_s: int | None = None
    """The seconds of CHECK_IMMUNITY_TIME_IN_SECONDS; None without that property."""
    replaces: int = -1
    """The queue offset of the half message that this one replaces; -1 for the first of a transaction."""
    is_copy: bool = False
    """Whether Apache's check wrote it: then an op message for ``replaces`` ends it."""
    before: tuple[int, ...] = ()
    """Earlier offsets of the transaction."""


class Ledger:
    """The pending half messages of one half queue."""

    def __init__(self, half_next: int, op_next: int) -> None:
        self.half_next = half_next
        """The offset of the next half message to fold."""
        self.op_next = op_next
        """The offset of the next op message to fold."""
        self.pending: dict[int, Half] = {}
        self.pending_bytes = 0
        """The size of the records of all pending half messages."""
        self._announced: dict[int, Outcome] = {}
        self._outcomes: dict[int, Outcome | int] = {}  # an integer is the last offset of the same transaction
        self._older: dict[int, Outcome | int] = {}
        self._successors: dict[int, int] = {}
        self._copied: set[int] = set()
        self._lowest = half_next
        self._ops: deque[tuple[int, int]] = deque()

    # ---- asking

    def now_at(self, offset: int) -> int:
        """Return the offset under which the transaction that was once at ``offset`` is now."""
        following: Outcome | int | None = offset
        while isinstance(following, int):
            offset = following
            following = self._successors.get(offset) or self._outcomes.get(offset) or self._older.get(offset)
        return offset

    def open_at(self, offset: int) -> Half | None:
        """Return the pending half message at ``offset`` unless its end is announced."""
        return None if offset in self._announced else self.pending.get(offset)

    def is_announced(self, offset: int) -> bool:
        """Whether the end of the half message at ``offset`` is appended, and not folded yet."""
        return offset in self._announced

    def outcome_at(self, offset: int) -> Outcome | None:
        """Return how the half message at ``offset`` ended; None when that is not known (any more)."""
        outcome = self._announced.get(offset) or self._outcomes.get(offset) or self._older.get(offset)
        return outcome if isinstance(outcome, Outcome) else None

    @property
    def half_done(self) -> int:
        """The lowest offset of a pending half message; the next offset when none is pending.

        After many have ended behind one it may be lower, until `find_lowest` has looked at all of them.
        """
        self.find_lowest()
        return self._lowest

    def find_lowest(self) -> bool:
        """Look at the next offsets for the lowest pending one; return whether it is found."""
        lowest, pending = self._lowest, self.pending
        end = min(self.half_next, lowest + LOOKED_AT_ONCE)
        while lowest < end and lowest not in pending:
            lowest += 1
        self._lowest = lowest
        return lowest in pending or lowest >= self.half_next

    @property
    def op_done(self) -> int:
        """The offset of the first op message that names a half message at or above `half_done`."""
        done = self.half_done
        while self._ops and self._ops[0][1] < done:
            self._ops.popleft()
        return self._ops[0][0] if self._ops else self.op_next

    @property
    def span(self) -> int:
        """The number of half messages that a restart would fold."""
        return self.half_next - self.half_done

    # ---- folding

    def took_half(self, half: Half) -> None:
        """Fold a half message."""
        offset = half.queue_offset
        self.half_next = offset + 1
        if half.replaces >= 0:
            half = self._replace(half)
        self.pending[offset] = half
        self.pending_bytes += half.size

    def _drop(self, offset: int) -> Half | None:
        half = self.pending.pop(offset, None)
        self.pending_bytes -= 0 if half is None else half.size
        return half

    def _replace(self, half: Half) -> Half:
        replaced = self.now_at(half.replaces)
        old = self._drop(replaced)
        self._announced.pop(replaced, None)
        before = (*(old.before if old is not None else ()), replaced)
        if replaced != half.replaces:
            before = (half.replaces, *(one for one in before if one != half.replaces))
        for forgotten in before[1 : 1 - KEPT_BEFORE]:
            self._forget(forgotten)
        before = (*before[:1], *before[1:][1 - KEPT_BEFORE :])
        for earlier in before:
            self._successors[earlier] = half.queue_offset
        if half.is_copy:
            self._copied.add(half.replaces)
        return Half(
            half.queue_offset, half.physical, half.size, half.born_ms, half.group, half.checks, half.immunity_s,
            half.replaces, half.is_copy, before,
        )  # fmt: skip

    def took_op(self, op_offset: int, offsets: list[int]) -> None:
        """Fold an op message."""
        self.op_next = op_offset + 1
        ended = [self.now_at(offset) if offset in self._copied else offset for offset in offsets]
        for offset in ended:
            self._end(offset)
        highest = max(ended, default=-1)
        if highest >= self.half_done:
            self._ops.append((op_offset, highest))

    def _end(self, offset: int) -> None:
        outcome, half = self._announced.pop(offset, None), self._drop(offset)
        for earlier in half.before if half is not None else ():
            self._forget(earlier)
            if outcome is not None:
                self._outcomes[earlier] = offset
        if outcome is not None:
            self._outcomes[offset] = outcome
            if len(self._outcomes) >= KEPT_OUTCOMES:
                self._older, self._outcomes = self._outcomes, {}

    def _forget(self, offset: int) -> None:
        self._successors.pop(offset, None)
        self._copied.discard(offset)

    def skip_halves(self, until: int) -> None:
        """Fold nothing below ``until``: the queue has no such messages."""
        self.half_next = max(self.half_next, until)

    def skip_ops(self, until: int) -> None:
        """Fold nothing below ``until``: the queue has no such messages."""
        self.op_next = max(self.op_next, until)

    # ---- decisions under way

    def announce(self, offset: int, outcome: Outcome) -> None:
        """Note that the end of a half message is appended to the log."""
        self._announced[offset] = outcome

    def take_back(self, offset: int) -> None:
        """Note that the announced end was not written."""
        self._announced.pop(offset, None)
