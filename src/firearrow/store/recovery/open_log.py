"""Opening the log of a directory: claim it, find out how the last run ended, recover, and begin a new run.

The order matters. If another program wrote, our stamped ranges are trimmed durably before the abort file becomes ours;
the abort file is ours before the log changes; the log is durable before the slot says so; and our range is open,
durably, before the first append. A cut that the log owes is done after recovery, before anything else.
"""

import logging
import struct
from typing import NamedTuple
from zlib import crc32

from firearrow.errors import FileMissing
from firearrow.runtime.clock import Clock
from firearrow.runtime.disk.door import Disk
from firearrow.store.config import LogConfig
from firearrow.store.epochs.replica_files import ReplicaFiles
from firearrow.store.log.segments import Segments, load_segments
from firearrow.store.paths import CHECKPOINT, COMMIT_LOG, NEXT_SEGMENT, OURS
from firearrow.store.recovery.cut import cut_off, make_cut_durable
from firearrow.store.recovery.damage import Damage
from firearrow.store.recovery.presence import Presence
from firearrow.store.recovery.recover import (
    ForeignRecord,
    LogFacts,
    RecoveredLog,
    Recovery,
    RunEnding,
    check_from,
    known_from_apache,
    known_from_slot,
    trim_ranges,
)
from firearrow.store.recovery.scan import LogScanner
from firearrow.store.sidecars.flush_slot import SlotFile
from firearrow.store.sidecars.range_file import RangeFile

log = logging.getLogger(__name__)

_CHECKPOINT_TIMES = struct.Struct(">qq")
_CHECKPOINT_MARGIN_MS = 3000


class OpenedLog(NamedTuple):
    """The parts of a recovered log."""

    presence: Presence
    segments: Segments
    scanner: LogScanner
    ranges: RangeFile
    damage: Damage
    slot: SlotFile
    recovered: RecoveredLog
    died: bool
    """Whether the last run did not end in order."""
    is_foreign: bool
    """Whether another program wrote here since we did: then queues and index cannot be trusted."""
    replica: ReplicaFiles


async def open_log(disk: Disk, clock: Clock, config: LogConfig, boot_id: str, *, is_copy: bool = False) -> OpenedLog:
    """Claim a directory and bring its log to a known end. A log that ``is_copy`` gets records without our stamps."""
    for name in ("", COMMIT_LOG, OURS):
        disk.make_directory(name)
    presence = await Presence.claim(disk)
    try:
        return await _opened(disk, clock, config, boot_id, presence, is_copy=is_copy)
    except BaseException:
        await presence.leave(in_order=False)
        raise


async def _opened(
    disk: Disk, clock: Clock, config: LogConfig, boot_id: str, presence: Presence, *, is_copy: bool
) -> OpenedLog:
    await disk.sync_directory()
    if disk.exists(NEXT_SEGMENT):
        await disk.unlink(NEXT_SEGMENT)
    slot = await SlotFile.open(disk, boot_id, config.verify_window_bytes)
    ranges = await RangeFile.load(disk)
    segments = await load_segments(disk, config.mapped_file_size_commit_log, ranges.segment_bytes)
    scanner = LogScanner(segments, ranges.ranges)
    damage = await Damage.load(disk, clock)
    checkpoint = await _checkpoint(disk)
    opening = _Opening(disk, segments, scanner, ranges, damage, slot, presence, checkpoint, boot_id)
    replica = await ReplicaFiles.load(disk)
    recovered, is_foreign = await opening.recover()
    recovered = await opening.settle(recovered, replica)
    ranges.ranges.finish(recovered.end)
    if not is_copy:
        ranges.ranges.begin(recovered.end)
    await ranges.save(segments.size)
    await slot.begin(recovered.end, recovered.checked_from)
    return OpenedLog(presence, segments, scanner, ranges, damage, slot, recovered, presence.died, is_foreign, replica)


