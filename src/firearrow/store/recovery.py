"""From files of unknown state to a log with a known end.

What is below the flushed offset was promised: a bad record there is damage, is kept in quarantine, and everything after
it stays. What is above it was written and perhaps never stored:

* after a loss of power (another boot id) any page may be missing, so the first bad record starts the tail;
* after the death of the process every write is there in its order, so only the last can be partial: a bad record with
  a good one behind it is damage, one with nothing behind it is the tail;
* in a log whose flushed offset we do not know (Apache's, or a rotten slot) likewise, so that no good record is cut
  because a bad one lies before it.

The tail is copied to quarantine, cut, and the cut synced before anything else happens. A crash anywhere in here leads
to the same decision again. Java, for the place to start: ``CommitLog.recoverNormally``, ``recoverAbnormally``.
"""

import logging
from enum import Enum
from typing import Final, NamedTuple

from firearrow.runtime.disk import Disk
from firearrow.store.damage import PIECE_BYTES, Damage
from firearrow.store.ranges import Ranges
from firearrow.store.scan import Scanner, Stop
from firearrow.store.segments import Segment, Segments, sync_names
from firearrow.store.sidecar import FlushSlot

APACHE_CLEAN_SEGMENTS: Final = 3
"""How many segments Apache 4.9 checks after an orderly exit."""

logger = logging.getLogger(__name__)


class Ending(Enum):
    """How the last run ended, as far as the log is concerned."""

    POWER = "the power was lost"
    CLOSED = "in order"
    PROCESS = "the process died"
    UNKNOWN = "another program wrote last, or nothing is recorded"


class Known(NamedTuple):
    """What is known before a byte of the log is read."""

    ending: Ending
    flushed: int
    """Everything below was promised; -1 when nothing is known."""
    start: int
    """The start of a record, from where to check."""


class Recovered(NamedTuple):
    """The log after recovery."""

    end: int
    checked_from: int
    last_store_ms: int
    damaged: int
    cut_bytes: int


def known_from_slot(slot: FlushSlot, boot_id: str, min_offset: int) -> Known:
    """What our own slot tells."""
    same = boot_id != "" and slot.boot_id == boot_id
    ending = Ending.CLOSED if slot.closed else Ending.PROCESS if same else Ending.POWER
    return Known(ending, slot.flushed, check_from(slot, slot.flushed, min_offset))


def check_from(slot: FlushSlot, flushed: int, min_offset: int) -> int:
    """The start of a record not far below the flushed offset.

    The oldest segment starts above it only when the power took every name before: then nothing was flushed there.
    """
    return min(max(slot.boundary, min_offset), flushed)


async def known_from_apache(segments: Segments, scanner: Scanner, *, died: bool, checkpoint_ms: int) -> Known:
    """What Apache's files tell: where to start, and nothing about what was promised."""
    in_order = [segment for segment in segments if await scanner.is_good(segment.start)]
    if not in_order:
        return Known(Ending.UNKNOWN, -1, segments.min_offset)
    if not died:
        return Known(Ending.UNKNOWN, -1, in_order[-APACHE_CLEAN_SEGMENTS:][0].start)
    for segment in reversed(in_order):
        if await _first_store_ms(scanner, segment) <= checkpoint_ms:
            return Known(Ending.UNKNOWN, -1, segment.start)
    return Known(Ending.UNKNOWN, -1, in_order[0].start)


async def _first_store_ms(scanner: Scanner, segment: Segment) -> int:
    walked = await scanner.walk(segment.start, segment.end)
    return walked.heads[0].store_timestamp if walked.heads else 0


async def trim_ranges(segments: Segments, ranges: Ranges) -> int:
    """End our ranges at the last record with a right stamp: another program wrote on from there. Return that place.

    Newest segment first; a segment without a single stamped record in our ranges says nothing.
    """
    scanner = Scanner(segments, ranges)
    for segment in reversed(list(segments)):
        if ranges.end is not None and segment.start >= ranges.end:
            continue
        last = await _last_stamped(scanner, segment, ranges)
        if last is not None:
            ranges.finish(last)
            return last
    ranges.finish(segments.min_offset)
    return segments.min_offset


