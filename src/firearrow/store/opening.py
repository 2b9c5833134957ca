"""Opening the log of a directory: claim it, learn how the last run ended, recover, and begin a run of our own.

The order matters. What another program did is decided, and made durable as trimmed ranges, before the abort file
becomes ours; the abort file is ours before the log changes; the log is durable before the slot says so; and our range
is open, durably, before the first append.
"""

import struct
from typing import NamedTuple
from zlib import crc32

from firearrow.errors import FileMissing
from firearrow.runtime.clock import Clock
from firearrow.runtime.disk import Disk
from firearrow.store.config import LogConfig
from firearrow.store.damage import Damage
from firearrow.store.paths import CHECKPOINT, COMMIT_LOG, NEXT_SEGMENT, OURS
from firearrow.store.presence import Presence
from firearrow.store.rangefile import RangeFile
from firearrow.store.recovery import (
    Ending,
    ForeignRecord,
    Known,
    Recovered,
    Recovery,
    check_from,
    known_from_apache,
    known_from_slot,
    trim_ranges,
)
from firearrow.store.scan import Scanner
from firearrow.store.segments import Segments, load_segments
from firearrow.store.slotfile import SlotFile

_CHECKPOINT_TIMES = struct.Struct(">qq")
_CHECKPOINT_MARGIN_MS = 3000


class OpenedLog(NamedTuple):
    """Everything that a commit log stands on, after recovery."""

    presence: Presence
    segments: Segments
    scanner: Scanner
    ranges: RangeFile
    damage: Damage
    slot: SlotFile
    recovered: Recovered
    died: bool
    """Whether the last run did not end in order."""
    others: bool
    """Whether another program wrote here since we did: only the log was compared, nothing derived is to be believed."""


async def open_log(disk: Disk, clock: Clock, config: LogConfig, boot_id: str) -> OpenedLog:
    """Claim a directory and bring its log to a known end."""
    for name in ("", COMMIT_LOG, OURS):
        disk.make_directory(name)
    presence = await Presence.claim(disk)
    try:
        return await _opened(disk, clock, config, boot_id, presence)
    except BaseException:
        await presence.leave(in_order=False)
        raise


async def _opened(disk: Disk, clock: Clock, config: LogConfig, boot_id: str, presence: Presence) -> OpenedLog:
    await disk.sync_directory()
    if disk.exists(NEXT_SEGMENT):
        await disk.unlink(NEXT_SEGMENT)
    slot = await SlotFile.open(disk, boot_id, config.verify_window_bytes)
    ranges = await RangeFile.load(disk)
    segments = await load_segments(disk, config.mapped_file_size_commit_log, ranges.segment_bytes)
    scanner = Scanner(segments, ranges.ranges)
    damage = await Damage.load(disk, clock)
    checkpoint = await _checkpoint(disk)
    opening = _Opening(disk, segments, scanner, ranges, damage, slot, presence, checkpoint, boot_id)
    recovered, others = await opening.recover()
    ranges.ranges.finish(recovered.end)
    ranges.ranges.begin(recovered.end)
    await ranges.save(segments.size)
    await slot.begin(recovered.end, recovered.checked_from)
    return OpenedLog(presence, segments, scanner, ranges, damage, slot, recovered, presence.died, others)


class _Opening(NamedTuple):
    disk: Disk
    segments: Segments
    scanner: Scanner
    ranges: RangeFile
    damage: Damage
    slot: SlotFile
    presence: Presence
    checkpoint: bytes
    boot_id: str

    async def recover(self) -> tuple[Recovered, bool]:
        others = self._others_were_here()
        known = await self._without_others() if others else await self._known()
        await self.presence.enter()
        try:
            return await Recovery(self.disk, self.segments, self.scanner, self.damage, known).run(), others
        except ForeignRecord:
            known = await self._without_others()
        return await Recovery(self.disk, self.segments, self.scanner, self.damage, known).run(), True

    def _others_were_here(self) -> bool:
        slot = self.slot.found
        if slot is None:
            return len(self.ranges.ranges.as_list()) > 0
        if slot.closed and slot.checkpoint_crc != crc32(self.checkpoint):
            return True
        return self.presence.died_elsewhere or (not slot.closed and not self.presence.died)

    async def _known(self) -> Known:
        slot = self.slot.found
        if slot is not None:
            return known_from_slot(slot, self.boot_id, self.segments.min_offset)
        return await self._as_apache()

    async def _as_apache(self) -> Known:
        died = self.presence.died
        return await known_from_apache(
            self.segments, self.scanner, died=died, checkpoint_ms=_checkpoint_ms(self.checkpoint)
        )

    async def _without_others(self) -> Known:
        """Trim what we called ours to what is, and take the rest for Apache's."""
        end = await trim_ranges(self.segments, self.ranges.ranges)
        await self.ranges.save(self.segments.size)
        known = await self._as_apache()
        slot = self.slot.found
        if slot is None:
            return known
        flushed = min(slot.flushed, end)
        start = check_from(slot, flushed, self.segments.min_offset)
        return Known(Ending.UNKNOWN, flushed, min(start, known.start))


async def _checkpoint(disk: Disk) -> bytes:
    try:
        return await disk.read_whole(CHECKPOINT)
    except FileMissing:
        return b""


def _checkpoint_ms(checkpoint: bytes) -> int:
    """The time before which Apache had everything on disk."""
    if len(checkpoint) < _CHECKPOINT_TIMES.size:
        return 0
    return int(min(_CHECKPOINT_TIMES.unpack_from(checkpoint))) - _CHECKPOINT_MARGIN_MS


async def checkpoint_crc(disk: Disk) -> int:
    """The checksum of Apache's checkpoint as it is now: another one at the next start means that others were here."""
    return crc32(await _checkpoint(disk))
