"""Delivers delayed messages when they are due. Java: ``ScheduleMessageService``.

A delayed message lies in ``SCHEDULE_TOPIC_XXXX``, in the queue of its level, until its store time plus the delay of the
level. The messages of a level are due in queue order, so every level has one task, which waits for the first message
and appends all due messages to their real topics, as new records with the same contents.

Never early: a message is due by the wall clock. If the clock was set back, all messages of a level that are there at
the first look wait the delay of the level once more, counted in elapsed time, and no longer. Never lost: the offset
behind a delivery is written only when the delivery is durable (`StateFile.settled`), so deliveries that a crash loses
are repeated.
"""

import asyncio
import logging
from collections.abc import Iterator
from itertools import takewhile
from typing import Final

from msgspec import Struct

from firearrow.broker.delivery.delay_offsets import PATH, DelayOffsets
from firearrow.broker.settings.live import LiveSettings
from firearrow.broker.state.state_file import StateFile
from firearrow.broker.statistics.counters import BrokerStats
from firearrow.errors import DiskError, IllegalMessage, OffsetNotStored
from firearrow.model import keys
from firearrow.model.delays import delay_of_level
from firearrow.model.names import SCHEDULE_TOPIC
from firearrow.model.numbers import INT_MAX, whole_number
from firearrow.record.decode import RecordHead, heads
from firearrow.record.encode import Draft
from firearrow.record.layout import Buffer
from firearrow.record.properties import StoredProperties, decode_properties, without_stamps
from firearrow.runtime.clock import Clock
from firearrow.runtime.disk.door import Disk
from firearrow.store.placement import FLUSHED, WRITTEN, Rows
from firearrow.store.read.queue_reader import ReadRequest, ReadResult, ReadStatus
from firearrow.store.store import Store
from firearrow.telemetry.damped import DampedEvents

SAVE_INTERVAL_MS: Final = 10_000
BATCH: Final = 64
BATCH_BYTES: Final = 1 << 20
LONGEST_SLEEP_MS: Final = 1_000
"""The longest sleep before the wall clock is read again: it may be set forward meanwhile."""
RETRY_S: Final = 1.0

log = logging.getLogger(__name__)


class DueDelivery(Struct, frozen=True, gc=False):
    """A delayed message: when it is due, and the draft to deliver; None for a message that cannot be delivered."""

    offset: int
    due_ms: int
    draft: Draft | None