class _Opening(NamedTuple):
    disk: Disk
    segments: Segments
    scanner: LogScanner
    ranges: RangeFile
    damage: Damage
    slot: SlotFile
    presence: Presence
    checkpoint: bytes
    boot_id: str

    async def recover(self) -> tuple[RecoveredLog, bool]:
        is_foreign = self._others_wrote()
        known = await self._known_with_trimmed_ranges() if is_foreign else await self._known()
        await self.presence.enter()
        try:
            return await Recovery(self.disk, self.segments, self.scanner, self.damage, known).run(), is_foreign
        except ForeignRecord:
            known = await self._known_with_trimmed_ranges()
        return await Recovery(self.disk, self.segments, self.scanner, self.damage, known).run(), True

    async def settle(self, recovered: RecoveredLog, replica: ReplicaFiles) -> RecoveredLog:
        """Cut the log where it owes that; return the log as it is then, with a history that agrees with it.

        Epochs that begin behind the end of the log were lost with the power, and epochs whose files were all deleted
        are forgotten.
        """
        offset, epochs = replica.cut.offset, replica.history.epochs
        if offset is not None:
            if offset < recovered.end:
                recovered = await self._cut(recovered, offset)
            epochs = epochs.cut(offset)
        await replica.history.replace(epochs.ended(recovered.end).kept_from(self.segments.min_offset))
        return recovered

    async def _cut(self, recovered: RecoveredLog, offset: int) -> RecoveredLog:
        checked_from = min(recovered.checked_from, offset)
        # First the slot: bytes below its flushed offset would count as lost after a crash within the cut.
        await self.slot.begin(offset, checked_from)
        cut = await cut_off(self.segments, self.damage, offset, "not in the master's log")
        await make_cut_durable(self.disk, self.segments)
        await self.damage.clip(offset)
        extra = {"cut_bytes": cut, "end": offset}
        log.warning("cut %d bytes off the log at %d: the master does not have them", cut, offset, extra=extra)
        return recovered._replace(end=offset, checked_from=checked_from, cut_bytes=recovered.cut_bytes + cut)

    def _others_wrote(self) -> bool:
        slot = self.slot.found
        if slot is None:
            return len(self.ranges.ranges.as_list()) > 0
        if slot.closed and slot.checkpoint_crc != crc32(self.checkpoint):
            return True
        return self.presence.died_elsewhere or (not slot.closed and not self.presence.died)

    async def _known(self) -> LogFacts:
        slot = self.slot.found
        if slot is not None:
            return known_from_slot(slot, self.boot_id, self.segments.min_offset)
        return await self._as_apache()

    async def _as_apache(self) -> LogFacts:
        died = self.presence.died
        return await known_from_apache(
            self.segments, self.scanner, died=died, checkpoint_ms=_checkpoint_ms(self.checkpoint)
        )

    async def _known_with_trimmed_ranges(self) -> LogFacts:
        """Trim our stamped ranges to the records that we wrote, and treat the rest as Apache's."""
        end = await trim_ranges(self.segments, self.ranges.ranges)
        await self.ranges.save(self.segments.size)
        known = await self._as_apache()
        slot = self.slot.found
        if slot is None:
            return known
        flushed = min(slot.flushed, end)
        start = check_from(slot, flushed, self.segments.min_offset)
        return LogFacts(RunEnding.UNKNOWN, flushed, min(start, known.start))


async def _checkpoint(disk: Disk) -> bytes:
    try:
        return await disk.read_whole(CHECKPOINT)
    except FileMissing:
        return b""


def _checkpoint_ms(checkpoint: bytes) -> int:
    """The store time before which Apache had everything on disk."""
    if len(checkpoint) < _CHECKPOINT_TIMES.size:
        return 0
    return int(min(_CHECKPOINT_TIMES.unpack_from(checkpoint))) - _CHECKPOINT_MARGIN_MS


async def checkpoint_crc(disk: Disk) -> int:
    """The checksum of Apache's checkpoint now: if it differs at the next start, another program wrote since."""
    return crc32(await _checkpoint(disk))