async def _last_stamped(scanner: Scanner, segment: Segment, ranges: Ranges) -> int | None:
    last = None
    at = segment.start
    while at < segment.end:
        walked = await scanner.walk(at)
        for head in walked.heads:
            if ranges.covers(head.physical_offset):
                last = head.physical_offset + head.size
        at = walked.end
        if walked.stop in (Stop.BAD, Stop.FOREIGN):
            following = await scanner.next_good(at, segment.end)
            if following is None:
                return last
            at = following
    return last


class ForeignRecord(Exception):
    """A record inside our ranges is another program's: the ranges must be trimmed first."""


class Recovery:
    """One recovery of one log. Nothing is changed before the whole log was read."""

    def __init__(self, disk: Disk, segments: Segments, scanner: Scanner, damage: Damage, known: Known) -> None:
        self._disk = disk
        self._segments = segments
        self._scanner = scanner
        self._damage = damage
        self._known = known
        self._last_store_ms = 0

    async def run(self) -> Recovered:
        """Find the end of the log, keep and cut what is behind it, and make all of it durable."""
        at = self._known.start
        found: list[tuple[int, int, str]] = []
        while True:
            at, bad = await self._good_until(at)
            following = None if bad is None else await self._after_bad(at)
            if bad is None or following is None:
                break
            found.append((at, following, bad))
            at = following
        known_before = len(self._damage)
        for start, end, reason in found:
            self._damage.report(start, end, reason)
        await self._damage.keep(self._segments)
        # After an orderly end there is nothing behind the end, and no need to look.
        cut = 0 if self._known.ending is Ending.CLOSED else await self._cut(at)
        damaged = len(self._damage) - known_before
        if damaged or cut:
            logger.error("the log was not whole", extra={"damaged_ranges": damaged, "cut_bytes": cut, "end": at})
        await self._damage.clip(at)
        if self._known.flushed >= 0:
            await self._write_again(self._known.flushed, at)
        await self._make_durable()
        return Recovered(at, self._known.start, self._last_store_ms, damaged, cut)

    async def _good_until(self, at: int) -> tuple[int, str | None]:
        """Walk good records; return where they end, and what is wrong there (None: nothing, the files end)."""
        while True:
            if self._segments.at(at) is None and at >= max(self._segments.max_offset, self._known.flushed):
                return at, None
            walked = await self._scanner.walk(at)
            if walked.heads:
                self._last_store_ms = max(self._last_store_ms, walked.heads[-1].store_timestamp)
            at = walked.end
            if walked.stop is Stop.FOREIGN and self._known.ending is not Ending.UNKNOWN:
                raise ForeignRecord
            if walked.stop in (Stop.BAD, Stop.FOREIGN):
                return at, walked.reason

    async def _after_bad(self, bad: int) -> int | None:
        """Where the log goes on after a bad record, or None when its tail starts there."""
        ending, flushed, _ = self._known
        if bad < flushed:
            found = await self._scanner.next_good(bad, flushed)
            # What was flushed always ends where a record ends.
            return flushed if found is None else found
        if ending in (Ending.POWER, Ending.CLOSED):
            return None
        return await self._scanner.next_good(bad, self._segments.max_offset)

    async def _cut(self, end: int) -> int:
        """Take everything from ``end`` on off the log, after keeping what is not zero."""
        last = await self._damage.cut(self._segments, end, max(end, self._segments.max_offset), "behind the log's end")
        if last <= end:
            return 0
        for segment in reversed(list(self._segments)):
            if segment.start >= end:
                await self._segments.remove(segment)
        segment_at_end = self._segments.at(end)
        if segment_at_end is not None:
            segment_at_end.file.truncate(end - segment_at_end.start)
            segment_at_end.file.truncate(self._segments.size)
        return last - end

    async def _write_again(self, start: int, end: int) -> None:
        """Make the kernel store what a failed sync of the last run let it forget, though it shows it as if stored."""
        at = start
        while at < end:
            segment = self._segments.at(at)
            stop = min(end, at - at % self._segments.size + self._segments.size)
            while segment is not None and at < stop:
                piece = await segment.file.read(at - segment.start, min(PIECE_BYTES, stop - at))
                segment.file.write_at(at - segment.start, [piece])
                at += len(piece)
            at = stop

    async def _make_durable(self) -> None:
        """Sync every segment that may hold bytes nobody synced, and the names of all."""
        for segment in self._segments:
            if segment.unsynced or segment.end > self._known.start or self._known.ending is Ending.UNKNOWN:
                await segment.file.sync()
                segment.unsynced = False
        await sync_names(self._disk)
        for segment in self._segments:
            segment.named = True
