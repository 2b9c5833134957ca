"""Loading queues: from queue files of any state to a table that agrees with the log.

There are three cases:

* `load_trusted`: we closed the store in order. The snapshot is the table; no queue file is opened.
* `load_cut`: our process crashed. Every queue is cut back to the snapshot; queues that it does not hold are removed.
  A file with nothing behind its last entry (after most crashes nearly every file) is checked and not changed.
* `load_found`: Apache wrote last. The end of each queue is found in its files. An entry counts only if its record lies
  below the offset up to which the files can be trusted, and the last entry must lead to the right record.

After the first two the log is dispatched again from the snapshot's offset. Only a queue whose files are gone, because
a deletion was interrupted or the files were removed, gets earlier rows too. `load_found` returns the offset from which
the log must be dispatched again, and the offset up to which each queue is complete. Java: ``ConsumeQueue.recover``,
``truncateDirtyLogicFiles``.
"""

from typing import Final

from firearrow.errors import FileMissing
from firearrow.runtime.disk.door import Disk
from firearrow.runtime.turn import Pace
from firearrow.store.log.probe import probe
from firearrow.store.log.segments import Segments
from firearrow.store.paths import CONSUME_QUEUE, segment_start
from firearrow.store.queue.consume_queue import ENTRY, ENTRY_BYTES, NO_ENTRY, ConsumeQueue, is_filler, queue_directory
from firearrow.store.queue.files import DEFAULT_FILE_BYTES
from firearrow.store.queue.table import Queues
from firearrow.store.queue.writer import SLICE
from firearrow.store.views.snapshot import Snapshot

Name = tuple[str, int]
"""Topic and number of a queue."""

STEPS_BACK: Final = 1000
"""The most wrong entries at the end of a queue; with more, the whole queue is built again."""


async def load_trusted(queues: Queues, snapshot: Snapshot) -> bool:
    """Take the table from the snapshot; return False when the directory contradicts it."""
    there = await _names(queues.files.disk, CONSUME_QUEUE)
    if not set(snapshot.topics) <= set(there):
        return False
    for topic, states in snapshot.topics.items():
        for queue_id, start, end in states.values():
            queues.add(ConsumeQueue(topic, queue_id, start, end))
    return True


async def load_cut(queues: Queues, snapshot: Snapshot) -> frozenset[Name]:
    """Cut every queue back to the snapshot; return the queues in the snapshot whose files are missing."""
    pace = Pace(SLICE)
    for topic, queue_id in await _queues_there(queues.files.disk):
        known = snapshot.topics.get(topic, {}).get(queue_id)
        queue = ConsumeQueue(topic, queue_id, *(known[1:] if known else (0, 0)))
        if known is None:
            await queues.files.remove_queue(queue)
        else:
            queues.add(queue)
            await queues.writer.cut_files(queue)
        await pace.did()
    # An earlier start may have cut files and crashed before the cut was durable, so all files are synced.
    queues.writer.doubt_files()
    return frozenset(
        (topic, queue_id)
        for topic, states in snapshot.topics.items()
        for queue_id, start, end in states.values()
        if end > start and queues.find(topic, queue_id) is None
    )


async def load_found(
    queues: Queues, segments: Segments, believed: int | None, log_end: int
) -> tuple[int, dict[ConsumeQueue, int]]:
    """Find the end of every queue. ``believed`` is the offset up to which entries are on disk; None: all of them.

    Return the offset from which the log must be dispatched again, and the end of the last record of each queue.
    """
    limit = log_end if believed is None else min(believed, log_end)
    resume = limit if believed is not None else 0
    behind: list[int] = []
    ends: dict[ConsumeQueue, int] = {}
    pace = Pace(SLICE)
    for topic, queue_id in await _queues_there(queues.files.disk):
        queue = await _found(queues, topic, queue_id)
        if queue is None:
            continue
        reached, sure = await _find_end(queues, segments, queue, limit)
        ends[queues.add(queue)] = reached
        await queues.writer.cut_files(queue)
        queues.files.doubt_names(queue)
        if believed is None:
            resume = max(resume, reached)
        if not sure:
            behind.append(reached)
        await pace.did()
    return min([resume, *behind]), ends


