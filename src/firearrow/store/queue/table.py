"""The table of all queues: adds, reads and deletes entries. `writer` writes them to disk.

Invariant: a queue has an entry for each of its records in the log, in order and without gaps; the slot of a record that
the log has lost holds the filler.
"""

from collections.abc import Callable, Iterator
from sys import maxsize
from typing import Annotated, Final

from msgspec import Meta, Struct

from firearrow.runtime.disk.door import Disk
from firearrow.runtime.turn import Pace
from firearrow.store.paths import CONSUME_QUEUE
from firearrow.store.queue.consume_queue import ENTRY, ENTRY_BYTES, FILLER, NO_ENTRY, ConsumeQueue, is_filler
from firearrow.store.queue.files import DEFAULT_FILE_BYTES, QueueFiles
from firearrow.store.queue.writer import SLICE, WALKED_AT_ONCE, QueueWriter

LARGEST_GAP: Final = 30_000_000
"""The most fillers between two entries; a record further away gets no entry."""
_FILLED_AT_ONCE: Final = 50_000
_PROBE: Final = 4096


class QueueConfig(Struct, frozen=True, kw_only=True, rename="camel"):
    """The consume queues."""

    mapped_file_size_consume_queue: Annotated[
        int,
        Meta(
            ge=0,
            le=1 << 30,
            description="Bytes of one queue file, a multiple of 20; 0 keeps the size of existing files, else "
            "6,000,000.",
        ),
    ] = 0
    max_open_queue_files: Annotated[int, Meta(ge=8, le=100_000, description="The most queue files kept open.")] = 512
    max_pending_queue_bytes: Annotated[
        int,
        Meta(
            ge=ENTRY_BYTES,
            le=1 << 30,
            description="The most bytes of entries in memory; when queues or index cannot be written and more wait, "
            "sends are refused until they are written.",
        ),
    ] = 32 << 20
    dispatch_flush_interval: Annotated[
        int,
        Meta(
            ge=10,
            le=600_000,
            description="Milliseconds between two flushes of queues, index and checkpoint. A start after a crash reads "
            "the log again from the last one.",
        ),
    ] = 5_000


