"""Cutting the end off a log: the bytes are copied to quarantine, then gone from the files, never merely ignored."""

from firearrow.runtime.disk.door import Disk
from firearrow.store.log.segments import Segments, sync_names
from firearrow.store.recovery.damage import Damage


async def cut_off(segments: Segments, damage: Damage, end: int, reason: str) -> int:
    """Cut everything from ``end`` on, after copying the bytes that are not zero; return how many bytes those were.

    The caller makes the cut durable.
    """
    last = await damage.cut(segments, end, max(end, segments.max_offset), reason)
    if last <= end:
        return 0
    for segment in reversed(list(segments)):
        # The last file stays, empty: a log whose first files were deleted must not forget where it begins.
        if segment.start > end or (segment.start == end and len(segments) > 1):
            await segments.remove(segment)
    segment_at_end = segments.at(end)
    if segment_at_end is not None:
        segment_at_end.file.truncate(end - segment_at_end.start)
        segment_at_end.file.truncate(segments.size)
        segment_at_end.unsynced = True
    return last - end


async def make_cut_durable(disk: Disk, segments: Segments) -> None:
    """Sync what `cut_off` changed."""
    for segment in segments:
        if segment.unsynced:
            await segment.file.sync()
            segment.unsynced = False
    await sync_names(disk)
