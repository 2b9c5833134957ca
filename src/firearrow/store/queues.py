"""The table of all queues: where entries are put, kept until they are written out, and read.

Entries gather in memory, queue by queue, and are written out in groups: when too many bytes wait, and at every flush.
So a queue that gets one message a minute costs a small write a flush and no descriptor, and reading what waits costs
nothing. Nothing here is needed to survive a crash: what was not flushed is dispatched from the log again.

Invariant: the entries of a queue are those of its records in the log, in order and without a gap; where the log has
lost a record, its slot holds the filler.
"""

from collections import OrderedDict
from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import chain
from sys import maxsize
from typing import Annotated, Final

from msgspec import Meta, Struct

from firearrow.errors import FileMissing, ResourceShortage
from firearrow.runtime.disk import Disk
from firearrow.store.consumequeue import ENTRY, ENTRY_BYTES, FILLER, NO_ENTRY, ConsumeQueue, entries_below, is_filler
from firearrow.store.pacing import Pace
from firearrow.store.paths import CONSUME_QUEUE
from firearrow.store.queuefiles import DEFAULT_FILE_BYTES, QueueFiles

LARGEST_GAP: Final = 30_000_000
"""Slots filled at most between two entries; a record further away keeps its place in the log alone."""
SYNCED_EACH: Final = 32
"""Queues that are synced one by one; for more, one sync of everything costs less."""
SLICE: Final = 32
"""Queues written or synced before others get their turn on the loop."""
_FILLED_AT_ONCE: Final = 50_000
_PROBE: Final = 4096
_WALKED_AT_ONCE: Final = 1024


