"""A slice: half messages that end in one turn. Their records are appended one after the other, their op messages last.

A write that fails undoes the records that were not handed to the disk: all of a slice or its last ones, because an
append writes what waits before it when the segment or the list is full. So every half message of a slice is known with
the end of its record. After an error those above the tail of the log are taken back, and are pending as before. Those
below stay over: their op messages are owed, and the next slice appends them.
"""

from firearrow.broker.transaction.journal import Journal
from firearrow.broker.transaction.ledger import Outcome
from firearrow.errors import FireArrowError


class Slice:
    """Half messages that end together. Appending, and `close`, happen in one turn of the loop."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._over: dict[int, int] = {}
        self._error: FireArrowError | None = None
        self._is_ended = True

    def over(self, offset: int, outcome: Outcome, end: int = 0) -> None:
        """Note that a half message is over; ``end`` is that of the record which says so, if there is one."""
        self._journal.ledger.announce(offset, outcome)
        self._over[offset] = end

    def failed(self, error: FireArrowError) -> None:
        """Take back what the log has undone. Call it at once when an append raises."""
        tail = self._journal.tail
        for offset in [offset for offset, end in self._over.items() if end > tail]:
            del self._over[offset]
            self._error = error
            self._journal.take_back(offset)

    def close(self) -> int:
        """Append the op messages, those that are owed too; return the end up to which the log must be kept."""
        journal = self._journal
        self._over = journal.owed | self._over
        journal.owed = {}
        try:
            return journal.append_ops(self._over)
        except FireArrowError as error:
            self.lost(error)
            return max(self._over.values(), default=0)

    def lost(self, error: FireArrowError) -> None:
        """Note that the op messages, and perhaps records before them, are not kept."""
        self.failed(error)
        self._error, self._is_ended = error, False
        self._journal.owed |= self._over

    def error_of(self, offset: int) -> FireArrowError | None:
        """Return why the end of a half message is not kept; None when it is."""
        return None if self._is_ended and offset in self._over else self._error

    async def kept(self, *, is_flushed: bool = False) -> int:
        """Close, and wait until everything is kept, or flushed; return its end, or raise the error when something is
        not."""
        end = self.close()
        try:
            await self._journal.kept(end, is_flushed=is_flushed)
        except FireArrowError as error:
            self.lost(error)
        if self._error is not None:
            raise self._error
        return end
