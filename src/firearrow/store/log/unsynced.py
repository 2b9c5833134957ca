"""The changes that the next sync of the log must make durable: written segments, and the cut after a failed write.

Invariant: until that cut is durable nothing is appended and no waiter is called with the error, because a lost cut
would bring the failed records back.
"""

from collections.abc import Callable, Iterable

from firearrow.errors import DiskError, FireArrowError
from firearrow.store.log.segments import Segment
from firearrow.store.log.waiters import OnReached


class UnsyncedSegments:
    """Segments with unsynced bytes, oldest first, and the waiters of a failed write."""

    __slots__ = ("_cut_is_taken", "_dirty", "_refused", "on_shortage", "taken_back")

    def __init__(self) -> None:
        self.taken_back: DiskError | None = None
        """The error of a failed write whose cut is not durable yet; None if there is none."""
        self.on_shortage: Callable[[], None] = lambda: None
        """Called when a write failed because there was no room, or no other resource, for it."""
        self._dirty: list[Segment] = []
        self._cut_is_taken = False
        self._refused: list[OnReached] = []

    def add(self, segment: Segment) -> None:
        """Add a segment to the next sync."""
        segment.unsynced = True
        self._dirty.append(segment)

    def take_back(self, error: DiskError, segment: Segment, refused: Iterable[OnReached]) -> None:
        """Add the cut of a failed write to the next sync; the waiters ``refused`` get the error after it."""
        self.taken_back, self._cut_is_taken = error, False
        self.on_shortage()
        if not segment.unsynced:
            self.add(segment)
        self._refused += refused

    def take(self) -> list[Segment]:
        """Return the segments with unsynced bytes, oldest first; they count as clean from now on."""
        dirty, self._dirty = self._dirty, []
        for segment in dirty:
            segment.unsynced = False
        self._cut_is_taken = self.taken_back is not None
        return dirty

    def give_back(self, dirty: list[Segment]) -> None:
        """Mark segments as unsynced again: their sync did not end."""
        for segment in dirty:
            segment.unsynced = True
        self._dirty = dirty + [segment for segment in self._dirty if segment not in dirty]

    def were_synced(self) -> None:
        """Note that the segments of the last `take`, and a cut among them, are durable."""
        if self._cut_is_taken:
            error, self.taken_back = self.taken_back, None
            self.refuse(error)

    def refuse(self, error: FireArrowError | None) -> None:
        """Call the waiters of a failed write with the error."""
        refused, self._refused = self._refused, []
        for call in refused:
            call(error)
