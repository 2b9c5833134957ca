"""Reads a queue: entries lead to records, and the log's own bytes go out, never decoded.

A record that this process wrote or judged, and that is in memory, is hot: its entry is checked against the size, queue
and offset that the record states. Anything else is cold and judged in full, the entry's tag code included, even where a
filter would pass over it; what was judged is hot from then on while it stays in memory (``judged``). An entry that does
not lead to its record is made again from the log; a record that rotted is passed over. Records that lie near each other
are read with one call. Java: ``DefaultMessageStore.getMessage``.
"""

from bisect import bisect_left
from collections import deque
from collections.abc import Sequence
from enum import Enum
from typing import Final, NamedTuple, TypeAlias

from firearrow.errors import BadRecord, OffsetNotStored
from firearrow.record.decode import size_and_magic
from firearrow.record.layout import SMALLEST_RECORD, Buffer
from firearrow.store.commitlog import CommitLog
from firearrow.store.consumequeue import ENTRY, ENTRY_BYTES, ConsumeQueue, is_filler, matches
from firearrow.store.dispatch import may_have_code
from firearrow.store.hotreads import RECENT_BYTES, SPAN_BYTES, Columns, HotPlan, gather, plan_all, plan_some
from firearrow.store.opening import OpenedLog
from firearrow.store.queues import Queues
from firearrow.store.repair import Repair
from firearrow.store.verify import judge

SCANNED_ENTRIES: Final = 800
"""Entries looked at for one answer, when a filter passes over most of them."""
SCANNED_COLD: Final = 64
"""The same where every record must be read to know that its entry is right."""
SPAN_GAP: Final = 2048
"""Bytes between two records that are read for nothing, because another call would cost more."""
_REPAIRS: Final = 16


class ReadStatus(Enum):
    """How a read ended, as Apache names it."""

    FOUND = "FOUND"
    NO_MATCHED_MESSAGE = "NO_MATCHED_MESSAGE"
    MESSAGE_WAS_REMOVING = "MESSAGE_WAS_REMOVING"
    OFFSET_FOUND_NULL = "OFFSET_FOUND_NULL"
    OFFSET_OVERFLOW_BADLY = "OFFSET_OVERFLOW_BADLY"
    OFFSET_OVERFLOW_ONE = "OFFSET_OVERFLOW_ONE"
    OFFSET_TOO_SMALL = "OFFSET_TOO_SMALL"
    NO_MATCHED_LOGIC_QUEUE = "NO_MATCHED_LOGIC_QUEUE"
    NO_MESSAGE_IN_QUEUE = "NO_MESSAGE_IN_QUEUE"


class Pulled(NamedTuple):
    """What a read of a queue gives."""

    status: ReadStatus
    next_offset: int
    """Where to read on."""
    min_offset: int
    max_offset: int
    buffers: Sequence[Buffer] = ()
    """Records one after the other, as they lie in the log."""
    messages: int = 0
    size: int = 0


_Wanted: TypeAlias = tuple[int, int, int, int, bool]
"""Queue offset, physical offset, size, tag code, and whether the filter lets it through."""


class _Wrong(NamedTuple):
    """An entry that does not lead to its record."""

    offset: int


class _Plan(NamedTuple):
    """What to read and check for one answer."""

    wanted: list[_Wanted]
    next_offset: int


class Pull(NamedTuple):
    """One question: from where, and how much at most. ``tags`` are the codes wanted; None wants all."""

    offset: int
    max_messages: int
    max_bytes: int
    tags: frozenset[int] | None = None