class QueueConfig(Struct, frozen=True, kw_only=True, rename="camel"):
    """The consume queues."""

    mapped_file_size_consume_queue: Annotated[
        int,
        Meta(
            ge=0,
            le=1 << 30,
            description="Bytes of one queue file, a multiple of 20; 0 takes the size of those that are there, "
            "else 6,000,000.",
        ),
    ] = 0
    max_open_queue_files: Annotated[int, Meta(ge=8, le=100_000, description="Queue files kept open at most.")] = 512
    max_pending_queue_bytes: Annotated[
        int,
        Meta(
            ge=ENTRY_BYTES,
            le=1 << 30,
            description="Bytes of entries that wait in memory at most; when queues or index cannot be written and more "
            "waits, sends are refused until they can be.",
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
        self.pending_bytes = 0
        self.fresh: OrderedDict[ConsumeQueue, None] = OrderedDict()
        """Queues with entries that are not written out, oldest first."""
        self.synced_each = SYNCED_EACH
        self._max_pending = config.max_pending_queue_bytes
        self._topics: dict[str, dict[int, ConsumeQueue]] = {}
        self._unsynced: dict[ConsumeQueue, int] = {}  # lowest entry written since the last sync
        self._changed: dict[ConsumeQueue, None] = {}  # since the journal was last told
        self._deleted: dict[str, None] = {}
        self._doubted = False
        self._dropped_below = -1  # the log's start when every file below it was last known to be gone
        self._flush_number = 0
        self._flush_to = 0  # entries of records below are made durable by the flush that runs
        self._flushing: list[ConsumeQueue] = []
        self._synced_early: dict[ConsumeQueue, None] = {}

    # ---- the table

    def __iter__(self) -> Iterator[ConsumeQueue]:
        """Every queue, by topic and number."""
        for topic in sorted(self._topics):
            of_topic = self._topics[topic]
            for queue_id in sorted(of_topic):
                yield of_topic[queue_id]

    def in_turns(self) -> Iterator[ConsumeQueue]:
        """Every queue, in no order: the table may change between two of them."""
        for topic in list(self._topics):
            yield from list(self._topics.get(topic, {}).values())

    def __len__(self) -> int:
        return sum(map(len, self._topics.values()))

    def find(self, topic: str, queue_id: int) -> ConsumeQueue | None:
        """A queue, if it is there."""
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
        """A queue, made when it is new."""
        of_topic = self._topics.get(topic)
        if of_topic is not None:
            queue = of_topic.get(queue_id)
            if queue is not None:
                return queue
        return self.add(ConsumeQueue(topic, queue_id))

    def add(self, queue: ConsumeQueue) -> ConsumeQueue:
        """Take a queue into the table."""
        self._topics.setdefault(queue.topic, {})[queue.queue_id] = queue
        return queue

    def settle(self) -> None:
        """Let the next append of every queue follow its last entry."""
        for of_topic in self._topics.values():
            for queue in of_topic.values():
                queue.next_offset = queue.max_offset

    # ---- putting

    def put(self, queue: ConsumeQueue, queue_offset: int, physical: int, size: int, tag_code: int) -> bool:
        """Put one entry; False when the queue has it already or cannot have it.

        Dispatch does the same by itself where the entry follows the last one.
        """
        if queue_offset < queue.max_offset or self.find(queue.topic, queue.queue_id) is not queue:
            return False
        if queue_offset != queue.max_offset and not self._fill(queue, queue_offset):
            return False
        self._wait(queue, ENTRY.pack(physical, size, tag_code))
        queue.max_offset = queue_offset + 1
        return True

    def _wait(self, queue: ConsumeQueue, entries: bytes) -> None:
        if queue.pending is None:
            queue.pending = bytearray()
            self.fresh[queue] = None
        queue.pending += entries
        self.pending_bytes += len(entries)

    def _fill(self, queue: ConsumeQueue, until: int) -> bool:
        """Put fillers up to an entry: from the start of its file in a new queue, else from the last entry on."""
        if queue.max_offset == queue.start:
            queue.start = queue.max_offset = queue.written = queue.durable = queue.goal = self.files.first_of(until)
            queue.min_known_for = -1
        gap = until - queue.max_offset
        if gap > LARGEST_GAP:
            return False
        if gap <= self.files.per_file:
            self._wait(queue, FILLER * gap)
            queue.max_offset = until
            return True
        self.write_out(queue)
        while queue.max_offset < until:
            count = min(until - queue.max_offset, _FILLED_AT_ONCE)
            self._write(queue, queue.max_offset, FILLER * count)
            queue.max_offset += count
            queue.written = queue.max_offset
        return True

    # ---- writing out

    def relieve(self, most: int) -> None:
        """Write out some queues, the oldest first, while too many bytes wait. Without space they go on waiting."""
        with suppress(ResourceShortage):
            while most > 0 and self.pending_bytes > self._max_pending and self.fresh:
                self.write_out(next(iter(self.fresh)))
                most -= 1

    def write_out(self, queue: ConsumeQueue) -> None:
        """Give the entries of a queue that wait in memory to the disk."""
        self._fix_goal(queue)
        pending = queue.pending
        if pending is None:
            return
        if pending:
            self._write(queue, queue.written, pending)
        self.pending_bytes -= len(pending)
        queue.pending = None
        queue.written = queue.max_offset
        del self.fresh[queue]

    def rewrite(self, queue: ConsumeQueue, offset: int, entry: bytes) -> None:
        """Put another entry in the place of a wrong one."""
        if offset >= queue.written and queue.pending is not None:
            at = (offset - queue.written) * ENTRY_BYTES
            queue.pending[at : at + ENTRY_BYTES] = entry
        else:
            self._write(queue, offset, entry)

    def _write(self, queue: ConsumeQueue, offset: int, entries: bytes | bytearray) -> None:
        self.files.write(queue, offset, entries)
        lowest = self._unsynced.get(queue)
        if lowest is None or offset < lowest:
            self._unsynced[queue] = offset

    async def cut(self, physical: int) -> None:
        """Drop every entry whose record lies at or above a place in the log. Nothing may wait in memory."""
        for queue in self:
            end = self.first_at_or_above(queue, physical)
            if end < queue.max_offset:
                queue.end_at(end)
                await self.cut_files(queue)

    async def cut_files(self, queue: ConsumeQueue) -> None:
        """Leave nothing on disk behind the last entry of a queue that has nothing waiting in memory."""
        following = self.files.first_of(queue.max_offset)
        # A file without a single entry goes: nobody knows whether its name is durable.
        if following != queue.max_offset and not self.files.ends_at(queue, queue.max_offset):
            self.files.cut(queue, queue.max_offset)
            self._unsynced[queue] = queue.max_offset
        if following != queue.max_offset:
            following += self.files.per_file
        while self.files.there(queue, following):
            await self.files.remove(queue, following)
            following += self.files.per_file

    def doubt_files(self) -> None:
        """Let the next flush sync all files: what they show may be in memory alone."""
        self._doubted = True

    # ---- flushing

    def begin_flush(self, position: int) -> None:
        """Fix what the flush that follows makes durable: all that is put by now, the entries below a place in the log.

        Costs the same however many queues there are: a queue learns its goal before more of it is written.
        """
        self._flush_number += 1
        self._flush_to = position

    def _fix_goal(self, queue: ConsumeQueue) -> None:
        if queue.flush_number != self._flush_number:
            queue.flush_number = self._flush_number
            queue.goal = queue.written + (entries_below(queue.pending, self._flush_to) if queue.pending else 0)

    async def flush(self) -> None:
        """Make durable what was put before `begin_flush`."""
        # What an earlier flush left when it failed or was stopped may be synced and nowhere else.
        again = self._flushing
        self._flushing = [*again, *self._synced_early, *self._unsynced, *self.fresh]
        if again:
            self._flushing = list(dict.fromkeys(self._flushing))
        pace = Pace(SLICE, rests=True)
        for queue in self._flushing:
            self.write_out(queue)
            await pace.did()
        others: Iterable[ConsumeQueue] = ()
        if self._doubted or len(self._flushing) > self.synced_each:
            others = await self._sync_all()
            self._doubted = False
        else:
            for queue in self._flushing:
                await self._sync(queue)
            await self.files.sync_names()
        await self._note_durable(others)

    async def _note_durable(self, others: Iterable[ConsumeQueue]) -> None:
        """All that was to be flushed is synced, and ``others`` as well."""
        early: dict[ConsumeQueue, None] = {}
        walk = Pace(_WALKED_AT_ONCE, rests=True)
        for queue in self._flushing:
            queue.durable = max(queue.durable, queue.goal)
            self._changed[queue] = None
            await walk.did()
        for queue in chain(self._flushing, others):
            # Entries put since `begin_flush` may be synced already, and count when the log that they depend on is.
            if queue.durable < queue.written:
                early[queue] = None
            await walk.did()
        self._synced_early = early
        self._flushing = []

    def take_changes(self) -> tuple[list[str], Iterator[ConsumeQueue]]:
        """Topics that were deleted and queues that changed on disk since this was last asked."""
        deleted, changed = list(self._deleted), self._changed
        self._deleted, self._changed = {}, {}
        return deleted, (queue for queue in changed if self.find(queue.topic, queue.queue_id) is queue)

    async def _sync_all(self) -> Iterable[ConsumeQueue]:
        """Sync everything; return the queues that were written since they were last synced."""
        taken, self._unsynced = self._unsynced, {}
        try:
            await self.files.sync_everything()
        except BaseException:
            for queue, lowest in taken.items():
                self._unsynced[queue] = min(lowest, self._unsynced.get(queue, lowest))
            raise
        return taken

    async def _sync(self, queue: ConsumeQueue) -> None:
        lowest = self._unsynced.pop(queue, None)
        if lowest is None:
            return
        try:
            for first in range(self.files.first_of(lowest), max(queue.written, lowest + 1), self.files.per_file):
                await self.files.sync(queue, first)
        except FileMissing:
            return  # the topic was deleted since
        except BaseException:
            self._unsynced[queue] = min(lowest, self._unsynced.get(queue, lowest))
            raise

    # ---- reading

    def entries_hot(self, queue: ConsumeQueue, offset: int, count: int) -> bytes | None:
        """Some entries from ``offset`` on, at least one if it is in the queue; None when the device must be asked."""
        waiting = self._waiting(queue, offset, count)
        if waiting is not None:
            return waiting
        return self.files.read_hot(queue, offset, min(count, queue.written - offset))

    async def entries(self, queue: ConsumeQueue, offset: int, count: int) -> bytes:
        """Some entries from ``offset`` on, at least one if it is in the queue."""
        waiting = self._waiting(queue, offset, count)
        if waiting is not None:
            return waiting
        return await self.files.read_cold(queue, offset, min(count, queue.written - offset))

    def entry(self, queue: ConsumeQueue, offset: int) -> tuple[int, int, int]:
        """One entry: physical offset, size, tag code. Waits for the device."""
        data = self._waiting(queue, offset, 1)
        if data is None:
            data = self.files.read(queue, offset, 1)
        physical, size, tag_code = ENTRY.unpack(data or NO_ENTRY)
        return physical, size, tag_code

    def _waiting(self, queue: ConsumeQueue, offset: int, count: int) -> bytes | None:
        """Entries that wait in memory; None when the first is in a file."""
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
        """The first entry whose record lies at or above a place in the log; the queue's end when there is none."""
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

    def _next_message(self, queue: ConsumeQueue, offset: int) -> tuple[int, int]:
        """The first entry from ``offset`` on that is no filler, and where its record lies."""
        while offset < queue.max_offset:
            data = self._waiting(queue, offset, 1)
            if data is None:
                data = self.files.read(queue, offset, 1)
            physical, size, _ = ENTRY.unpack(data)
            if not is_filler(size):
                return offset, physical
            offset += self._fillers(queue, offset)
        return offset, maxsize

    def _fillers(self, queue: ConsumeQueue, offset: int) -> int:
        """How many fillers lie one after the other, as far as one read shows."""
        data = self._waiting(queue, offset, _PROBE)
        if data is None:
            data = self.files.read(queue, offset, min(_PROBE, queue.written - offset))
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
        """Forget a topic's queues and delete their files; return how many there were."""
        queues = self.of_topic(topic)
        self._topics.pop(topic, None)
        self._deleted[topic] = None
        for queue in queues:
            self._forget(queue)
        for queue in queues:
            await self.files.remove_queue(queue)
        if queues:
            await self._remove_topic_directory(topic)
        await self.files.sync_names()
        return len(queues)

    async def begin_anew(self, queue: ConsumeQueue) -> ConsumeQueue:
        """Forget what a queue holds and delete its files; return the empty queue that takes its place."""
        self._forget(queue)
        await self.files.remove_queue(queue)
        return self.add(ConsumeQueue(queue.topic, queue.queue_id))

    def _forget(self, queue: ConsumeQueue) -> None:
        queue.plain = False
        self._unsynced.pop(queue, None)
        if queue.pending is not None:
            self.pending_bytes -= len(queue.pending)
            queue.pending = None
            del self.fresh[queue]

    async def _remove_topic_directory(self, topic: str) -> None:
        directory = f"{CONSUME_QUEUE}/{topic}"
        if self.files.disk.exists(directory) and not await self.files.disk.list(directory):
            await self.files.disk.remove_directory(directory)
            await self.files.disk.sync_directory(CONSUME_QUEUE)

    async def drop_files_below(self, log_start: int, most: int) -> int:
        """Delete up to ``most`` files whose entries are all below the log's start, never a queue's last file."""
        if log_start == self._dropped_below:
            return 0  # nothing more can go before the log begins elsewhere
        removed = 0
        pace, walk = Pace(SLICE, rests=True), Pace(_WALKED_AT_ONCE, rests=True)
        for queue in self.in_turns():
            await walk.did()
            if queue.start + self.files.per_file >= queue.max_offset:
                continue
            kept = self.files.first_of(min(self.min_offset(queue, log_start), queue.max_offset - 1))
            while queue.start < kept and removed < most and self.find(queue.topic, queue.queue_id) is queue:
                await self.files.remove(queue, queue.start)
                queue.start += self.files.per_file
                self._changed[queue] = None
                removed += 1
            await pace.did()
        await self.files.sync_names()
        if removed < most:
            self._dropped_below = log_start
        return removed

    def close(self) -> None:
        """Give up every file. What waits in memory is lost unless it was flushed."""
        self.files.close()
