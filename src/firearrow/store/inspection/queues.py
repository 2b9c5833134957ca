"""The queues of a directory, read-only: found by their files and read in bulk.

Entries are returned as the raw bytes of the files, 20 bytes each (see ``consume_queue``), so that the caller can decode
millions at once. Some entries stand for no message: those with the size `FILLER_SIZE`, and, in a store that crashed,
those at the end whose records the log does not have.

All functions block on the device and need no event loop, except `queues_of`.
"""

from itertools import pairwise
from typing import Final

from msgspec import Struct

from firearrow.errors import FileMissing, OffsetNotStored
from firearrow.runtime.disk.door import Disk
from firearrow.store.paths import CONSUME_QUEUE, segment_start
from firearrow.store.queue.consume_queue import ENTRY, ENTRY_BYTES, is_filler, queue_directory, queue_path

_LOOKED_THROUGH: Final = 512
"""Entries read at once in the search for one that stands for a message."""


class QueueFileView(Struct, frozen=True):
    """A queue by its files."""

    topic: str
    queue_id: int
    start: int
    """First entry of the oldest file."""
    end: int
    """The entry after the last."""
    files: int
    file_bytes: int


class MessageEntry(Struct, frozen=True):
    """An entry that stands for a message."""

    offset: int
    physical: int
    size: int


async def names_in(disk: Disk, path: str) -> list[str]:
    """The names in a directory; empty when the path is missing or not a directory."""
    try:
        return await disk.list(path) if disk.status(path).is_directory else []
    except FileMissing:
        return []


async def starts_in(disk: Disk, path: str) -> list[int]:
    """The offsets in the file names of a directory, in order."""
    return [start for name in await names_in(disk, path) if (start := segment_start(name)) is not None]


async def queues_of(disk: Disk, topic: str) -> list[QueueFileView]:
    """The queues of a topic, by number."""
    names = await names_in(disk, f"{CONSUME_QUEUE}/{topic}")
    numbers = sorted(int(name) for name in names if name.isascii() and name.isdigit())
    found = [await _queue(disk, topic, queue_id) for queue_id in numbers]
    return [queue for queue in found if queue is not None]


async def _queue(disk: Disk, topic: str, queue_id: int) -> QueueFileView | None:
    starts = await starts_in(disk, queue_directory(topic, queue_id))
    while starts:
        try:
            return _seen(disk, topic, queue_id, starts)
        except FileMissing:
            # Deleted since it was listed. Files go from the oldest on.
            starts = starts[1:]
    return None


def _seen(disk: Disk, topic: str, queue_id: int, starts: list[int]) -> QueueFileView:
    """A queue by its files, whose last ones may hold nothing yet."""
    first, end = starts[0] // ENTRY_BYTES, 0
    gaps = [after - before for before, after in pairwise(starts)]
    file_bytes = 0
    for start in reversed(starts):
        count, size = _entries_in(disk, topic, queue_id, start // ENTRY_BYTES)
        file_bytes = min(gaps, default=size)
        end = start // ENTRY_BYTES + count
        if count:
            break
    return QueueFileView(topic, queue_id, first, end, len(starts), file_bytes)


def _entries_in(disk: Disk, topic: str, queue_id: int, first: int) -> tuple[int, int]:
    """Return the number of entries in a file, and the size of the file."""
    file = disk.open(queue_path(topic, queue_id, first))
    low, high = 0, file.size // ENTRY_BYTES
    while low < high:
        middle = (low + high) // 2
        data = file.read_at(middle * ENTRY_BYTES, ENTRY_BYTES)
        if len(data) == ENTRY_BYTES and ENTRY.unpack(data)[1] > 0:
            low = middle + 1
        else:
            high = middle
    size = file.size
    file.close()
    return low, size


def entry_bytes(disk: Disk, queue: QueueFileView, offset: int, count: int) -> bytes:
    """The entries from ``offset`` on, at most ``count`` and none behind the end, through as many files as it takes.

    A file that was deleted meanwhile is `OffsetNotStored`.
    """
    per_file = queue.file_bytes // ENTRY_BYTES
    end = min(offset + count, queue.end)
    pieces = []
    while offset < end:
        first = offset - offset % per_file
        until = min(end, first + per_file)
        pieces.append(_piece(disk, queue, first, offset, until - offset))
        offset = until
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def _piece(disk: Disk, queue: QueueFileView, first: int, offset: int, count: int) -> bytes:
    try:
        file = disk.open(queue_path(queue.topic, queue.queue_id, first))
    except FileMissing as gone:
        raise OffsetNotStored(
            f"the entries of {queue.topic}/{queue.queue_id} from {first} on are deleted; begin at a later offset"
        ) from gone
    data = file.read_at((offset - first) * ENTRY_BYTES, count * ENTRY_BYTES)
    file.close()
    return data.ljust(count * ENTRY_BYTES, b"\0")  # a file of a copied store may be short


def next_message(disk: Disk, queue: QueueFileView, offset: int) -> MessageEntry | None:
    """The first entry from ``offset`` on that stands for a message; None when there is none."""
    count = 1
    while offset < queue.end:
        for physical, size, _ in ENTRY.iter_unpack(entry_bytes(disk, queue, offset, count)):
            if size > 0 and not is_filler(size):
                return MessageEntry(offset, physical, size)
            offset += 1
        count = _LOOKED_THROUGH
    return None


def first_at(disk: Disk, queue: QueueFileView, physical: int) -> int:
    """The first entry whose record lies at or above a physical offset; the queue's end when there is none."""
    low, high = queue.start, queue.end
    oldest = next_message(disk, queue, low)
    if oldest is not None and oldest.physical >= physical:
        return oldest.offset
    while low < high:
        middle = (low + high) // 2
        found = next_message(disk, queue, middle)
        if found is None or found.physical >= physical:
            high = middle
        else:
            low = found.offset + 1
    found = next_message(disk, queue, low)
    return queue.end if found is None else found.offset