async def _found(queues: Queues, topic: str, queue_id: int) -> ConsumeQueue | None:
    """A queue with its existing files; its end is that of the last file."""
    files = queues.files
    starts = [segment_start(name) for name in await _names(files.disk, queue_directory(topic, queue_id))]
    places = [start // ENTRY_BYTES for start in starts if start is not None and start % files.file_bytes == 0]
    return ConsumeQueue(topic, queue_id, min(places), max(places) + files.per_file) if places else None


async def _find_end(queues: Queues, segments: Segments, queue: ConsumeQueue, limit: int) -> tuple[int, bool]:
    """Set the end of a queue; return the end of its last record, and whether no entry was lost at the end."""
    end, sure = _count_below(queues, queue, limit), True
    for _ in range(STEPS_BACK):
        if end == queue.start:
            break
        physical, size, _ = queues.entry(queue, end - 1)
        if is_filler(size) or await names_its_record(segments, queue, end - 1, physical, size):
            sure = sure and await _ends_here(queues, segments, queue, end, limit)
            queue.end_at(end)
            return _reached(queues, queue), sure
        end, sure = end - 1, False
    was_empty = sure and await _ends_here(queues, segments, queue, queue.start, limit)
    queue.end_at(queue.start)
    return 0, was_empty


def _reached(queues: Queues, queue: ConsumeQueue) -> int:
    """The end of the record of the last entry that is not a filler; 0 when there is none among the last entries."""
    for number in range(queue.max_offset - 1, max(queue.start, queue.max_offset - STEPS_BACK) - 1, -1):
        physical, size, _ = queues.entry(queue, number)
        if not is_filler(size):
            return physical + size
    return 0


def _count_below(queues: Queues, queue: ConsumeQueue, limit: int) -> int:
    """The end of the leading entries whose records lie below ``limit``."""
    low, high = queue.start, queue.max_offset
    while low < high:
        middle = (low + high) // 2
        physical, size, _ = queues.entry(queue, middle)
        if size > 0 and 0 <= physical < limit:
            low = middle + 1
        else:
            high = middle
    return low


async def _ends_here(queues: Queues, segments: Segments, queue: ConsumeQueue, end: int, limit: int) -> bool:
    """Whether the slot after the last entry is empty or holds a later message: then no good entry was lost."""
    data = queues.files.read(queue, end, 1)
    if data == NO_ENTRY:
        return True
    physical, size, _ = ENTRY.unpack(data)
    return physical >= limit and await names_its_record(segments, queue, end, physical, size)


async def names_its_record(segments: Segments, queue: ConsumeQueue, offset: int, physical: int, size: int) -> bool:
    """Whether an entry leads to a record with its queue and offset; True when the record is deleted already."""
    if 0 <= physical < segments.min_offset:
        return True
    found = await probe(segments, physical)
    return found is not None and found[:3] == (size, queue.queue_id, offset)


async def found_file_bytes(disk: Disk) -> int:
    """The size of the first queue file in a directory; Apache's default when there is none."""
    for topic, queue_id in await _queues_there(disk):
        directory = queue_directory(topic, queue_id)
        for name in await _names(disk, directory):
            size = disk.status(f"{directory}/{name}").size if segment_start(name) is not None else 0
            if size and size % ENTRY_BYTES == 0:
                return size
    return DEFAULT_FILE_BYTES


async def _queues_there(disk: Disk) -> list[tuple[str, int]]:
    try:
        topics = await disk.list_below(CONSUME_QUEUE)
    except FileMissing:
        return []
    numbers = {
        topic: [int(name) for name in names if name.isascii() and name.isdigit()] for topic, names in topics.items()
    }
    return [(topic, number) for topic, of_topic in numbers.items() for number in sorted(of_topic)]


async def _names(disk: Disk, path: str) -> list[str]:
    try:
        return await disk.list(path) if disk.status(path).is_directory else []
    except FileMissing:
        return []
