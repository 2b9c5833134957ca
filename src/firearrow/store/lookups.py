"""Finds messages by place, id, key and time.

A place or an id comes from outside and is believed in nothing: whatever lies there must be a whole record. What the
index names is checked against the record before it is handed out, so an answer holds no message of another key or time.
Times are found to the millisecond by asking the records. Java: ``DefaultMessageStore.queryMessage``,
``lookMessageByOffset``, ``ConsumeQueue.getOffsetInQueueByTime``.
"""

import asyncio
import logging
from enum import Enum
from sys import maxsize
from typing import Final, NamedTuple

from firearrow.errors import BadRecord, OffsetNotStored
from firearrow.record.decode import RecordHead, size_and_magic
from firearrow.record.layout import SMALLEST_RECORD
from firearrow.record.message_id import parse_offset_message_id
from firearrow.store.commitlog import CommitLog
from firearrow.store.consumequeue import ConsumeQueue
from firearrow.store.index import WORK_AT_ONCE, Candidate, DamagedIndex, Index, Walk
from firearrow.store.keyhash import key_hash
from firearrow.store.opening import OpenedLog
from firearrow.store.pacing import Pace
from firearrow.store.probe import probe
from firearrow.store.propertyfields import keys_of
from firearrow.store.queueload import names_its_record
from firearrow.store.queues import Queues
from firearrow.store.rescan import PIECE_BESIDE_OTHERS, apart, rows_again
from firearrow.store.verify import judge

MAX_FOUND: Final = 64
"""Messages that one question by key gets at most (Apache's ``maxMsgsNumBatch``)."""
RECORD_WORK: Final = 16
"""What reading and judging a record costs, in entries of the index."""
_REBUILDS: Final = 8

logger = logging.getLogger(__name__)


class Boundary(Enum):
    """Which of the messages around a time is meant."""

    LOWER = "lower"
    """The first that was stored then or later."""
    UPPER = "upper"
    """The last that was stored then or earlier."""


class Found(NamedTuple):
    """Messages with a key, newest first, and how far the index is."""

    records: list[bytes]
    index_ms: int
    index_physical: int


