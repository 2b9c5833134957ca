"""The changes of the tables that the replicas of an epoch have, as they reported.

A replica tells the number of the last change that it has durably, with the number of its directory, which only the
members of the group know. A change is confirmed when every replica that is in sync, or proposed to be, has told so. A
replica joins the in-sync set only when it has every confirmed change. A report counts for the directory that told it: a
replica whose disk was replaced has nothing, and one that left the in-sync set tells anew. Members of older versions
tell nothing, and are not waited for.
"""

from collections.abc import Callable, Container
from typing import Final

from firearrow.broker.failover.in_sync_set import InSyncSet
from firearrow.broker.replication.confirmation import Confirmation
from firearrow.broker.tables.table_changes import TableChanges

NOTHING: Final = -1


class TableReports:
    """Counts what the replicas of one epoch have taken."""

    def __init__(self, changes: TableChanges, in_sync: Callable[[], InSyncSet], timeout_ms: Callable[[], int]) -> None:
        self._changes = changes
        self._in_sync = in_sync
        self._taken: dict[tuple[int, int], int] = {}
        """By replica and directory."""
        self.old: frozenset[int] = frozenset()
        """Live members that do not tell what they have taken: their version is older."""
        self.line: Final = Confirmation(timeout_ms, self._is_near)
        self.line.confirmed = 0
        changes.replicas = self.line

    @property
    def number(self) -> int:
        """The number of the last change."""
        return self._changes.number

    def knows(self, replica: int, epoch: int, directory: int) -> bool:
        """Whether this is a replica of the epoch, with the directory that the group knows."""
        group = self._in_sync().group
        return epoch == group.epoch and (replica, directory) in group.directories

    def reported(self, replica: int, number: int) -> None:
        """Take what a known replica told: the number of the last change that it has."""
        if number <= self.number:
            directory = self._in_sync().group.directory_of(replica)
            self._taken[replica, directory] = max(number, self._has(replica))
            self.look()

    def left(self, replicas: Container[int]) -> None:
        """Forget what replicas told that have left the in-sync set: they tell anew before they join again."""
        known = self._in_sync().group.directories
        self._taken = {one: told for one, told in self._taken.items() if one in known and one[0] not in replicas}

    def _has(self, replica: int) -> int:
        """Return the last change that a replica has in the directory that the group knows."""
        return self._taken.get((replica, self._in_sync().group.directory_of(replica)), NOTHING)

    def look(self) -> None:
        """Find out what is confirmed now."""
        in_sync = self._in_sync()
        waited_for = in_sync.largest - self.old - {in_sync.group.master}
        has = min([self.number, *(self._has(replica) for replica in waited_for)])
        if has > self.line.confirmed:
            self.line.confirm(has)

    def has_tables(self, replica: int) -> bool:
        """Whether a replica has every change that may have been answered."""
        return replica in self.old or self._has(replica) >= self.line.confirmed

    def _is_near(self, _number: int) -> bool:
        self.look()
        return True
