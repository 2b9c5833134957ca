"""Bad ranges of the log: what they are, and their bytes, kept in ``quarantine/``.

A range of kind ``damage`` stays where it is and readers go round it; one of kind ``cut`` was taken off the end of the
log. Nothing is cut or skipped before its bytes and its entry are durable. Bytes that are all zero are not worth a copy.

Invariant: ranges of kind ``damage`` are in order and apart.
"""

from bisect import bisect_right, insort
from collections.abc import AsyncIterator
from typing import Final

import msgspec

from firearrow.runtime.clock import Clock
from firearrow.runtime.disk import Disk
from firearrow.store.paths import DAMAGE, QUARANTINE, quarantine_path
from firearrow.store.sealed import read_sealed, write_sealed
from firearrow.store.segments import Segments

PIECE_BYTES: Final = 1 << 20
MAX_ENTRIES: Final = 10_000
"""Entries kept in the file; the oldest of kind ``cut`` go first."""
_ZEROS: Final = bytes(PIECE_BYTES)


class BadRange(msgspec.Struct, frozen=True, array_like=True, order=True):
    """Bytes of the log that are no good."""

    start: int
    end: int
    reason: str
    found_ms: int
    kind: str = "damage"


class _Contents(msgspec.Struct):
    bad: list[BadRange] = []


class Damage:
    """The table of bad ranges, on disk."""

    def __init__(self, disk: Disk, clock: Clock, known: list[BadRange]) -> None:
        self._disk = disk
        self._clock = clock
        self._skipped = sorted(bad for bad in known if bad.kind == "damage")
        self._cut = [bad for bad in known if bad.kind == "cut"]
        self._to_keep: list[BadRange] = []

    @classmethod
    async def load(cls, disk: Disk, clock: Clock) -> "Damage":
        """Read the table; none when there is no file."""
        contents = await read_sealed(disk, DAMAGE, _Contents)
        return cls(disk, clock, contents.bad if contents else [])

    def __len__(self) -> int:
        return len(self._skipped)

    def as_list(self) -> list[BadRange]:
        """Everything known, in order of place."""
        return sorted(self._skipped + self._cut)

    def covers(self, physical: int) -> BadRange | None:
        """The bad range that an offset lies in."""
        at = bisect_right(self._skipped, physical, key=_start) - 1
        return self._skipped[at] if at >= 0 and physical < self._skipped[at].end else None

    def next_good(self, physical: int) -> int:
        """The offset itself, or the end of the bad range that it lies in."""
        bad = self.covers(physical)
        return physical if bad is None else bad.end

    def report(self, start: int, end: int, reason: str) -> None:
        """Let readers go round a range from now on. `keep` makes that durable."""
        if self.covers(start) is None:
            bad = BadRange(start, end, reason, self._clock.now_ms())
            insort(self._skipped, bad)
            self._to_keep.append(bad)

    async def keep(self, segments: Segments) -> None:
        """Copy what was reported to quarantine, and the table to its file."""
        reported = list(self._to_keep)
        if not reported:
            return
        for bad in reported:
            last = await _end_of_data(segments, bad.start, bad.end)
            await self._copy(segments, bad.start, last, quarantine_path(bad.start, bad.end))
        await self._save()
        self._to_keep = [bad for bad in self._to_keep if bad not in reported]

    async def cut(self, segments: Segments, start: int, end: int, reason: str) -> int:
        """Keep the bytes that will be taken off the end of the log; return where those that are not zero end."""
        last = await _end_of_data(segments, start, end)
        if last > start:
            await self._copy(segments, start, last, quarantine_path(start, last))
            self._cut.append(BadRange(start, last, reason, self._clock.now_ms(), "cut"))
            await self._save()
        return last

    async def clip(self, end: int) -> None:
        """Forget what lay above the new end of the log: other bytes will lie there."""
        kept = [bad for bad in self._skipped if bad.start < end]
        if kept != self._skipped:
            self._skipped = kept
            await self._save()

    async def _save(self) -> None:
        self._cut = self._cut[-MAX_ENTRIES:]
        await write_sealed(self._disk, DAMAGE, _Contents(bad=self._skipped + self._cut))

    async def _copy(self, segments: Segments, start: int, end: int, path: str) -> None:
        """Copy a range of the log to a file, durably."""
        if end == start:
            return
        self._disk.make_directory(QUARANTINE)
        file = self._disk.open(path, create=True)
        async for at, piece in _pieces(segments, start, end):
            file.write_at(at - start, [piece])
        await file.sync()
        file.close()
        await self._disk.sync_directory(QUARANTINE)
        await self._disk.sync_directory()


def _start(bad: BadRange) -> int:
    return bad.start


async def _pieces(segments: Segments, start: int, end: int) -> AsyncIterator[tuple[int, bytes]]:
    at = start
    while at < end:
        segment = segments.at(at)
        stop = min(end, at - at % segments.size + segments.size)
        # The file may be deleted while its caller does something else.
        while segment is not None and at < stop and segments.at(at) is segment:
            at = min(segment.start + segment.file.next_data(at - segment.start), stop)
            piece = await segment.file.read(at - segment.start, min(PIECE_BYTES, stop - at))
            if not piece:
                break
            yield at, piece
            at += len(piece)
        at = stop


async def _end_of_data(segments: Segments, start: int, end: int) -> int:
    last = start
    async for at, piece in _pieces(segments, start, end):
        if piece != _ZEROS[: len(piece)]:
            last = at + len(piece.rstrip(b"\0"))
    return last