class QueueReader:
    """Answers reads of queues."""

    def __init__(self, log: CommitLog, queues: Queues, opened: OpenedLog, delays: tuple[int, ...]) -> None:
        self._log = log
        self._queues = queues
        self._ranges = opened.ranges.ranges
        self._damage = opened.damage
        self._segments = opened.segments
        self._segment_bytes = opened.segments.size
        self._delays = delays
        self._repair = Repair(opened, queues, delays)

    def read_hot(self, topic: str, queue_id: int, pull: Pull) -> Pulled | None:
        """Read without ever waiting; None when `read` must be asked."""
        queue = self._queues.find(topic, queue_id)
        outside = self._outside(queue, pull.offset)
        if outside is not None or queue is None:
            return outside
        good_until = queue.good_until(pull.offset)
        if good_until == pull.offset:
            return None
        entries = self._queues.entries_hot(queue, pull.offset, _looked_at(pull))
        return None if entries is None else self._read_good(queue, pull, entries, good_until)

    def _read_good(self, queue: ConsumeQueue, pull: Pull, entries: bytes, good_until: int) -> Pulled | None:
        """Read what needs no judgement, if it is in memory."""
        if good_until - pull.offset < len(entries) // ENTRY_BYTES:
            entries = entries[: (good_until - pull.offset) * ENTRY_BYTES]
        plan = _plan_hot(pull, entries)
        if plan is None:
            return None
        columns, total, next_offset = plan
        if len(self._damage) and any(map(self._damage.covers, columns[0])):
            return None
        buffers = self._gather_hot(queue.queue_id, columns, total)
        if buffers is None:
            return None
        count = len(columns[1])
        status = ReadStatus.FOUND if count else ReadStatus.NO_MATCHED_MESSAGE
        return Pulled(status, next_offset, queue.min_offset, queue.max_offset, buffers, count, total)

    async def read(
        self, topic: str, queue_id: int, pull: Pull, *, far: Pull | None = None, near_bytes: int = 0
    ) -> Pulled:
        """Read, waiting for the device, judging and putting right on the way.

        ``far`` is asked instead where what is read must be judged and lies more than ``near_bytes`` before the log's
        end.
        """
        for _ in range(_REPAIRS):
            queue = self._queues.find(topic, queue_id)
            outside = self._outside(queue, pull.offset)
            if outside is not None or queue is None:
                return outside or Pulled(ReadStatus.NO_MATCHED_LOGIC_QUEUE, 0, 0, 0)
            entries = await self._queues.entries(queue, pull.offset, max(SCANNED_COLD, _looked_at(pull)))
            good_until = queue.good_until(pull.offset)
            hot = self._read_good(queue, pull, entries, good_until) if good_until > pull.offset else None
            if hot is not None:
                return hot
            near = far is None or self._log.tail - _first_place(entries) <= near_bytes
            outcome = await self._read_cold(queue, pull if near or far is None else far, entries)
            if isinstance(outcome, Pulled):
                return outcome
            await self._repair.entry(queue, outcome.offset, self._log.written)
        raise OffsetNotStored(f"queue {queue_id} of {topic} at {pull.offset} stays unreadable after {_REPAIRS} repairs")

    def _outside(self, queue: ConsumeQueue | None, offset: int) -> Pulled | None:
        """The answer when the queue has nothing at that offset."""
        if queue is None:
            return Pulled(ReadStatus.NO_MATCHED_LOGIC_QUEUE, 0, 0, 0)
        least = self._queues.min_offset(queue, self._log.min_offset)
        end = queue.max_offset
        if end == 0:
            return Pulled(ReadStatus.NO_MESSAGE_IN_QUEUE, 0, least, end)
        if offset < least:
            return Pulled(ReadStatus.OFFSET_TOO_SMALL, least, least, end)
        if offset == end:
            return Pulled(ReadStatus.OFFSET_OVERFLOW_ONE, offset, least, end)
        return Pulled(ReadStatus.OFFSET_OVERFLOW_BADLY, end, least, end) if offset > end else None

    def _answer(self, queue: ConsumeQueue, plan: _Plan, buffers: list[Buffer]) -> Pulled:
        matched = [wanted[2] for wanted in plan.wanted if wanted[4]]
        return Pulled(
            ReadStatus.FOUND if matched else ReadStatus.NO_MATCHED_MESSAGE,
            plan.next_offset,
            queue.min_offset,
            queue.max_offset,
            buffers,
            len(matched),
            sum(matched),
        )

    # ---- hot

    def _gather_hot(self, queue_id: int, columns: Columns, total: int) -> list[Buffer] | None:
        """The records' bytes, or None when one is not in memory or not what its entry says."""
        physicals, sizes, offsets = columns
        buffers: list[Buffer] = []
        handed = self._log.handed
        first, count = 0, len(sizes)
        while first < count:
            segment = self._segments.at(physicals[first])
            if segment is None:
                return None
            until = count
            if physicals[-1] >= segment.end:
                # The rest is in the next file. Where they are out of order, `gather` finds it out.
                until = bisect_left(physicals, segment.end, first + 1)
            some = columns
            if until - first < count:
                some = (physicals[first:until], sizes[first:until], offsets[first:until])
                total = sum(some[1])
            recent = physicals[first] >= max(handed - RECENT_BYTES, self._log.opened_at)
            stop = min(segment.end, handed)
            gathered = gather(segment, stop, queue_id, some, total, recent=recent)
            if gathered is None or until - first == count:
                return gathered
            buffers += gathered
            first = until
        return buffers

    # ---- cold

    async def _read_cold(self, queue: ConsumeQueue, pull: Pull, entries: bytes) -> Pulled | _Wrong:
        """Read with every record judged; the first wrong entry when nothing good comes before it."""
        plan = _plan_cold(pull, entries[: max(SCANNED_COLD, pull.max_messages) * ENTRY_BYTES])
        if not plan.wanted:
            return self._answer(queue, plan, [])._replace(status=ReadStatus.MESSAGE_WAS_REMOVING)
        buffers: list[Buffer] = []
        good: list[_Wanted] = []
        spans = deque(_spans(plan.wanted, self._segment_bytes))
        while spans:
            some = spans.popleft()
            data = await self._read_span(some)
            if data is None and len(some) > 1:
                spans.extendleft([one] for one in reversed(some))
                continue
            wrong = some[0][0] if data is None else self._check(queue, data, some)
            right = some if wrong is None else [wanted for wanted in some if wanted[0] < wrong]
            if data is not None:
                _add_slices(buffers, data, some[0][1], [wanted for wanted in right if wanted[4]])
            good += right
            queue.was_judged(pull.offset, right[-1][0] + 1 if wrong is None else wrong)
            if wrong is not None:
                return self._answer(queue, _Plan(good, wrong), buffers) if good else _Wrong(wrong)
        return self._answer(queue, plan, buffers)

    async def _read_span(self, some: list[_Wanted]) -> bytes | None:
        """The bytes of some records; None when one of their entries cannot be right."""
        _, physical, size, _, _ = some[0]
        if size < SMALLEST_RECORD:
            return None
        try:
            if size > SPAN_BYTES:
                head = await self._log.read_cold(physical, SMALLEST_RECORD)
                if size_and_magic(head)[0] != size:
                    return None
            return await self._log.read_cold(physical, some[-1][1] + some[-1][2] - physical)
        except OffsetNotStored:
            return None

    def _check(self, queue: ConsumeQueue, data: bytes, some: list[_Wanted]) -> int | None:
        """The offset of the first entry that does not lead to a good record of its own; None when all do."""
        start = some[0][1]
        covers = self._ranges.covers
        for offset, physical, size, code, _ in some:
            try:
                head, _ = judge(data, physical - start, physical, ours=covers(physical))
            except BadRecord:
                return offset
            if (head.size, head.queue_id, head.queue_offset) != (size, queue.queue_id, offset):
                return offset
            properties = head.properties(data)
            if head.topic != queue.topic:
                return offset
            if not may_have_code(code, head.topic, properties, head.store_timestamp, self._delays):
                return offset
        return None


