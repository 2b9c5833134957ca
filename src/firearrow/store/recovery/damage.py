"""Bad ranges of the log: a table of them, and copies of their bytes in ``quarantine/``.

A range of kind ``damage`` stays in the log and readers skip it; a range of kind ``cut`` was removed from the log's end.
A range is cut or skipped only when the copy and the entry in the table are durable. All-zero bytes are not copied.

Invariant: ranges of kind ``damage`` are in order and do not overlap.
"""

from bisect import bisect_right, insort
from collections.abc import AsyncIterator
from typing import Final

import msgspec

from firearrow.runtime.clock import Clock
from firearrow.runtime.disk.door import Disk
from firearrow.store.log.segments import Segments
from firearrow.store.paths import DAMAGE, QUARANTINE, quarantine_path
from firearrow.store.sidecars.sealed_json import read_sealed, write_sealed

PIECE_BYTES: Final = 1 << 20
MAX_ENTRIES: Final = 10_000
"""The most entries in the file; the oldest of kind ``cut`` are dropped first."""
_ZEROS: Final = bytes(PIECE_BYTES)


class BadRange(msgspec.Struct, frozen=True, array_like=True, order=True):
    """A range of the log that failed its checks."""

    start: int
    end: int
    reason: str
    found_ms: int
    kind: str = "damage"


class _DamageContents(msgspec.Struct):
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
        """Read the table; empty when there is no file."""
        contents = await read_sealed(disk, DAMAGE, _DamageContents)
        return cls(disk, clock, contents.bad if contents else [])

    def __len__(self) -> int:
        return len(self._skipped)

    def as_list(self) -> list[BadRange]:
        """All bad ranges, in order of offset."""
        return sorted(self._skipped + self._cut)

    def covers(self, physical: int) -> BadRange | None:
        """The bad range that an offset lies in, else None."""
        at = bisect_right(self._skipped, physical, key=_start) - 1
        return self._skipped[at] if at >= 0 and physical < self._skipped[at].end else None

    def next_good(self, physical: int) -> int:
        """The offset itself, or the end of the bad range that it lies in."""
        bad = self.covers(physical)
        return physical if bad is None else bad.end

    def report(self, start: int, end: int, reason: str) -> None:
        """Make readers skip a range from now on. `keep` makes that durable."""
        if self.covers(start) is None:
            bad = BadRange(start, end, reason, self._clock.now_ms())
            insort(self._skipped, bad)
            self._to_keep.append(bad)

    async def keep(self, segments: Segments) -> None:
        """Copy reported ranges to quarantine, and write the table to its file."""
        reported = list(self._to_keep)
        if not reported:
            return
        for bad in reported:
            last = await _end_of_data(segments, bad.start, bad.end)
            await self._copy(segments, bad.start, last, quarantine_path(bad.start, bad.end))
        await self._save()
        self._to_keep = [bad for bad in self._to_keep if bad not in reported]

    async def cut(self, segments: Segments, start: int, end: int, reason: str) -> int:
        """Copy the bytes that will be cut off the log's end; return where the bytes that are not zero end."""
        last = await _end_of_data(segments, start, end)
        if last > start:
            await self._copy(segments, start, last, quarantine_path(start, last))
            self._cut.append(BadRange(start, last, reason, self._clock.now_ms(), "cut"))
            await self._save()
        return last

    async def mended(self, bad: BadRange) -> None:
        """Let readers have a range again, durably: its bytes are good now."""
        self._skipped = [other for other in self._skipped if other != bad]
        await self._save()

    async def clip(self, end: int) -> None:
        """Drop ranges above the new end of the log: other bytes will be written there."""
        kept = [bad for bad in self._skipped if bad.start < end]
        if kept != self._skipped:
            self._skipped = kept
            await self._save()

    async def _save(self) -> None:
        self._cut = self._cut[-MAX_ENTRIES:]
        await write_sealed(self._disk, DAMAGE, _DamageContents(bad=self._skipped + self._cut))

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
        # Retention may delete the file while the caller handles the last piece.
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
