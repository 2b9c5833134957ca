"""Reads a queue: entries lead to records, and the log's own bytes go out, never decoded.

A record that this process wrote and that is in memory is hot: its entry is checked against the size, queue and offset
that the record states. Anything else is cold and checked in full, the entry's tag code included, even where a filter
would pass over it. An entry that does not lead to its record is made again from the log; a record that rotted is passed
over. Records that lie near each other are read with one call. Java: ``DefaultMessageStore.getMessage``.
"""

import struct
from collections import deque
from collections.abc import Sequence
from enum import Enum
from typing import Final, NamedTuple

from firearrow.errors import BadRecord, OffsetNotStored
from firearrow.record.decode import size_and_magic
from firearrow.record.layout import SMALLEST_RECORD
from firearrow.store.commitlog import CommitLog
from firearrow.store.consumequeue import ENTRY, ConsumeQueue, is_filler, matches
from firearrow.store.opening import OpenedLog
from firearrow.store.queues import Queues
from firearrow.store.repair import Repair, entry_of
from firearrow.store.verify import judge

SCANNED_ENTRIES: Final = 800
"""Entries looked at for one answer, when a filter passes over most of them."""
SCANNED_COLD: Final = 64
"""The same where every record must be read to know that its entry is right."""
SPAN_BYTES: Final = 512 << 10
"""The most that is read at once for several records that do not touch."""
SPAN_SLACK: Final = 8
"""How many times what is wanted may be read to save calls."""
_REPAIRS: Final = 16
_STATED = struct.Struct(">i8xi4xqq")


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
    buffers: Sequence[memoryview] = ()
    """Records one after the other, as they lie in the log."""
    messages: int = 0
    size: int = 0


class _Wanted(NamedTuple):
    offset: int
    physical: int
    size: int
    code: int
    matched: bool


class _Wrong(NamedTuple):
    """An entry that does not lead to its record."""

    offset: int


class _Plan(NamedTuple):
    """What to read for one answer."""

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
        self._segment_bytes = opened.segments.size
        self._delays = delays
        self._repair = Repair(opened, queues, delays)

    def read_hot(self, topic: str, queue_id: int, pull: Pull) -> Pulled | None:
        """Read without ever waiting; None when `read` must be asked."""
        queue = self._queues.find(topic, queue_id)
        outside = self._outside(queue, pull.offset)
        if outside is not None or queue is None:
            return outside
        scanned = pull.max_messages if pull.tags is None else max(SCANNED_ENTRIES, pull.max_messages)
        entries = self._queues.entries_hot(queue, pull.offset, scanned)
        if entries is None:
            return None
        plan = _plan(pull, entries, self._log.opened_at)
        if plan is None or (len(self._damage) and any(self._damage.covers(wanted.physical) for wanted in plan.wanted)):
            return None
        buffers = self._gather_hot(queue, plan.wanted)
        return None if buffers is None else self._answer(queue, plan, buffers)

    async def read(self, topic: str, queue_id: int, pull: Pull) -> Pulled:
        """Read, waiting for the device, checking and putting right on the way."""
        for _ in range(_REPAIRS):
            hot = self.read_hot(topic, queue_id, pull)
            if hot is not None:
                return hot
            queue = self._queues.find(topic, queue_id)
            if queue is None:
                continue
            outcome = await self._read_cold(queue, pull)
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

    def _answer(self, queue: ConsumeQueue, plan: _Plan, buffers: list[memoryview]) -> Pulled:
        return Pulled(
            ReadStatus.FOUND if buffers else ReadStatus.NO_MATCHED_MESSAGE,
            plan.next_offset,
            queue.min_offset,
            queue.max_offset,
            buffers,
            sum(1 for wanted in plan.wanted if wanted.matched),
            sum(map(len, buffers)),
        )

    # ---- hot

    def _gather_hot(self, queue: ConsumeQueue, wanted: list[_Wanted]) -> list[memoryview] | None:
        buffers: list[memoryview] = []
        read_hot = self._log.read_hot
        for some in _spans(wanted, self._segment_bytes):
            start = some[0].physical
            try:
                data = read_hot(start, some[-1].physical + some[-1].size - start)
            except OffsetNotStored:
                return None
            if data is None or not _are_stated(data, start, queue.queue_id, some):
                return None
            _add_slices(buffers, data, start, some)
        return buffers

    # ---- cold

    async def _read_cold(self, queue: ConsumeQueue, pull: Pull) -> Pulled | _Wrong:
        """Read with every record checked; the first wrong entry when nothing good comes before it."""
        entries = await self._queues.entries(queue, pull.offset, max(SCANNED_COLD, pull.max_messages))
        plan = _plan_cold(pull, entries)
        if not plan.wanted:
            return self._answer(queue, plan, [])._replace(status=ReadStatus.MESSAGE_WAS_REMOVING)
        buffers: list[memoryview] = []
        good: list[_Wanted] = []
        spans = deque(_spans(plan.wanted, self._segment_bytes))
        while spans:
            some = spans.popleft()
            data = await self._read_span(some)
            if data is None and len(some) > 1:
                spans.extendleft([one] for one in reversed(some))
                continue
            wrong = some[0].offset if data is None else self._check(queue, data, some)
            right = some if wrong is None else [wanted for wanted in some if wanted.offset < wrong]
            if data is not None:
                _add_slices(buffers, data, some[0].physical, [wanted for wanted in right if wanted.matched])
            good += right
            if wrong is not None:
                return self._answer(queue, _Plan(good, wrong), buffers) if good else _Wrong(wrong)
        return self._answer(queue, plan, buffers)

    async def _read_span(self, some: list[_Wanted]) -> bytes | None:
        """The bytes of some records; None when one of their entries cannot be right."""
        first = some[0]
        if first.size < SMALLEST_RECORD:
            return None
        try:
            if first.size > SPAN_BYTES:
                head = await self._log.read_cold(first.physical, SMALLEST_RECORD)
                if size_and_magic(head)[0] != first.size:
                    return None
            return await self._log.read_cold(first.physical, some[-1].physical + some[-1].size - first.physical)
        except OffsetNotStored:
            return None

    def _check(self, queue: ConsumeQueue, data: bytes, some: list[_Wanted]) -> int | None:
        """The offset of the first entry that does not lead to a good record of its own; None when all do."""
        start = some[0].physical
        for wanted in some:
            at = wanted.physical - start
            try:
                head, _ = judge(data, at, wanted.physical, ours=self._ranges.covers(wanted.physical))
            except BadRecord:
                return wanted.offset
            place = (head.size, head.queue_id, head.queue_offset, head.topic)
            if place != (wanted.size, queue.queue_id, wanted.offset, queue.topic):
                return wanted.offset
            if entry_of(data, head, self._delays) != ENTRY.pack(wanted.physical, wanted.size, wanted.code):
                return wanted.offset
        return None


