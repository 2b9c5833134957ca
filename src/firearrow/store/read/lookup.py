"""Lookup: finds messages by physical offset, id, key and time.

An offset or an id comes from a client and is not trusted: there must be a good record. A message that the index names
is checked against its record, so an answer holds no message with another key or time. Times are found to the
millisecond by reading the records. Java: ``DefaultMessageStore.queryMessage``, ``lookMessageByOffset``,
``ConsumeQueue.getOffsetInQueueByTime``.
"""

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from enum import Enum
from sys import maxsize
from typing import Final, NamedTuple

from firearrow.errors import BadRecord, DiskError, OffsetNotStored
from firearrow.record.decode import RecordHead, size_and_magic
from firearrow.record.layout import SMALLEST_RECORD
from firearrow.record.message_id import parse_offset_message_id
from firearrow.runtime.turn import Pace, breathe
from firearrow.store.index.files import DamagedIndex
from firearrow.store.index.key_hash import key_hash
from firearrow.store.index.key_index import WORK_AT_ONCE, Candidate, GiveWay, Index, Walk
from firearrow.store.log.commit_log import CommitLog
from firearrow.store.log.probe import probe
from firearrow.store.property_fields import has_key, keys_of
from firearrow.store.queue.consume_queue import ConsumeQueue
from firearrow.store.queue.table import Queues
from firearrow.store.read.log_bytes import LogBytes
from firearrow.store.recovery.open_log import OpenedLog
from firearrow.store.recovery.rescan import PIECE_BESIDE_OTHERS, apart, rows_again
from firearrow.store.recovery.verify import judge
from firearrow.store.views.queue_load import names_its_record

MAX_FOUND: Final = 64
"""The most messages that one lookup by key returns (Apache's ``maxMsgsNumBatch``)."""
RECORD_WORK: Final = 16
"""The cost of reading and checking a record, in entries of the index."""
BYTES_OF_WORK: Final = 32 << 10
"""Bytes of a record that cost as much as an entry of the index."""
FOUND_BYTES_MAX: Final = 15 << 20
"""The most bytes that one lookup by key returns, if more than one message is found: clients take frames of 16 MiB."""
KEYS_AT_ONCE: Final = 256
"""Keys of a record that are hashed in a turn of the loop."""
_REBUILDS: Final = 8

IsWanted = Callable[[bytes, RecordHead], bool]
"""Whether a record with the right key is one that the asker looks for."""

logger = logging.getLogger(__name__)


class Boundary(Enum):
    """The choice between the messages around a time."""

    LOWER = "lower"
    """The first message that was stored at that time or later."""
    UPPER = "upper"
    """The last message that was stored at that time or earlier."""


class LookupResult(NamedTuple):
    """Messages with a key, newest first, and the end of the index."""

    records: list[bytes]
    index_ms: int
    index_physical: int


