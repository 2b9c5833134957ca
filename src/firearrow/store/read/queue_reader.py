"""Reads a queue: entries lead to records, and the raw bytes of the records are the answer.

A record that this process wrote or checked, and that is in the page cache, is hot: only its size, queue and offset are
compared with its entry. All other records are cold and are checked completely, with the entry's tag code, even if a
filter would skip them; afterwards they are hot while they stay in the page cache (``judged``). An entry that does not
lead to its record is repaired from the log; a rotten record is skipped. Records that lie near each other are read with
one call. Java: ``DefaultMessageStore.getMessage``.
"""

from bisect import bisect_left
from collections import deque
from collections.abc import Sequence
from enum import Enum
from typing import Final, NamedTuple, TypeAlias

from firearrow.errors import BadRecord, OffsetNotStored
from firearrow.record.decode import size_and_magic
from firearrow.record.layout import SMALLEST_RECORD, Buffer
from firearrow.store.dispatch import may_have_code
from firearrow.store.log.block_sums import BlockSums
from firearrow.store.log.commit_log import CommitLog
from firearrow.store.queue.consume_queue import ENTRY, ENTRY_BYTES, ConsumeQueue, is_filler, matches
from firearrow.store.queue.table import Queues
from firearrow.store.read.hot_records import RECENT_BYTES, SPAN_BYTES, Columns, HotPlan, gather, plan_all, plan_some
from firearrow.store.read.log_bytes import LogBytes
from firearrow.store.read.stamped_records import are_right
from firearrow.store.recovery.open_log import OpenedLog
from firearrow.store.recovery.verify import judge
from firearrow.store.views.repair import Repair

SCANNED_ENTRIES: Final = 800
"""The most entries read for one answer, when a filter skips most of them."""
SCANNED_COLD: Final = 64
"""The most entries on the cold path, where every record must be read to check its entry."""
SPAN_GAP: Final = 2048
"""Bytes between two records up to which the gap is read too, because another call would cost more."""
FETCHED_BYTES: Final = 1 << 20
"""The longest part of the log that is read from the device at once, the records of other queues between included."""
LEAST_VOUCHED: Final = 4096
"""Bytes of records from which on whole blocks are checked instead of records."""
MOST_SPARSE: Final = 16
"""The longest part of the log whose blocks are checked, as a multiple of the bytes that are wanted of it."""
_REPAIRS: Final = 16


class ReadStatus(Enum):
    """The outcome of a read, as Apache names it."""

    FOUND = "FOUND"
    NO_MATCHED_MESSAGE = "NO_MATCHED_MESSAGE"
    MESSAGE_WAS_REMOVING = "MESSAGE_WAS_REMOVING"
    OFFSET_FOUND_NULL = "OFFSET_FOUND_NULL"
    OFFSET_OVERFLOW_BADLY = "OFFSET_OVERFLOW_BADLY"
    OFFSET_OVERFLOW_ONE = "OFFSET_OVERFLOW_ONE"
    OFFSET_TOO_SMALL = "OFFSET_TOO_SMALL"
    NO_MATCHED_LOGIC_QUEUE = "NO_MATCHED_LOGIC_QUEUE"
    NO_MESSAGE_IN_QUEUE = "NO_MESSAGE_IN_QUEUE"


class ReadResult(NamedTuple):
    """The answer to a read of a queue."""

    status: ReadStatus
    next_offset: int
    """The queue offset to read next."""
    min_offset: int
    max_offset: int
    buffers: Sequence[Buffer] = ()
    """Raw records in order; a buffer may hold several."""
    messages: int = 0
    size: int = 0


_Wanted: TypeAlias = tuple[int, int, int, int, bool]
"""Queue offset, physical offset, size, tag code, and whether the message passes the filter."""


class _WrongEntry(NamedTuple):
    """An entry that does not lead to its record."""

    offset: int


class _Plan(NamedTuple):
    """The records to read and check for one answer."""

    wanted: list[_Wanted]
    next_offset: int


