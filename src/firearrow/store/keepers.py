"""Messages that must outlive their log file: half messages and timed messages that are pending.

Before a log file is deleted, its keepers write their pending messages of it again at the end of the log. Two rules keep
that from doing harm:

- Files that are not expired are deleted only in as far as that frees at least as many bytes as are written again. If
  the log is full of pending messages, writing them again would go on without end and free nothing.
- When the disk has no room to write messages again in `SHORTAGES` rounds in a row, they are given up, with an error
  for each topic or group: the file must go, because a full disk stops the broker. A round in which sends were still
  accepted does not count: that they are refused may be enough. Every other failure keeps the file for another round:
  a lack of open files or memory, and messages that are not where their keeper finds them yet.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Final, NamedTuple, Protocol

from firearrow.errors import DiskFull
from firearrow.store.deletion import LogFile

SHORTAGES: Final = 3
"""Rounds of retention that wait for room on the disk for pending messages, before they are given up."""


class Keeper(Protocol):
    """A part of the broker with messages that must outlive their log file."""

    kept: str
    """The name of the kept messages, for logs: a noun in the plural."""

    async def pending_bytes(self, start: int, end: int) -> int:
        """Return the size of the pending messages whose records lie between two physical offsets."""
        ...

    async def renew_below(self, physical: int) -> None:
        """Write pending messages below a physical offset again, and return when they are durable."""
        ...

    async def drop_below(self, physical: int) -> None:
        """Give the pending messages below a physical offset up, and log which they are."""
        ...


class DeletionWorth(NamedTuple):
    """The number of files that may be deleted, and the pending messages in the files that were looked at."""

    files: int
    size: int
    """Bytes of all files that were looked at."""
    pending: Counter[str]
    """Bytes of pending messages in these files, by kind."""


class Keepers:
    """The keepers of a store."""

    def __init__(self) -> None:
        self.all: list[Keeper] = []
        self._shortages = 0

    def forget_shortages(self) -> None:
        """Begin to count rounds without room anew: a round had no need to write messages again."""
        self._shortages = 0

    async def renew_below(self, physical: int, *, counts: bool = True) -> None:
        """Write pending messages below a physical offset again; give them up after `SHORTAGES` rounds without room.

        ``counts``: whether this is one of these rounds if there is no room.
        """
        for keeper in self.all:
            try:
                await keeper.renew_below(physical)
            except DiskFull:
                self._shortages += counts
                if self._shortages < SHORTAGES:
                    raise
                await keeper.drop_below(physical)
        self._shortages = 0

    async def worth(self, files: Sequence[LogFile], wanted: int) -> DeletionWorth:
        """Return the number of the first ``wanted`` files that may be deleted: the deletion of some frees enough.

        Files behind them are looked at if need be: a part of the log that is full of pending messages is written again
        to get at one that is not.
        """
        size = most = 0
        pending: Counter[str] = Counter()
        for number, file in enumerate(files, 1):
            size += file.size
            for keeper in self.all:
                pending[keeper.kept] += await keeper.pending_bytes(file.start, file.start + file.size)
            if 2 * pending.total() <= size:
                most = number
                if most >= wanted:
                    break
        return DeletionWorth(min(most, wanted), size, +pending)