class Queues:
    """All queues of a store."""

    def __init__(self, disk: Disk, config: QueueConfig, file_bytes: int = 0) -> None:
        size = config.mapped_file_size_consume_queue or file_bytes or DEFAULT_FILE_BYTES
        self.files = QueueFiles(disk, size - size % ENTRY_BYTES, config.max_open_queue_files)
        self.writer = QueueWriter(self.files, config.max_pending_queue_bytes)
        self._topics: dict[str, dict[int, ConsumeQueue]] = {}
        self._deleted: dict[str, None] = {}
        self.begun_anew: dict[tuple[str, int], None] = {}
        """Queues whose topics were deleted and created again, as the log showed: offsets of groups there are old."""
        self.on_anew: list[Callable[[str, int, int], None]] = []
        """Called with topic and number of a queue that begins anew, and an end that the log had only after that."""
        self._dropped_below = -1  # the log's start when all files below it were last deleted

    # ---- the table

    def __iter__(self) -> Iterator[ConsumeQueue]:
        """Every queue, by topic and number."""
        for topic in sorted(self._topics):
            of_topic = self._topics[topic]
            for queue_id in sorted(of_topic):
                yield of_topic[queue_id]

    def in_turns(self) -> Iterator[ConsumeQueue]:
        """Every queue, in no order; the table may change during the iteration."""
        for topic in list(self._topics):
            yield from list(self._topics.get(topic, {}).values())

    def __len__(self) -> int:
        return sum(map(len, self._topics.values()))

    def find(self, topic: str, queue_id: int) -> ConsumeQueue | None:
        """A queue; None if it does not exist."""
        of_topic = self._topics.get(topic)
        return None if of_topic is None else of_topic.get(queue_id)

    def of_topic(self, topic: str) -> list[ConsumeQueue]:
        """The queues of a topic in order."""
        of_topic = self._topics.get(topic, {})
        return [of_topic[queue_id] for queue_id in sorted(of_topic)]

    def topics(self) -> list[str]:
        """The names of all topics that have a queue."""
        return list(self._topics)

    def tail_of(self, topic: str, queue_id: int) -> ConsumeQueue:
        """A queue; created if it does not exist."""
        of_topic = self._topics.get(topic)
        if of_topic is not None:
            queue = of_topic.get(queue_id)
            if queue is not None:
                return queue
        return self.add(ConsumeQueue(topic, queue_id))

    def add(self, queue: ConsumeQueue) -> ConsumeQueue:
        """Add a queue to the table."""
        self._topics.setdefault(queue.topic, {})[queue.queue_id] = queue
        return queue

    def settle(self) -> None:
        """Set the next offset of every queue behind its last entry."""
        for of_topic in self._topics.values():
            for queue in of_topic.values():
                queue.next_offset = queue.max_offset

    # ---- putting

    def put(self, queue: ConsumeQueue, queue_offset: int, physical: int, size: int, tag_code: int) -> bool:
        """Add one entry; return False when the queue has it already or cannot have it.

        Dispatch adds entries itself where they follow the last one.
        """
        if queue_offset < queue.max_offset or self.find(queue.topic, queue.queue_id) is not queue:
            return False
        if queue_offset != queue.max_offset and not self._fill(queue, queue_offset):
            return False
        self.writer.wait(queue, ENTRY.pack(physical, size, tag_code))
        queue.max_offset = queue_offset + 1
        return True

    def _fill(self, queue: ConsumeQueue, until: int) -> bool:
        """Add fillers up to an entry: from the start of its file in a new queue, else behind the last entry."""
        if queue.max_offset == queue.start:
            queue.start = queue.max_offset = queue.written = queue.durable = queue.goal = self.files.first_of(until)
            queue.min_known_for = -1
        gap = until - queue.max_offset
        if gap > LARGEST_GAP:
            return False
        if gap <= self.files.per_file:
            self.writer.wait(queue, FILLER * gap)
            queue.max_offset = until
            return True
        self.writer.write_out(queue)
        while queue.max_offset < until:
            count = min(until - queue.max_offset, _FILLED_AT_ONCE)
            self.writer.write(queue, queue.max_offset, FILLER * count)
            queue.max_offset += count
            queue.written = queue.max_offset
        return True

    async def cut(self, physical: int) -> list[ConsumeQueue]:
        """Drop every entry whose record lies at or above a physical offset; return the queues that are empty then.

        No entry may be pending.
        """
        emptied = list[ConsumeQueue]()
        for queue in self:
            end = self.first_at_or_above(queue, physical)
            if end < queue.max_offset:
                queue.end_at(end)
                await self.writer.cut_files(queue)
                if end == queue.start:
                    emptied.append(queue)
        return emptied

    def take_changes(self) -> tuple[list[str], Iterator[ConsumeQueue]]:
        """The topics that were deleted and the queues that changed on disk since the last call."""
        deleted, changed = list(self._deleted), self.writer.changed
        self._deleted, self.writer.changed = {}, {}
        return deleted, (queue for queue in changed if self.find(queue.topic, queue.queue_id) is queue)

    # ---- reading

    def entries_hot(self, queue: ConsumeQueue, offset: int, count: int) -> bytes | None:
        """Up to ``count`` entries from ``offset`` on, at least one if there is one; None if that needs the device."""
        waiting = self._waiting(queue, offset, count)
        if waiting is not None:
            return waiting
        return self.files.read_hot(queue, offset, min(count, queue.written - offset))

    async def entries(self, queue: ConsumeQueue, offset: int, count: int) -> bytes:
        """Up to ``count`` entries from ``offset`` on, at least one if there is one."""
        waiting = self._waiting(queue, offset, count)
        if waiting is not None:
            return waiting
        return await self.files.read_cold(queue, offset, min(count, queue.written - offset))

    def entry(self, queue: ConsumeQueue, offset: int) -> tuple[int, int, int]:
        """One entry: physical offset, size, tag code. Blocks on the device."""
        physical, size, tag_code = ENTRY.unpack(self._read(queue, offset, 1) or NO_ENTRY)
        return physical, size, tag_code

    def _read(self, queue: ConsumeQueue, offset: int, count: int) -> bytes:
        waiting = self._waiting(queue, offset, count)
        return self.files.read(queue, offset, min(count, queue.written - offset)) if waiting is None else waiting

    def _waiting(self, queue: ConsumeQueue, offset: int, count: int) -> bytes | None:
        """Pending entries; None when the first is in a file."""
        if offset >= queue.max_offset or offset < queue.start:
            return b""
        if offset < queue.written or queue.pending is None:
            return None
        at = (offset - queue.written) * ENTRY_BYTES
        return bytes(queue.pending[at : at + count * ENTRY_BYTES])

    def min_offset(self, queue: ConsumeQueue, log_start: int) -> int:
        """The oldest entry whose record the log still has; the queue's end when it has none of them."""
        if queue.min_known_for != log_start:
            queue.min_offset = self.first_at_or_above(queue, log_start)
            queue.min_known_for = log_start
        return queue.min_offset

    def first_at_or_above(self, queue: ConsumeQueue, physical: int) -> int:
        """The first entry whose record lies at or above a physical offset; the queue's end when there is none."""
        low, high = queue.start, queue.max_offset
        if low < high and self._next_message(queue, low)[1] >= physical:
            high = low
        while low < high:
            middle = (low + high) // 2
            if self._next_message(queue, middle)[1] >= physical:
                high = middle
            else:
                low = middle + 1
        return self._next_message(queue, low)[0]

    def place_from(self, queue: ConsumeQueue, offset: int) -> int:
        """The physical offset of the first message from ``offset`` on; the largest number when there is none."""
        return self._next_message(queue, max(offset, queue.start))[1]

    def _next_message(self, queue: ConsumeQueue, offset: int) -> tuple[int, int]:
        """The first entry from ``offset`` on that is not a filler, and the physical offset of its record."""
        while offset < queue.max_offset:
            physical, size, _ = self.entry(queue, offset)
            if not is_filler(size):
                # No entry: its place is behind the end, from where a cut that was interrupted has removed it.
                return offset, physical if size else maxsize
            offset += self._fillers(queue, offset)
        return offset, maxsize

    def _fillers(self, queue: ConsumeQueue, offset: int) -> int:
        """Return the number of consecutive fillers from ``offset`` on, within one read."""
        data = self._read(queue, offset, _PROBE)
        count = len(data) // ENTRY_BYTES
        if data == FILLER * count:
            return count
        count = 0
        for _, size, _ in ENTRY.iter_unpack(data):
            if not is_filler(size):
                break
            count += 1
        return count

    # ---- removing

    async def delete_topic(self, topic: str) -> int:
        """Delete a topic's queues and their files; return how many there were."""
        queues = self.of_topic(topic)
        self._topics.pop(topic, None)
        self._deleted[topic] = None
        for queue in queues:
            self.writer.forget(queue)
        for queue in queues:
            await self.files.remove_queue(queue)
        if queues:
            await self._remove_topic_directory(topic)
        await self.files.sync_names()
        return len(queues)

    def has_over(self, topic: str, end: int) -> bool:
        """Whether a topic has queues whose records all lie below a physical offset."""
        return any(self._ends_below(queue, end) for queue in self._topics.get(topic, {}).values())

    async def end_life(self, topic: str, end: int) -> None:
        """Delete the queues of a topic whose records all lie below a physical offset."""
        of_topic = self._topics.get(topic, {})
        over = [queue for queue in of_topic.values() if self._ends_below(queue, end)]
        for queue in over:
            del of_topic[queue.queue_id]
            self.writer.forget(queue)
            self._tell_anew(queue, end)
        # The next frame of the journal names the topic as deleted, and every queue that is left.
        self._deleted[topic] = None
        self.writer.changed.update(dict.fromkeys(of_topic.values()))
        if not of_topic:
            self._topics.pop(topic, None)
        for queue in over:
            await self.files.remove_queue(queue)
        await self.files.sync_names()

    def _ends_below(self, queue: ConsumeQueue, end: int) -> bool:
        return queue.start < queue.max_offset and self.entry(queue, queue.max_offset - 1)[0] < end

    def _tell_anew(self, queue: ConsumeQueue, end: int) -> None:
        self.begun_anew[queue.topic, queue.queue_id] = None
        for tell in self.on_anew:
            tell(queue.topic, queue.queue_id, end)

    async def begin_anew(self, queue: ConsumeQueue, physical: int) -> ConsumeQueue:
        """Delete a queue with its files; return the empty queue that follows it, whose first record is at an offset."""
        self.writer.forget(queue)
        await self.files.remove_queue(queue)
        self._tell_anew(queue, physical + 1)
        return self.add(ConsumeQueue(queue.topic, queue.queue_id))

    async def _remove_topic_directory(self, topic: str) -> None:
        directory = f"{CONSUME_QUEUE}/{topic}"
        if self.files.disk.exists(directory) and not await self.files.disk.list(directory):
            await self.files.disk.remove_directory(directory)
            await self.files.disk.sync_directory(CONSUME_QUEUE)

    async def drop_files_below(self, log_start: int, most: int) -> int:
        """Delete up to ``most`` files whose entries are all below the log's start, never a queue's last file."""
        if log_start == self._dropped_below:
            return 0  # no more files can be deleted until the log's start changes
        removed = 0
        pace, walk = Pace(SLICE, rests=True), Pace(WALKED_AT_ONCE, rests=True)
        for queue in self.in_turns():
            await walk.did()
            if queue.start + self.files.per_file >= queue.max_offset:
                continue
            kept = self.files.first_of(min(self.min_offset(queue, log_start), queue.max_offset - 1))
            while queue.start < kept and removed < most and self.find(queue.topic, queue.queue_id) is queue:
                await self.files.remove(queue, queue.start)
                queue.start += self.files.per_file
                self.writer.changed[queue] = None
                removed += 1
            await pace.did()
        await self.files.sync_names()
        if removed < most:
            self._dropped_below = log_start
        return removed

    def close(self) -> None:
        """Close every file. Pending entries are lost unless they were flushed."""
        self.files.close()
