"""Recovery: from files of unknown state to a log with a known end.

Records below the flushed offset were acknowledged: a bad record there is damage, is copied to quarantine, and
everything after it stays. Bytes above the flushed offset were written and perhaps never reached the device:

* after a power loss (another boot id) any page may be missing, so the first bad record starts the tail;
* after a crash of the process every write is there, in order, so only the last can be partial: a bad record with a
  good one behind it is damage, a bad record with nothing behind it is the tail;
* in a log whose flushed offset is unknown (Apache's, or a rotten slot) the same rule holds, so that no good record is
  cut because a bad one lies before it.

The tail is copied to quarantine, cut, and the cut is synced before anything else happens. After a crash within recovery
the next recovery decides the same. Java, for the start: ``CommitLog.recoverNormally``, ``recoverAbnormally``.
"""

import logging
from enum import Enum
from typing import Final, NamedTuple

from firearrow.runtime.disk.door import Disk
from firearrow.store.log.segments import Segment, Segments, sync_names
from firearrow.store.recovery.cut import cut_off
from firearrow.store.recovery.damage import PIECE_BYTES, Damage
from firearrow.store.recovery.scan import LogScanner, Stop
from firearrow.store.sidecars.sidecar import FlushSlot
from firearrow.store.sidecars.stamped_ranges import Ranges

APACHE_CLEAN_SEGMENTS: Final = 3
"""The number of segments that Apache 4.9 checks after an orderly exit."""

CUT_REASON: Final = "behind the log's end"

logger = logging.getLogger(__name__)


class RunEnding(Enum):
    """The end of the last run, as far as the log is concerned."""

    POWER = "the power was lost"
    CLOSED = "in order"
    PROCESS = "the process died"
    UNKNOWN = "another program wrote last, or nothing is recorded"


class LogFacts(NamedTuple):
    """The facts about the log that are known before it is read."""

    ending: RunEnding
    flushed: int
    """The offset below which everything was acknowledged; -1 when unknown."""
    start: int
    """The offset to check from: always the start of a record."""


class RecoveredLog(NamedTuple):
    """The log after recovery."""

    end: int
    checked_from: int
    last_store_ms: int
    damaged: int
    cut_bytes: int


def known_from_slot(slot: FlushSlot, boot_id: str, min_offset: int) -> LogFacts:
    """Return the facts that our flush slot gives."""
    same = boot_id != "" and slot.boot_id == boot_id
    ending = RunEnding.CLOSED if slot.closed else RunEnding.PROCESS if same else RunEnding.POWER
    return LogFacts(ending, slot.flushed, check_from(slot, slot.flushed, min_offset))


def check_from(slot: FlushSlot, flushed: int, min_offset: int) -> int:
    """The start of a record not far below the flushed offset.

    The oldest segment starts above that only when a power loss took all earlier names: then nothing was flushed there.
    """
    return min(max(slot.boundary, min_offset), flushed)


async def known_from_apache(segments: Segments, scanner: LogScanner, *, died: bool, checkpoint_ms: int) -> LogFacts:
    """Return the facts that Apache's files give: the offset to start from, but no acknowledged offset."""
    in_order = [segment for segment in segments if await scanner.is_good(segment.start)]
    if not in_order:
        return LogFacts(RunEnding.UNKNOWN, -1, segments.min_offset)
    if not died:
        return LogFacts(RunEnding.UNKNOWN, -1, in_order[-APACHE_CLEAN_SEGMENTS:][0].start)
    for segment in reversed(in_order):
        if await _first_store_ms(scanner, segment) <= checkpoint_ms:
            return LogFacts(RunEnding.UNKNOWN, -1, segment.start)
    return LogFacts(RunEnding.UNKNOWN, -1, in_order[0].start)


async def _first_store_ms(scanner: LogScanner, segment: Segment) -> int:
    walked = await scanner.walk(segment.start, segment.end)
    return walked.heads[0].store_timestamp if walked.heads else 0


async def trim_ranges(segments: Segments, ranges: Ranges) -> int:
    """End our ranges after the last record with a right stamp, where another program began to write; return that end.

    Goes from the newest segment back; a segment without any stamped record in our ranges is passed over.
    """
    scanner = LogScanner(segments, ranges)
    for segment in reversed(list(segments)):
        if ranges.end is not None and segment.start >= ranges.end:
            continue
        last = await _last_stamped(scanner, segment, ranges)
        if last is not None:
            ranges.finish(last)
            return last
    ranges.finish(segments.min_offset)
    return segments.min_offset


async def _last_stamped(scanner: LogScanner, segment: Segment, ranges: Ranges) -> int | None:
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
    """One recovery of one log. No file is changed before the whole log was read."""

    def __init__(self, disk: Disk, segments: Segments, scanner: LogScanner, damage: Damage, known: LogFacts) -> None:
        self._disk = disk
        self._segments = segments
        self._scanner = scanner
        self._damage = damage
        self._known = known
        self._last_store_ms = 0

    async def run(self) -> RecoveredLog:
        """Find the end of the log, copy and cut the tail behind it, and make the result durable."""
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
        # After an orderly close there are no bytes behind the end, so there is no need to search.
        cut = (
            0 if self._known.ending is RunEnding.CLOSED else await cut_off(self._segments, self._damage, at, CUT_REASON)
        )
        damaged = len(self._damage) - known_before
        if damaged or cut:
            extra = {"damaged_ranges": damaged, "cut_bytes": cut, "end": at}
            logger.error("recovery found %d damaged ranges and cut %d bytes off the log", damaged, cut, extra=extra)
        await self._damage.clip(at)
        if self._known.flushed >= 0:
            await self._write_again(self._known.flushed, at)
        await self._make_durable()
        return RecoveredLog(at, self._known.start, self._last_store_ms, damaged, cut)

    async def _good_until(self, at: int) -> tuple[int, str | None]:
        """Walk good records; return where they end, and what is wrong there (None: the files end)."""
        while True:
            if self._segments.at(at) is None and at >= max(self._segments.max_offset, self._known.flushed):
                return at, None
            walked = await self._scanner.walk(at)
            if walked.heads:
                self._last_store_ms = max(self._last_store_ms, walked.heads[-1].store_timestamp)
            at = walked.end
            if walked.stop is Stop.FOREIGN and self._known.ending is not RunEnding.UNKNOWN:
                raise ForeignRecord
            if walked.stop in (Stop.BAD, Stop.FOREIGN):
                return at, walked.reason

    async def _after_bad(self, bad: int) -> int | None:
        """Return the offset of the next good record after a bad one; None when the tail starts at the bad one."""
        ending, flushed, _ = self._known
        if bad < flushed:
            found = await self._scanner.next_good(bad, flushed)
            # The flushed offset is always the end of a record.
            return flushed if found is None else found
        if ending in (RunEnding.POWER, RunEnding.CLOSED):
            return None
        return await self._scanner.next_good(bad, self._segments.max_offset)

    async def _write_again(self, start: int, end: int) -> None:
        """Write bytes again that the page cache shows as clean but that a failed sync of the last run did not store."""
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
        """Sync every segment that may hold unsynced bytes, and the names of all segments."""
        for segment in self._segments:
            if segment.unsynced or segment.end > self._known.start or self._known.ending is RunEnding.UNKNOWN:
                await segment.file.sync()
                segment.unsynced = False
        await sync_names(self._disk)
        for segment in self._segments:
            segment.named = True
