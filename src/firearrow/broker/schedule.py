"""Delivers delayed messages when they are due. Java: ``ScheduleMessageService``.

A delayed message lies in ``SCHEDULE_TOPIC_XXXX``, in the queue of its level, until the time of its storing plus the
level's wait. Within a level messages are due in the order in which they lie, so one task a level waits for the first of
them and puts everything that is due into its real topic, as a new record with the old contents.

Never early: the wall clock must have come as far. Where it was set back, a message waits its level's time once more,
counted from when it was first looked at, and no longer. Never lost: the place behind a delivery is written down only
when the delivery is durable (`StateFile.settled`), so a crash delivers again what it may have lost.
"""

import asyncio
import logging
from collections.abc import Iterator
from itertools import takewhile
from typing import Final

from msgspec import Struct

from firearrow.broker.delayoffsets import PATH, DelayOffsets
from firearrow.broker.statefile import StateFile
from firearrow.errors import DiskError, IllegalMessage, OffsetNotStored
from firearrow.model import keys
from firearrow.model.delays import delay_of_level
from firearrow.model.names import SCHEDULE_TOPIC
from firearrow.record.decode import RecordHead, heads
from firearrow.record.encode import Draft
from firearrow.record.layout import Buffer
from firearrow.record.properties import StoredProperties, decode_properties, without_stamps
from firearrow.runtime.clock import Clock
from firearrow.runtime.disk import Disk
from firearrow.store.placement import FLUSHED, WRITTEN, PlacedRun, Rows
from firearrow.store.pulling import Pull, Pulled, ReadStatus
from firearrow.store.store import Store

SAVE_INTERVAL_MS: Final = 10_000
BATCH: Final = 64
BATCH_BYTES: Final = 1 << 20
LONGEST_SLEEP_MS: Final = 1_000
"""The clock is looked at this often at least: it may be set forward while we sleep."""
RETRY_S: Final = 1.0

log = logging.getLogger(__name__)


class Due(Struct, frozen=True, gc=False):
    """A delayed message: when it is due and what is delivered then; no draft for one that cannot be delivered."""

    offset: int
    due_ms: int
    draft: Draft | None