def _plan(pull: Pull, entries: bytes, opened_at: int) -> _Plan | None:
    """What to read, if all of it is hot."""
    wanted: list[_Wanted] = []
    offset, total, tags = pull.offset, 0, pull.tags
    for physical, size, code in ENTRY.iter_unpack(entries):
        if physical < opened_at or size <= 0 or is_filler(size):
            return _Plan(wanted, offset) if wanted else None
        if tags is not None and not matches(code, tags):
            offset += 1
            continue
        if wanted and (total + size > pull.max_bytes or len(wanted) >= pull.max_messages):
            break
        wanted.append(_Wanted(offset, physical, size, code, True))
        total += size
        offset += 1
    return _Plan(wanted, offset)


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
        wanted.append(_Wanted(offset, physical, size, code, match))
        offset += 1
    return _Plan(wanted, offset)


def _spans(wanted: list[_Wanted], segment_bytes: int) -> list[list[_Wanted]]:
    """Wanted records in groups that one read covers: in one file, in order, and not too far apart."""
    spans: list[list[_Wanted]] = []
    start = end = useful = 0
    for one in wanted:
        after = one.physical + one.size
        near = (
            spans
            and end <= one.physical
            and one.size >= SMALLEST_RECORD
            and after - start <= min(SPAN_BYTES, SPAN_SLACK * (useful + one.size))
            and start // segment_bytes == (after - 1) // segment_bytes
        )
        if near:
            spans[-1].append(one)
            useful += one.size
        else:
            spans.append([one])
            start, useful = one.physical, one.size
        end = after
    return spans


def _are_stated(data: bytes, start: int, queue_id: int, some: list[_Wanted]) -> bool:
    """Whether every record states the size, queue and place that its entry says."""
    unpack = _STATED.unpack_from
    return all(
        unpack(data, wanted.physical - start) == (wanted.size, queue_id, wanted.offset, wanted.physical)
        for wanted in some
    )


def _add_slices(buffers: list[memoryview], data: bytes, start: int, some: list[_Wanted]) -> None:
    """Add the records' bytes, those that touch as one."""
    view = memoryview(data)
    at = end = -1
    for wanted in some:
        if wanted.physical != end:
            if end >= 0:
                buffers.append(view[at - start : end - start])
            at = wanted.physical
        end = wanted.physical + wanted.size
    if end >= 0:
        buffers.append(view[at - start : end - start])