class Lookups:
    """Answers questions about single messages."""

    def __init__(self, log: CommitLog, queues: Queues, index: Index | None, opened: OpenedLog) -> None:
        self._log = log
        self._queues = queues
        self._index = index
        self._opened = opened
        self._one_at_a_time = asyncio.Lock()

    # ---- by place

    async def by_physical(self, physical: int) -> bytes:
        """The record that starts at a place in the log."""
        record, _ = await self._record(physical)
        return record

    async def by_message_id(self, message_id: str) -> bytes:
        """The record that a broker's message id names."""
        _, physical = parse_offset_message_id(message_id)
        return await self.by_physical(physical)

    async def _record(self, physical: int) -> tuple[bytes, RecordHead]:
        segment = self._opened.segments.at(physical) if 0 <= physical < self._log.tail else None
        if segment is None:
            raise OffsetNotStored(f"the log holds {self._log.min_offset} to {self._log.tail}, and not {physical}")
        try:
            head = await self._log.read_cold(physical, SMALLEST_RECORD)
            size, _ = size_and_magic(head)
            if size < SMALLEST_RECORD or physical + size > segment.end:
                raise BadRecord(f"its size {size} is not possible", offset=physical)
            record = await self._log.read_cold(physical, size)
            judged, _ = judge(record, 0, physical, ours=self._opened.ranges.ranges.covers(physical))
        except BadRecord as bad:
            raise OffsetNotStored(f"no message begins at {physical}: {bad.reason}") from bad
        return record, judged

    # ---- by key

    async def by_key(self, topic: str, key: str, max_messages: int, begin_ms: int, end_ms: int) -> Found:
        """Messages of a topic with a key that were stored between two times, both included."""
        index = self._index
        if index is None:
            return Found([], 0, 0)
        async with self._one_at_a_time:
            for _ in range(_REBUILDS):
                try:
                    records = await self._with_key(index, topic, key, min(max_messages, MAX_FOUND), (begin_ms, end_ms))
                except DamagedIndex as damaged:
                    logger.warning("an index file is made again from the log", extra={"reason": str(damaged)})
                    await self._rebuild(index, damaged.name)
                else:
                    return Found(records, *index.last_update)
        raise OffsetNotStored(f"the index stays unreadable after {_REBUILDS} repairs; look at the disk")

    async def _with_key(self, index: Index, topic: str, key: str, most: int, times: tuple[int, int]) -> list[bytes]:
        found: dict[int, bytes] = {}
        wanted = key.encode("utf-8", "replace")
        walk = Walk()
        async for candidate in index.candidates(topic, key, *times, walk):
            physical = candidate.entry.physical
            if physical in found or physical < self._log.min_offset:
                continue
            await walk.did(RECORD_WORK)
            try:
                record, head = await self._named_by(candidate)
            except OffsetNotStored:
                continue
            right_key = head.topic == topic and wanted in keys_of(head.properties(record))
            if right_key and times[0] <= head.store_timestamp <= times[1]:
                found[physical] = record
                if len(found) >= most:
                    break
        if walk.is_over:
            logger.warning(
                "a question by key was ended early: too many messages have the key %s of topic %s; "
                "ask for a shorter time",
                key,
                topic,
                extra={"topic": topic, "key": key, "found": len(found)},
            )
        return list(found.values())

    async def _named_by(self, candidate: Candidate) -> tuple[bytes, RecordHead]:
        """The record that an index entry names; an entry that names none, or none of its hash, is damage."""
        entry = candidate.entry
        try:
            record, head = await self._record(entry.physical)
        except OffsetNotStored as missing:
            if candidate.checked:
                await self._report(entry.physical, str(missing))
                raise
            raise DamagedIndex(candidate.file_name, f"entry {candidate.number}: {missing}") from missing
        hashes = {key_hash(head.topic, key.decode("utf-8", "replace")) for key in keys_of(head.properties(record))}
        if entry.key_hash not in hashes:
            raise DamagedIndex(candidate.file_name, f"entry {candidate.number} names a message without that key")
        return record, head

    async def _report(self, physical: int, reason: str) -> None:
        """A record that the index rightly names is bad: let readers pass over it."""
        if self._opened.damage.covers(physical) is None:
            following = await self._opened.scanner.next_good(physical, self._log.written)
            self._opened.damage.report(physical, following or self._log.written, reason)

    async def _rebuild(self, index: Index, name: str) -> None:
        """Make one index file again from the part of the log that it covers."""
        lost = await index.retire(name)
        ending = await probe(self._opened.segments, lost.last)
        end = lost.last + ending.size if ending is not None else self._log.written
        start = max(lost.first, self._log.min_offset)
        rows = rows_again(self._opened, start, end, apart(), PIECE_BESIDE_OTHERS)
        await index.make_again(name, rows, lost.passed if start == lost.first else 0)

    # ---- by time

    async def offset_by_time(self, queue: ConsumeQueue, time_ms: int, boundary: Boundary = Boundary.LOWER) -> int:
        """The message of a queue at a time."""
        least = self._queues.min_offset(queue, self._log.min_offset)
        if boundary is Boundary.LOWER:
            return (await self._first_from(queue, least, time_ms))[0]
        _, last = await self._first_from(queue, least, time_ms + 1)
        return last if last >= 0 else least

    async def _first_from(self, queue: ConsumeQueue, least: int, time_ms: int) -> tuple[int, int]:
        """The first message stored at a time or later, and the last one before it (-1: there is none)."""
        low, high = least, queue.max_offset
        last = -1
        while low < high:
            middle = (low + high) // 2
            offset, stored_ms = await self._next_time(queue, middle, high)
            if stored_ms >= time_ms:
                high = middle
            else:
                low, last = offset + 1, offset
        offset, _ = await self._next_time(queue, low, queue.max_offset)
        return offset, last

    async def _next_time(self, queue: ConsumeQueue, offset: int, end: int) -> tuple[int, int]:
        """The first readable message from ``offset`` on, and when it was stored; ``end`` when there is none."""
        pace = Pace(WORK_AT_ONCE)
        for number in range(offset, end):
            await pace.did()
            physical, size, _ = self._queues.entry(queue, number)
            if physical >= self._log.min_offset and await self._is_named(queue, number, physical, size):
                found = await probe(self._opened.segments, physical)
                if found is not None:
                    return number, found.store_ms
        return end, maxsize

    async def _is_named(self, queue: ConsumeQueue, offset: int, physical: int, size: int) -> bool:
        self._log.write_pending()
        return await names_its_record(self._opened.segments, queue, offset, physical, size)

    async def store_ms(self, queue: ConsumeQueue, offset: int) -> int:
        """When the message at an offset was stored; -1 when there is none."""
        if not self._queues.min_offset(queue, self._log.min_offset) <= offset < queue.max_offset:
            return -1
        number, stored_ms = await self._next_time(queue, offset, offset + 1)
        return stored_ms if number == offset else -1

    async def earliest_ms(self, queue: ConsumeQueue) -> int:
        """When the oldest message of a queue was stored; -1 when it has none."""
        least = self._queues.min_offset(queue, self._log.min_offset)
        number, stored_ms = await self._next_time(queue, least, queue.max_offset)
        return stored_ms if number < queue.max_offset else -1
