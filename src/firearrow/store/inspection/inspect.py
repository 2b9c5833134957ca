"""Inspecting a store directory: its contents as plain tables, and a check of every record. Nothing is written.

`overview` reads names, sizes and headers, and of the log only what Apache's broker has begun and not finished. `verify`
reads the whole log.
"""

from collections.abc import Callable
from typing import Final

from msgspec import Struct

from firearrow.model.flags import enters_queue
from firearrow.store.inspection.directory import LogFileView, QueueFileView, StoreView
from firearrow.store.inspection.messages import SeenMessages
from firearrow.store.inspection.pending import PendingCounts, count_pending
from firearrow.store.recovery.verify import Protection, judge
from firearrow.store.views.checkpoint import Checkpoint

MOST_RANGES: Final = 10_000


class IndexLine(Struct, frozen=True):
    """An index file."""

    name: str
    keys: int
    begin_ms: int
    end_ms: int
    begin_physical: int
    end_physical: int


class Overview(Struct, frozen=True):
    """The files, ranges, queues and checkpoint of a directory."""

    log_files: list[LogFileView]
    log_start: int
    log_end: int
    segment_bytes: int
    flushed: int | None
    """The flushed offset in our flush slot; None in a store of Apache's."""
    ranges: list[tuple[int, int | None]]
    """The stamped ranges of the log."""
    in_use: bool
    queues: list[QueueFileView]
    index_files: list[IndexLine]
    checkpoint: Checkpoint
    pending: PendingCounts
    """Work that only Apache's broker can finish."""


class BadSpan(Struct, frozen=True):
    """A bad range of the log."""

    start: int
    end: int
    reason: str


class QueueTrouble(Struct, frozen=True):
    """A queue that does not have an entry for every record."""

    topic: str
    queue_id: int
    entries_end: int
    records_end: int


class StoreVerification(Struct, frozen=True):
    """The result of `verify`."""

    records: int
    bytes: int
    whole: int
    """Records whose checksum covers every byte."""
    unprotected: list[tuple[int, int]]
    """Parts of the log where only bodies have a checksum: the header is unprotected."""
    bad: list[BadSpan]
    queues: list[QueueTrouble]

    @property
    def clean(self) -> bool:
        """Whether nothing is wrong."""
        return not self.bad and not self.queues


async def overview(view: StoreView) -> Overview:
    """Tables of files, ranges, queues and checkpoint."""
    queues = [queue for topic in await view.topics() for queue in await view.queues(topic)]
    index_files = [
        IndexLine(
            name,
            header.next_number - 1,
            header.begin_ms,
            header.end_ms,
            header.begin_physical,
            header.end_physical,
        )
        for name, _, header in await view.index_files()
    ]
    return Overview(
        log_files=await view.log_files(),
        log_start=view.segments.min_offset,
        log_end=await view.log_end(),
        segment_bytes=view.segments.size,
        flushed=view.slot.flushed if view.slot else None,
        ranges=view.ranges.as_list(),
        in_use=view.in_use,
        queues=queues,
        index_files=index_files,
        checkpoint=await view.checkpoint(),
        pending=await count_pending(view.disk, SeenMessages(view)),
    )


async def verify(
    view: StoreView, seen: Overview, progress: Callable[[int], None] = lambda _: None
) -> StoreVerification:
    """Check every record of the log, and that queues reach as far. ``progress`` is called with the bytes done."""
    records = whole = 0
    unprotected: list[tuple[int, int]] = []
    bad: list[BadSpan] = []
    ends: dict[tuple[str, int], int] = {}
    at = seen.log_start
    async for piece in view.pieces(seen.log_start, seen.log_end):
        for head in piece.heads:
            records += 1
            if enters_queue(head.sys_flag):
                key = (head.topic, head.queue_id)
                ends[key] = max(ends.get(key, 0), head.queue_offset + 1)
            ours = view.ranges.covers(head.physical_offset)
            if ours and judge(piece.data, head.start, head.physical_offset, ours=True)[1] is Protection.WHOLE:
                whole += 1
            else:
                _extend(unprotected, head.physical_offset, head.physical_offset + head.size)
        if piece.bad and len(bad) < MOST_RANGES:
            bad.append(BadSpan(piece.bad_from, piece.end, piece.bad))
        progress(piece.end - at)
        at = piece.end
    entries = {(queue.topic, queue.queue_id): queue.end for queue in seen.queues}
    behind = [
        QueueTrouble(topic, queue_id, entries.get((topic, queue_id), 0), end)
        for (topic, queue_id), end in sorted(ends.items())
        if entries.get((topic, queue_id), 0) < end
    ]
    return StoreVerification(records, seen.log_end - seen.log_start, whole, unprotected, bad, behind)


def _extend(ranges: list[tuple[int, int]], start: int, end: int) -> None:
    """Add a range, joined to the last one if they touch."""
    if ranges and ranges[-1][1] == start:
        ranges[-1] = (ranges[-1][0], end)
    elif len(ranges) < MOST_RANGES:
        ranges.append((start, end))