class Lookups:
    """Looks up single messages."""

    def __init__(self, log: CommitLog, queues: Queues, index: Index | None, opened: OpenedLog) -> None:
        self._log = log
        self._bytes = LogBytes(log, opened.segments)
        self._queues = queues
        self._index = index
        self._opened = opened
        self._repair = asyncio.Lock()
        self._repairs = 0

    # ---- by physical offset

    async def by_physical(self, physical: int) -> bytes:
        """The record at a physical offset."""
        record, _ = await self._record(physical)
        return record

    async def by_message_id(self, message_id: str) -> bytes:
        """The record with a message id."""
        _, physical = parse_offset_message_id(message_id)
        return await self.by_physical(physical)

    async def _record(self, physical: int) -> tuple[bytes, RecordHead]:
        segment = self._opened.segments.at(physical) if 0 <= physical < self._log.tail else None
        if segment is None:
            raise OffsetNotStored(f"the log holds {self._log.min_offset} to {self._log.tail}, and not {physical}")
        try:
            head = await self._bytes.read_cold(physical, SMALLEST_RECORD)
            size, _ = size_and_magic(head)
            if size < SMALLEST_RECORD or physical + size > segment.end:
                raise BadRecord(f"its size {size} is not possible", offset=physical)
            record = await self._bytes.read_cold(physical, size)
            judged, _ = judge(record, 0, physical, ours=self._opened.ranges.ranges.covers(physical))
        except BadRecord as bad:
            raise OffsetNotStored(f"no message begins at {physical}: {bad.reason}") from bad
        return record, judged

    # ---- by key

    async def by_key(
        self,
        topic: str,
        key: str,
        max_messages: int,
        begin_ms: int,
        end_ms: int,
        is_wanted: IsWanted = lambda _record, _head: True,
        give_way: GiveWay = breathe,
    ) -> LookupResult:
        """Messages of a topic with a key that were stored between two times, both included.

        Those that are not wanted do not count: the search goes on behind them, until its work is done (`MOST_WORK`).
        Lookups run side by side, each a piece at a time (``give_way``). While a damaged file is made again its keys are
        not found, so a lookup that met that begins again when the file is complete.
        """
        index = self._index
        if index is None:
            return LookupResult([], 0, 0)
        most, times = min(max_messages, MAX_FOUND), (begin_ms, end_ms)
        for _ in range(_REBUILDS):
            async with self._repair:
                begun = self._repairs
            try:
                places = await self._with_key(index, topic, key, most, times, is_wanted, give_way)
            except DamagedIndex as damaged:
                await self._make_again(index, damaged, begun)
            except DiskError:
                if begun == self._repairs:
                    raise
            else:
                if begun == self._repairs:
                    return LookupResult(await self._records(places), *index.files.last_update)
        raise OffsetNotStored(f"the index stays unreadable after {_REBUILDS} repairs; look at the disk")

    async def _with_key(
        self,
        index: Index,
        topic: str,
        key: str,
        most: int,
        times: tuple[int, int],
        is_wanted: IsWanted,
        give_way: GiveWay,
    ) -> list[int]:
        """Return the physical offsets of messages with a key: their records are not kept while the lookup waits."""
        found: set[int] = set()
        places: list[int] = []
        size = 0
        wanted = key.encode("utf-8", "replace")
        walk = Walk(give_way)
        async for candidate in index.candidates(topic, key, *times, walk):
            physical = candidate.entry.physical
            if physical in found or physical < self._log.min_offset:
                continue
            try:
                record, head = await self._named_by(candidate, topic, wanted)
            except OffsetNotStored:
                await walk.did(RECORD_WORK)
                continue
            right_key = head.topic == topic and has_key(head.properties(record), wanted)
            if right_key and times[0] <= head.store_timestamp <= times[1] and is_wanted(record, head):
                size += len(record)
                if places and size > FOUND_BYTES_MAX:
                    break
                found.add(physical)
                places.append(physical)
                if len(places) >= most:
                    break
            await walk.did(RECORD_WORK + len(record) // BYTES_OF_WORK)
        if walk.is_over:
            logger.warning(
                "a question by key was ended early: too many messages have the key %s of topic %s; "
                "ask for a shorter time",
                key,
                topic,
                extra={"topic": topic, "key": key, "found": len(places)},
            )
        return places

    async def _records(self, places: list[int]) -> list[bytes]:
        """Return the records at physical offsets, without those that were deleted meanwhile."""
        records = []
        for physical in places:
            with suppress(OffsetNotStored):
                records.append(await self.by_physical(physical))
        return records

    async def _named_by(self, candidate: Candidate, topic: str, wanted: bytes) -> tuple[bytes, RecordHead]:
        """The record that an index entry names; raise `DamagedIndex` if there is none, or its hash differs."""
        entry = candidate.entry
        try:
            record, head = await self._record(entry.physical)
        except OffsetNotStored as missing:
            if candidate.checked:
                await self._report(entry.physical, str(missing))
                raise
            raise DamagedIndex(candidate.file_name, f"entry {candidate.number}: {missing}") from missing
        properties = head.properties(record)
        is_right = head.topic == topic and has_key(properties, wanted)
        if not is_right and not await _has_hash(head.topic, keys_of(properties), entry.key_hash):
            raise DamagedIndex(candidate.file_name, f"entry {candidate.number} names a message without that key")
        return record, head

    async def _report(self, physical: int, reason: str) -> None:
        """Report a bad record that the index names rightly, so that readers skip it."""
        if self._opened.damage.covers(physical) is None:
            following = await self._opened.scanner.next_good(physical, self._log.written)
            self._opened.damage.report(physical, following or self._log.written, reason)

    async def _make_again(self, index: Index, damaged: DamagedIndex, begun: int) -> None:
        """Make a damaged index file again, unless another lookup has done so since ``begun`` repairs."""
        async with self._repair:
            if begun == self._repairs:
                self._repairs += 1
                logger.warning("an index file is made again from the log", extra={"reason": str(damaged)})
                await self._rebuild(index, damaged.name)

    async def _rebuild(self, index: Index, name: str) -> None:
        """Make an index file again from the part of the log that it covers."""
        lost = await index.retire(name)
        ending = await probe(self._opened.segments, lost.last)
        end = lost.last + ending.size if ending is not None else self._log.written
        start = max(lost.first, self._log.min_offset)
        rows = rows_again(self._opened, start, end, apart(), PIECE_BESIDE_OTHERS)
        await index.files.make_again(name, rows, lost.passed if start == lost.first else 0)

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
        """Return the store time of the message at an offset; -1 when there is none."""
        if not self._queues.min_offset(queue, self._log.min_offset) <= offset < queue.max_offset:
            return -1
        number, stored_ms = await self._next_time(queue, offset, offset + 1)
        return stored_ms if number == offset else -1

    async def earliest_ms(self, queue: ConsumeQueue) -> int:
        """Return the store time of the oldest message of a queue; -1 for an empty queue."""
        least = self._queues.min_offset(queue, self._log.min_offset)
        number, stored_ms = await self._next_time(queue, least, queue.max_offset)
        return stored_ms if number < queue.max_offset else -1


async def _has_hash(topic: str, keys: list[bytes], wanted: int) -> bool:
    """Return whether a key has this hash. Yields to the loop: a message may have thousands of keys."""
    pace = Pace(KEYS_AT_ONCE)
    for key in keys:
        if key_hash(topic, key.decode("utf-8", "replace")) == wanted:
            return True
        await pace.did(1)
    return False