def _looked_at(pull: Pull) -> int:
    """How many entries are looked at for one answer."""
    return pull.max_messages if pull.tags is None else max(SCANNED_ENTRIES, pull.max_messages)


def _first_place(entries: bytes) -> int:
    """Where the first message lies in the log, by its entry; 0 when there is none."""
    return int(ENTRY.unpack_from(entries)[0]) if entries else 0


def _plan_hot(pull: Pull, entries: bytes) -> HotPlan | None:
    offset, most, max_bytes, tags = pull
    if tags is None:
        entries = entries[: most * ENTRY_BYTES]
        plan = plan_all(offset, max_bytes, entries)
        if plan is not None:
            return plan
    return plan_some(offset, max(most, 1), max_bytes, tags, entries)


def _plan_cold(pull: Pull, entries: bytes) -> _Plan:
    """What to read and check: every entry from the first message on, until enough of them match."""
    wanted: list[_Wanted] = []
    offset, total, matched = pull.offset, 0, 0
    for physical, size, code in ENTRY.iter_unpack(entries):
        if is_filler(size):
            offset += 1
            continue
        match = pull.tags is None or matches(code, pull.tags)
        if match and matched and (total + size > pull.max_bytes or matched >= pull.max_messages):
            break
        if match:
            matched += 1
            total += size
        wanted.append((offset, physical, size, code, match))
        offset += 1
    return _Plan(wanted, offset)


def _spans(wanted: list[_Wanted], segment_bytes: int) -> list[list[_Wanted]]:
    """Wanted records in groups that one read covers: in one file, in order, and near each other."""
    spans: list[list[_Wanted]] = []
    start = end = -1
    for one in wanted:
        physical, size = one[1], one[2]
        near = 0 <= physical - end <= SPAN_GAP and end >= 0 and size >= SMALLEST_RECORD
        if (
            near
            and physical + size - start <= SPAN_BYTES
            and start // segment_bytes == (physical + size - 1) // segment_bytes
        ):
            spans[-1].append(one)
        else:
            spans.append([one])
            start = physical
        end = physical + size
    return spans


def _add_slices(buffers: list[Buffer], data: bytes, start: int, some: list[_Wanted]) -> None:
    """Add the records' bytes, those that touch as one."""
    view = memoryview(data)
    at = end = -1
    for _, physical, size, _, _ in some:
        if physical != end:
            if end >= 0:
                buffers.append(view[at - start : end - start])
            at = physical
        end = physical + size
    if end >= 0:
        buffers.append(view[at - start : end - start])