class ReadRequest(NamedTuple):
    """One read: the first offset, and limits. ``tags`` are the wanted tag codes; None wants all."""

    offset: int
    max_messages: int
    max_bytes: int
    tags: frozenset[int] | None = None


class QueueReader:
    """Answers reads of queues."""

    def __init__(
        self, log: CommitLog, queues: Queues, opened: OpenedLog, delays: tuple[int, ...], sums: BlockSums
    ) -> None:
        self._log = log
        self._bytes = LogBytes(log, opened.segments)
        self._queues = queues
        self._ranges = opened.ranges.ranges
        self._damage = opened.damage
        self._segments = opened.segments
        self._segment_bytes = opened.segments.size
        self._delays = delays
        self._sums = sums
        self._repair = Repair(opened, queues, delays)

    def read_hot(self, topic: str, queue_id: int, request: ReadRequest) -> ReadResult | None:
        """Read without waiting; None when `read` is needed."""
        queue = self._queues.find(topic, queue_id)
        outside = self._outside(queue, request.offset)
        if outside is not None or queue is None:
            return outside
        good_until = queue.good_until(request.offset)
        if good_until == request.offset:
            return None
        entries = self._queues.entries_hot(queue, request.offset, _looked_at(request))
        return None if entries is None else self._read_good(queue, request, entries, good_until)

    def _read_good(
        self, queue: ConsumeQueue, request: ReadRequest, entries: bytes, good_until: int
    ) -> ReadResult | None:
        """Read entries that need no check, if their records are in memory; else None."""
        if good_until - request.offset < len(entries) // ENTRY_BYTES:
            entries = entries[: (good_until - request.offset) * ENTRY_BYTES]
        plan = _plan_hot(request, entries)
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
        return ReadResult(status, next_offset, queue.min_offset, queue.max_offset, buffers, count, total)

    async def read(
        self, topic: str, queue_id: int, request: ReadRequest, *, far: ReadRequest | None = None, near_bytes: int = 0
    ) -> ReadResult:
        """Read, waiting for the device; check records and repair entries on the way.

        ``far`` replaces ``request`` when records must be checked and lie more than ``near_bytes`` before the log's end.
        """
        for _ in range(_REPAIRS):
            queue = self._queues.find(topic, queue_id)
            outside = self._outside(queue, request.offset)
            if outside is not None or queue is None:
                return outside or ReadResult(ReadStatus.NO_MATCHED_LOGIC_QUEUE, 0, 0, 0)
            entries = await self._queues.entries(queue, request.offset, max(SCANNED_COLD, _looked_at(request)))
            good_until = queue.good_until(request.offset)
            hot = self._read_good(queue, request, entries, good_until) if good_until > request.offset else None
            if hot is not None:
                return hot
            near = far is None or self._log.tail - _first_place(entries) <= near_bytes
            outcome = await self._read_cold(queue, request if near or far is None else far, entries)
            if isinstance(outcome, ReadResult):
                return outcome
            await self._repair.entry(queue, outcome.offset, self._log.written)
        raise OffsetNotStored(
            f"queue {queue_id} of {topic} at {request.offset} stays unreadable after {_REPAIRS} repairs"
        )

    def _outside(self, queue: ConsumeQueue | None, offset: int) -> ReadResult | None:
        """The answer when the queue has no message at that offset; else None."""
        if queue is None:
            return ReadResult(ReadStatus.NO_MATCHED_LOGIC_QUEUE, 0, 0, 0)
        least = self._queues.min_offset(queue, self._log.min_offset)
        end = queue.max_offset
        if end == 0:
            return ReadResult(ReadStatus.NO_MESSAGE_IN_QUEUE, 0, least, end)
        if offset < least:
            return ReadResult(ReadStatus.OFFSET_TOO_SMALL, least, least, end)
        if offset == end:
            return ReadResult(ReadStatus.OFFSET_OVERFLOW_ONE, offset, least, end)
        return ReadResult(ReadStatus.OFFSET_OVERFLOW_BADLY, end, least, end) if offset > end else None

    def _answer(self, queue: ConsumeQueue, plan: _Plan, buffers: list[Buffer]) -> ReadResult:
        matched = [wanted[2] for wanted in plan.wanted if wanted[4]]
        return ReadResult(
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
        """The records' bytes, or None when a record is not in memory or differs from its entry."""
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
                # The rest is in the next file. `gather` detects offsets that are out of order.
                until = bisect_left(physicals, segment.end, first + 1)
            part = columns
            if until - first < count:
                part = (physicals[first:until], sizes[first:until], offsets[first:until])
                total = sum(part[1])
            recent = physicals[first] >= max(handed - RECENT_BYTES, self._log.opened_at)
            stop = min(segment.end, handed)
            gathered = gather(segment, stop, queue_id, part, total, recent=recent)
            if gathered is None or until - first == count:
                return gathered
            buffers += gathered
            first = until
        return buffers

    # ---- cold

    async def _read_cold(self, queue: ConsumeQueue, request: ReadRequest, entries: bytes) -> ReadResult | _WrongEntry:
        """Read and check every record; return the first wrong entry if no good one comes before it."""
        stamped = await self._read_stamped(queue, request, entries) if request.tags is None else None
        if stamped is not None:
            return stamped
        plan = _plan_cold(request, entries[: max(SCANNED_COLD, request.max_messages) * ENTRY_BYTES])
        if not plan.wanted:
            return self._answer(queue, plan, [])._replace(status=ReadStatus.MESSAGE_WAS_REMOVING)
        buffers: list[Buffer] = []
        good: list[_Wanted] = []
        spans = deque(_spans(plan.wanted, self._segment_bytes))
        while spans:
            span = spans.popleft()
            data = await self._read_span(span)
            if data is None and len(span) > 1:
                spans.extendleft([wanted] for wanted in reversed(span))
                continue
            right: list[_Wanted] = []
            if data is not None:
                right = self._right(queue, data, span)
                _add_slices(buffers, data, span[0][1], right)
            good += right
            wrong = span[len(right)][0] if len(right) < len(span) else None
            queue.was_judged(request.offset, span[-1][0] + 1 if wrong is None else wrong)
            if wrong is not None:
                return self._answer(queue, _Plan(good, wrong), buffers) if good else _WrongEntry(wrong)
        return self._answer(queue, plan, buffers)

    async def _read_stamped(self, queue: ConsumeQueue, request: ReadRequest, entries: bytes) -> ReadResult | None:
        """Read records that all have our stamp, and check them by columns; None when one must be looked at alone."""
        plan = plan_all(request.offset, request.max_bytes, entries[: request.max_messages * ENTRY_BYTES])
        if plan is None:
            return None
        columns, total, next_offset = plan
        physicals, sizes, _ = columns
        is_ours, until = self._ranges.owner(physicals[0])
        if not is_ours or max(physicals) >= until or (len(self._damage) and any(map(self._damage.covers, physicals))):
            return None
        buffers, are_vouched = await self._gather_vouched(queue.queue_id, columns, total)
        if buffers is None and await self._bring_into_memory(physicals[0], physicals[-1] + sizes[-1]):
            buffers = self._gather_hot(queue.queue_id, columns, total)
        if buffers is None:
            return None
        codes = [code for _, _, code in ENTRY.iter_unpack(entries[: len(sizes) * ENTRY_BYTES])]
        if not are_right(b"".join(buffers), queue.topic, sizes, codes, are_vouched=are_vouched):
            return None
        queue.was_judged(request.offset, next_offset)
        found = ReadStatus.FOUND
        return ReadResult(found, next_offset, queue.min_offset, queue.max_offset, buffers, len(sizes), total)

    async def _gather_vouched(self, queue_id: int, columns: Columns, total: int) -> tuple[list[Buffer] | None, bool]:
        """The records' bytes if they are in memory, and whether the checksums of their blocks vouch for them."""
        physicals, sizes, _ = columns
        first, end = physicals[0], physicals[-1] + sizes[-1]
        if total < LEAST_VOUCHED or not end - first <= MOST_SPARSE * total:
            return self._gather_hot(queue_id, columns, total), False
        are_vouched = await self._sums.vouch(first, end)
        buffers = self._gather_hot(queue_id, columns, total)
        if buffers is None and are_vouched:
            self._sums.forget(first, end)
            are_vouched = await self._sums.vouch(first, end)
            buffers = self._gather_hot(queue_id, columns, total)
        return buffers, are_vouched and buffers is not None

    async def _bring_into_memory(self, first: int, end: int) -> bool:
        """Have the kernel read a part of the log; False when it is too long, or not in one file."""
        if not 0 < end - first <= FETCHED_BYTES:
            return False
        try:
            await self._bytes.read_cold(first, end - first)
        except OffsetNotStored:
            return False
        return True

    async def _read_span(self, span: list[_Wanted]) -> bytes | None:
        """The bytes of the records of a span; None when an entry cannot be right."""
        _, physical, size, _, _ = span[0]
        if size < SMALLEST_RECORD:
            return None
        try:
            if size > SPAN_BYTES:
                head = await self._bytes.read_cold(physical, SMALLEST_RECORD)
                if size_and_magic(head)[0] != size:
                    return None
            return await self._bytes.read_cold(physical, span[-1][1] + span[-1][2] - physical)
        except OffsetNotStored:
            return None

    def _right(self, queue: ConsumeQueue, data: bytes, span: list[_Wanted]) -> list[_Wanted]:
        """The records up to the first entry that does not lead to a good record of its own."""
        start = span[0][1]
        covers = self._ranges.covers
        for number, (offset, physical, size, code, _) in enumerate(span):
            try:
                head, _ = judge(data, physical - start, physical, ours=covers(physical))
            except BadRecord:
                return span[:number]
            if (head.topic, head.size, head.queue_id, head.queue_offset) != (queue.topic, size, queue.queue_id, offset):
                return span[:number]
            if not may_have_code(code, head.topic, head.properties(data), head.store_timestamp, self._delays):
                return span[:number]
        return span


def _looked_at(request: ReadRequest) -> int:
    """Return the number of entries to read for one answer."""
    return request.max_messages if request.tags is None else max(SCANNED_ENTRIES, request.max_messages)


def _first_place(entries: bytes) -> int:
    """Return the physical offset in the first entry; 0 when there is none."""
    return int(ENTRY.unpack_from(entries)[0]) if entries else 0


def _plan_hot(request: ReadRequest, entries: bytes) -> HotPlan | None:
    offset, most, max_bytes, tags = request
    if tags is None:
        entries = entries[: most * ENTRY_BYTES]
        plan = plan_all(offset, max_bytes, entries)
        if plan is not None:
            return plan
    return plan_some(offset, max(most, 1), max_bytes, tags, entries)


def _plan_cold(request: ReadRequest, entries: bytes) -> _Plan:
    """The records to read and check: every entry from the first message on, until enough of them match."""
    wanted: list[_Wanted] = []
    offset, total, matched = request.offset, 0, 0
    for physical, size, code in ENTRY.iter_unpack(entries):
        if is_filler(size):
            offset += 1
            continue
        match = request.tags is None or matches(code, request.tags)
        if match and matched and (total + size > request.max_bytes or matched >= request.max_messages):
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
    for record in wanted:
        physical, size = record[1], record[2]
        near = 0 <= physical - end <= SPAN_GAP and end >= 0 and size >= SMALLEST_RECORD
        if (
            near
            and physical + size - start <= SPAN_BYTES
            and start // segment_bytes == (physical + size - 1) // segment_bytes
        ):
            spans[-1].append(record)
        else:
            spans.append([record])
            start = physical
        end = physical + size
    return spans


def _add_slices(buffers: list[Buffer], data: bytes, start: int, records: list[_Wanted]) -> None:
    """Add the bytes of the records that pass the filter, touching records as one buffer."""
    view = memoryview(data)
    at = end = -1
    for _, physical, size, _, passes in records:
        if not passes:
            continue
        if physical != end:
            if end >= 0:
                buffers.append(view[at - start : end - start])
            at = physical
        end = physical + size
    if end >= 0:
        buffers.append(view[at - start : end - start])
