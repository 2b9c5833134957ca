"""From queue files of some state to a table that agrees with the log.

Three ways in:

* `load_trusted`: closed by us in order. The snapshot is the table; no queue file is opened.
* `load_cut`: a crash of ours. Every queue is cut back to the snapshot, and what the snapshot does not know goes. A file
  with nothing behind its last entry, and after most crashes that is nearly every one, is looked at and not touched.
* `load_found`: Apache was here. The end of each queue is found in its files. An entry only counts if it lies below the
  place up to which the files can be believed, and the last one must name the right record.

After the first two the log is dispatched again from where the snapshot stood. A queue whose files are gone, because a
deletion was cut short or somebody took them away, gets what is before that too, and no other queue does. `load_found`
returns from where the log must be dispatched again, and up to where each queue needs nothing of it. Java:
``ConsumeQueue.recover``, ``truncateDirtyLogicFiles``.
"""

from typing import Final

from firearrow.errors import FileMissing
from firearrow.runtime.disk import Disk
from firearrow.store.consumequeue import ENTRY, ENTRY_BYTES, NO_ENTRY, ConsumeQueue, is_filler, queue_directory
from firearrow.store.pacing import Pace
from firearrow.store.paths import CONSUME_QUEUE, segment_start
from firearrow.store.probe import probe
from firearrow.store.queuefiles import DEFAULT_FILE_BYTES
from firearrow.store.queues import SLICE, Queues
from firearrow.store.segments import Segments
from firearrow.store.snapshot import Snapshot

Name = tuple[str, int]
"""Topic and number of a queue."""

STEPS_BACK: Final = 1000
"""Wrong entries at the end of a queue that are passed over before all of it is made again."""


async def load_trusted(queues: Queues, snapshot: Snapshot) -> bool:
    """Take the table from the snapshot; False when the directory plainly disagrees with it."""
    there = await _names(queues.files.disk, CONSUME_QUEUE)
    if not set(snapshot.topics) <= set(there):
        return False
    for topic, states in snapshot.topics.items():
        for queue_id, start, end in states.values():
            queues.add(ConsumeQueue(topic, queue_id, start, end))
    return True


async def load_cut(queues: Queues, snapshot: Snapshot) -> frozenset[Name]:
    """Cut every queue back to the snapshot; return those that it knows and whose files are gone."""
    pace = Pace(SLICE)
    for topic, queue_id in await _queues_there(queues.files.disk):
        known = snapshot.topics.get(topic, {}).get(queue_id)
        queue = ConsumeQueue(topic, queue_id, *(known[1:] if known else (0, 0)))
        if known is None:
            await queues.files.remove_queue(queue)
        else:
            queues.add(queue)
            await queues.cut_files(queue)
        await pace.did()
    # An earlier start may have cut what needs no cut now, and died before that was durable.
    queues.doubt_files()
    return frozenset(
        (topic, queue_id)
        for topic, states in snapshot.topics.items()
        for queue_id, start, end in states.values()
        if end > start and queues.find(topic, queue_id) is None
    )


async def load_found(
    queues: Queues, segments: Segments, believed: int | None, log_end: int
) -> tuple[int, dict[ConsumeQueue, int]]:
    """Find the end of every queue. ``believed`` is up to where entries are known to be on disk; None: all of them.

    Return from where the log must be dispatched again, and where the last record of each queue ends.
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
        await queues.cut_files(queue)
        queues.files.doubt_names(queue)
        if believed is None:
            resume = max(resume, reached)
        if not sure:
            behind.append(reached)
        await pace.did()
    return min([resume, *behind]), ends


async def _found(queues: Queues, topic: str, queue_id: int) -> ConsumeQueue | None:
    """A queue with the files that are there; its end is that of the last file."""
    files = queues.files
    starts = [segment_start(name) for name in await _names(files.disk, queue_directory(topic, queue_id))]
    places = [start // ENTRY_BYTES for start in starts if start is not None and start % files.file_bytes == 0]
    return ConsumeQueue(topic, queue_id, min(places), max(places) + files.per_file) if places else None


async def _find_end(queues: Queues, segments: Segments, queue: ConsumeQueue, limit: int) -> tuple[int, bool]:
    """Set the end of a queue; return where its last record ends, and whether nothing was lost at the end."""
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
    """Where the record of the last entry ends that is no filler; 0 when there is none among the last ones."""
    for number in range(queue.max_offset - 1, max(queue.start, queue.max_offset - STEPS_BACK) - 1, -1):
        physical, size, _ = queues.entry(queue, number)
        if not is_filler(size):
            return physical + size
    return 0


def _count_below(queues: Queues, queue: ConsumeQueue, limit: int) -> int:
    """The end of the entries at the front whose records lie below ``limit``."""
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
    """Whether the slot after the last entry shows that no good entry was lost: nothing there, or a later message."""
    data = queues.files.read(queue, end, 1)
    if data == NO_ENTRY:
        return True
    physical, size, _ = ENTRY.unpack(data)
    return physical >= limit and await names_its_record(segments, queue, end, physical, size)


async def names_its_record(segments: Segments, queue: ConsumeQueue, offset: int, physical: int, size: int) -> bool:
    """Whether an entry leads to a record that says it is the one. Records that are deleted cannot be asked."""
    if 0 <= physical < segments.min_offset:
        return True
    found = await probe(segments, physical)
    return found is not None and found[:3] == (size, queue.queue_id, offset)


async def found_file_bytes(disk: Disk) -> int:
    """The size of the queue files in a directory, by the first one there; Apache's default when there is none."""
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