class DelayedDelivery:
    """Delivers the messages of every delay level of one broker."""

    def __init__(self, *, disk: Disk, store: Store, stats: BrokerStats, clock: Clock, settings: LiveSettings) -> None:
        self.offsets = DelayOffsets()
        self.file = StateFile(disk, PATH, self.offsets, interval_ms=SAVE_INTERVAL_MS, settled=self._deliveries_durable)
        self._store = store
        self._stats = stats
        self._clock = clock
        self._levels = settings.broker.delays_ms
        self._arrivals = [asyncio.Event() for _ in self._levels]
        self.queues: Final = frozenset((SCHEDULE_TOPIC, level) for level in range(len(self._levels)))
        """The queues whose messages are delivered here."""
        self._failures = DampedEvents()
        self._seen = [(0, 0.0)] * len(self._levels)
        """By level: the end of its queue at a moment of the event loop, and that moment."""

    async def load(self) -> None:
        """Load the offsets. Offsets that had to be lowered are saved before new messages get these offsets."""
        await self.file.load()
        if self.offsets.cut(self._store.max_offset):
            await self.file.save_before_serving("delay levels above the end of their queue")

    async def _deliveries_durable(self) -> None:
        await self._store.reached(self._store.log.tail, FLUSHED)

    def end_of(self, level: int) -> int:
        """Return the offset after the last message of a level."""
        return self._store.max_offset(SCHEDULE_TOPIC, level - 1)

    @property
    def count(self) -> int:
        """The number of delay levels."""
        return len(self._levels)

    def arrived(self, rows: Rows) -> None:
        """Wake the levels whose queues have new messages."""
        for row in rows:
            if row[0].topic == SCHEDULE_TOPIC and row[0].queue_id < len(self._arrivals):
                self._arrivals[row[0].queue_id].set()

    async def run(self) -> None:
        """Deliver until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self.file.run())
            for level in range(1, len(self._levels) + 1):
                group.create_task(self._serve(level))

    async def _serve(self, level: int) -> None:
        arrival = self._arrivals[level - 1]
        while True:
            arrival.clear()
            try:
                pulled = await self._store.read(
                    SCHEDULE_TOPIC, level - 1, ReadRequest(self.offsets[level], BATCH, BATCH_BYTES)
                )
                if pulled.status is ReadStatus.FOUND:
                    await self._deliver(level, pulled)
                elif not self._skip(level, pulled):
                    await arrival.wait()
            except (DiskError, OffsetNotStored) as error:
                values = {"delay_level": level, "reason": str(error)}
                self._failures.warn(log, asyncio.get_running_loop().time(), "delayed messages wait", values)
                await asyncio.sleep(RETRY_S)

    def _skip(self, level: int, pulled: ReadResult) -> bool:
        """Advance past messages that are deleted; return False at the end of the queue."""
        at_end = (ReadStatus.OFFSET_OVERFLOW_ONE, ReadStatus.NO_MESSAGE_IN_QUEUE, ReadStatus.NO_MATCHED_LOGIC_QUEUE)
        if pulled.status in at_end or pulled.next_offset == self.offsets[level]:
            return False
        first, why = self.offsets[level], pulled.status.value
        extra = {"delay_level": level, "from": first, "to": pulled.next_offset, "why": why}
        log.warning("delayed messages are not there any more", extra=extra)
        self._advance(level, pulled.next_offset)
        return True

    async def _deliver(self, level: int, pulled: ReadResult) -> None:
        """Deliver the messages of a read, each when it is due."""
        waiting = list(_delayed(pulled, self._levels))
        while waiting:
            seen_end = await self._until(waiting[0], level)
            due = due_first(waiting, self._clock.now_ms(), seen_end)
            await self._put(level, due)
            waiting = waiting[len(due) :]
        self._advance(level, pulled.next_offset)

    async def _until(self, first: DueDelivery, level: int) -> int:
        """Wait until a message is due; return the offset below which messages have waited for the whole delay, or 0."""
        loop = asyncio.get_running_loop()
        if first.offset >= self._seen[level - 1][0]:
            self._seen[level - 1] = self.end_of(level), loop.time()
        end, seen_s = self._seen[level - 1]
        longest = seen_s + delay_of_level(self._levels, level) / 1000
        while (left_ms := first.due_ms - self._clock.now_ms()) > 0:
            left_s = min(left_ms, LONGEST_SLEEP_MS) / 1000
            if loop.time() >= longest:
                return end
            await asyncio.sleep(min(left_s, max(longest - loop.time(), 0.001)))
        return 0

    async def _put(self, level: int, due: list[DueDelivery]) -> None:
        """Append messages to their topics and count them as delivered once they are written."""
        end = 0
        for one in due:
            try:
                end = end if one.draft is None else self._append(one.draft)
            except IllegalMessage as error:
                log.exception("a delayed message cannot be delivered", extra={"reason": str(error)})
        if end:
            await self._store.reached(end, WRITTEN)
        self._advance(level, due[-1].offset + 1)

    def _append(self, draft: Draft) -> int:
        """Append a message to its topic, which counts it now; return the end of its record."""
        place = self._store.append(draft)
        self._stats.stored(draft.topic, 1, place.end - place.physical_offset)
        return place.end

    def _advance(self, level: int, offset: int) -> None:
        if offset != self.offsets[level]:
            self.offsets.advance(level, offset)
            self.file.changed()

    async def close(self) -> None:
        """Save the offsets; call it after `run` has ended and while the log can still be flushed."""
        await self.file.close()


def due_first(waiting: list[DueDelivery], now_ms: int, seen_end: int = 0) -> list[DueDelivery]:
    """Return the first message, which is due, and the messages directly behind it up to the first that is not due.

    Messages below the offset ``seen_end`` are due whatever the clock says.

    The offset of a level counts every message below it as delivered. So where store times go back, as in a log of
    Apache's whose clock was set back, a due message waits for a message before it that is not due yet.
    """
    return [waiting[0], *takewhile(lambda one: one.due_ms <= now_ms or one.offset < seen_end, waiting[1:])]


def _delayed(pulled: ReadResult, levels: tuple[int, ...]) -> Iterator[DueDelivery]:
    for buffer in pulled.buffers:
        for head in heads(buffer):
            properties = decode_properties(head.properties(buffer))
            wait_ms = delay_of_level(levels, whole_number(properties.get(keys.DELAY)) or 0)
            draft = delivery(head, buffer, properties)
            yield DueDelivery(head.queue_offset, head.store_timestamp + wait_ms, draft)


def delivery(head: RecordHead, record: Buffer, properties: dict[str, str]) -> Draft | None:
    """Return the draft for the real topic of a delayed record, with the same contents; None without a real topic."""
    topic, queue_id = properties.get(keys.REAL_TOPIC), whole_number(properties.get(keys.REAL_QID), INT_MAX)
    if not topic or queue_id is None:
        return None
    return Draft.of(head, record, topic, queue_id, StoredProperties(without_stamps(head.properties(record))))
