"""Epochs: which master wrote which part of a log, and the last point that two logs have in common. Pure.

An epoch is the time of one master: its number, and the physical offset at which the master began to write. An epoch
ends where the next one begins, the last at the end of the log. One master writes in an epoch, and a replica copies
bytes together with their epoch, so two logs that have an epoch with the same start are equal below the smaller of its
two ends. Java: ``Epoch``, ``EpochFileCache``.

Invariant of a history: numbers and starts ascend. An epoch in which nothing was written is dropped when the next one
begins at the same offset.
"""

from itertools import pairwise
from typing import Final

from msgspec import Struct

LARGEST_EPOCH: Final = (1 << 31) - 1
"""The wire and Apache's files have four bytes, with a sign."""


class Epoch(Struct, frozen=True, order=True, gc=False):
    """One epoch of a log."""

    epoch: int
    start_offset: int


class Epochs(Struct, frozen=True):
    """The history of a log: its epochs in order. Raises ``ValueError`` for entries that are no history."""

    entries: tuple[Epoch, ...] = ()

    def __post_init__(self) -> None:
        """Check the invariant."""
        for entry in self.entries:
            if not 0 < entry.epoch <= LARGEST_EPOCH or entry.start_offset < 0:
                raise ValueError(f"{entry} is no epoch of a log")
        for before, after in pairwise(self.entries):
            if after.epoch <= before.epoch or after.start_offset <= before.start_offset:
                raise ValueError(f"{after} cannot follow {before}")

    @property
    def last(self) -> Epoch | None:
        """The newest epoch; None when there is none."""
        return self.entries[-1] if self.entries else None

    def begun(self, epoch: int, start_offset: int) -> "Epochs":
        """The history after a master began to write at an offset; raise ``ValueError`` for an older epoch."""
        kept = self.entries
        if kept and epoch > kept[-1].epoch and start_offset == kept[-1].start_offset:
            kept = kept[:-1]
        return Epochs((*kept, Epoch(epoch, start_offset)))

    def cut(self, offset: int) -> "Epochs":
        """The history of a log that was cut at an offset: without epochs of which nothing is left."""
        return Epochs(tuple(entry for entry in self.entries if entry.start_offset < offset))

    def ended(self, log_end: int) -> "Epochs":
        """The history of a log that ends at an offset: without epochs that begin behind it."""
        return Epochs(tuple(entry for entry in self.entries if entry.start_offset <= log_end))

    def kept_from(self, log_start: int) -> "Epochs":
        """The history without epochs whose bytes were all deleted; the newest stays."""
        ends = [entry.start_offset for entry in self.entries[1:]]
        gone = sum(end <= log_start for end in ends)
        return Epochs(self.entries[gone:])

    def at(self, offset: int) -> Epoch | None:
        """The epoch in which the byte at an offset was written, or will be; None below the first epoch."""
        found = [entry for entry in self.entries if entry.start_offset <= offset]
        return found[-1] if found else None

    def end_of(self, number: int, log_end: int) -> int:
        """The end of the epoch at a place of the list."""
        return self.entries[number + 1].start_offset if number + 1 < len(self.entries) else log_end


def common_end(mine: Epochs, my_end: int, other: Epochs, other_end: int) -> int | None:
    """The offset below which two logs are equal; None when they have no epoch in common.

    Walks back from the newest epoch to the last one that both logs have with the same start. Epochs that only one log
    has, and bytes behind the other's end of the common epoch, are not common.
    """
    places = {entry: number for number, entry in enumerate(other.entries)}
    for number in reversed(range(len(mine.entries))):
        found = places.get(mine.entries[number])
        if found is not None:
            return min(mine.end_of(number, my_end), other.end_of(found, other_end))
    return None