class DelayedDelivery:
    """The levels of one broker."""

    def __init__(self, store: Store, disk: Disk, clock: Clock, levels: tuple[int, ...]) -> None:
        self.offsets = DelayOffsets()
        self.file = StateFile(disk, PATH, self.offsets, interval_ms=SAVE_INTERVAL_MS, settled=self._deliveries_durable)
        self._store = store
        self._clock = clock
        self._levels = levels
        self._arrivals = [asyncio.Event() for _ in levels]

    async def load(self) -> None:
        """Take over what the file holds. What had to be cut is written first: those numbers are given anew."""
        await self.file.load()
        if self.offsets.cut(self._end_of):
            await self.file.save_before_serving("delay levels above the end of their queue")

    def _end_of(self, topic: str, queue_id: int) -> int:
        queue = self._store.queues.find(topic, queue_id)
        return 0 if queue is None else queue.max_offset

    async def _deliveries_durable(self) -> None:
        await self._store.reached(self._store.log.tail, FLUSHED)

    def end_of(self, level: int) -> int:
        """One past the last message of a level."""
        return self._end_of(SCHEDULE_TOPIC, level - 1)

    @property
    def count(self) -> int:
        """How many levels there are."""
        return len(self._levels)

    def arrived(self, rows: Rows) -> None:
        """Messages can be seen now: a level that has nothing may have something."""
        if type(rows) is PlacedRun and rows.tail.topic != SCHEDULE_TOPIC:
            return
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
                    SCHEDULE_TOPIC, level - 1, Pull(self.offsets[level], BATCH, BATCH_BYTES)
                )
                if pulled.status is ReadStatus.FOUND:
                    await self._deliver(level, pulled)
                elif not self._skip(level, pulled):
                    await arrival.wait()
            except (DiskError, OffsetNotStored) as error:
                log.warning("delayed messages wait", extra={"level": level, "reason": str(error)})
                await asyncio.sleep(RETRY_S)

    def _skip(self, level: int, pulled: Pulled) -> bool:
        """Go on behind what is not there any more; whether there was anything to skip."""
        at_end = (ReadStatus.OFFSET_OVERFLOW_ONE, ReadStatus.NO_MESSAGE_IN_QUEUE, ReadStatus.NO_MATCHED_LOGIC_QUEUE)
        if pulled.status in at_end or pulled.next_offset == self.offsets[level]:
            return False
        extra = {"level": level, "from": self.offsets[level], "to": pulled.next_offset, "why": pulled.status.value}
        log.warning("delayed messages are not there any more", extra=extra)
        self._advance(level, pulled.next_offset)
        return True

    async def _deliver(self, level: int, pulled: Pulled) -> None:
        """Deliver what was read, each message when it is due."""
        waiting = list(_delayed(pulled, self._levels))
        while waiting:
            await self._until(waiting[0].due_ms, level)
            due = due_first(waiting, self._clock.now_ms())
            await self._put(level, due)
            waiting = waiting[len(due) :]
        self._advance(level, pulled.next_offset)

    async def _until(self, due_ms: int, level: int) -> None:
        loop = asyncio.get_running_loop()
        longest = loop.time() + delay_of_level(self._levels, level) / 1000
        while (left_ms := due_ms - self._clock.now_ms()) > 0:
            left_s = min(left_ms, LONGEST_SLEEP_MS) / 1000
            if loop.time() >= longest:
                return
            await asyncio.sleep(min(left_s, max(longest - loop.time(), 0.001)))

    async def _put(self, level: int, due: list[Due]) -> None:
        """Append messages to their topics and count them as delivered once they are written."""
        end = 0
        for one in due:
            try:
                end = end if one.draft is None else self._store.append(one.draft).end
            except IllegalMessage as error:
                log.exception("a delayed message cannot be delivered", extra={"reason": str(error)})
        if end:
            await self._store.reached(end, WRITTEN)
        self._advance(level, due[-1].offset + 1)

    def _advance(self, level: int, offset: int) -> None:
        if offset != self.offsets[level]:
            self.offsets.advance(level, offset)
            self.file.changed()

    async def close(self) -> None:
        """Write down how far it came; after `run` has ended and while the log still takes a flush."""
        await self.file.close()


def due_first(waiting: list[Due], now_ms: int) -> list[Due]:
    """The first, which was waited for, and those that are due and follow it without one between that is not.

    The place of a level counts everything before it. Where store times go back, as in a log of Apache's whose clock was
    set back, what is due may lie behind what is not: it waits for it.
    """
    return [waiting[0], *takewhile(lambda one: one.due_ms <= now_ms, waiting[1:])]


def _delayed(pulled: Pulled, levels: tuple[int, ...]) -> Iterator[Due]:
    for buffer in pulled.buffers:
        for head in heads(buffer):
            properties = decode_properties(head.properties(buffer))
            level = properties.get(keys.DELAY, "")
            wait_ms = delay_of_level(levels, int(level)) if level.isdigit() else 0
            draft = delivery(head, buffer, properties)
            yield Due(head.queue_offset, head.store_timestamp + wait_ms, draft)


def delivery(head: RecordHead, record: Buffer, properties: dict[str, str]) -> Draft | None:
    """What is delivered of a delayed record: the same contents in the real topic; None when it does not name one."""
    topic, queue_id = properties.get(keys.REAL_TOPIC), properties.get(keys.REAL_QID, "")
    if not topic or not queue_id.isdigit():
        return None
    return Draft(
        topic,
        int(queue_id),
        head.body(record),
        StoredProperties(without_stamps(head.properties(record))),
        head.born_timestamp,
        head.born_host,
        head.store_host,
        head.flag,
        head.sys_flag,
        head.reconsume_times,
    )
