"""Puts the messages of the timers' queue into the wheel. Java: ``TimerMessageStore.enqueue`` and its threads.

A message whose slot is over already is delivered at once. The queue is read again from the checkpoint after a crash;
messages whose units are in the timer log are passed over then.
"""

import asyncio
import logging
from typing import Final

from firearrow.broker.tables.tables import Tables
from firearrow.broker.timer.counts import TimerCounts
from firearrow.broker.timer.dequeue import Dequeue
from firearrow.broker.timer.records import NEVER_ADDED_MS, TimedRecord, delivered, exact_ms, timed_record
from firearrow.errors import DiskError, IllegalMessage, OffsetNotStored
from firearrow.model import keys
from firearrow.model.java_hash import tag_code
from firearrow.model.names import TIMER_TOPIC
from firearrow.record.decode import heads
from firearrow.store.placement import WRITTEN, Rows, UniformRows
from firearrow.store.read.queue_reader import ReadRequest, ReadResult, ReadStatus
from firearrow.store.timer.files import Timed, TimerFiles

PORTION: Final = 256
PORTION_BYTES: Final = 1 << 20
RETRY_S: Final = 1.0
ROOM_S: Final = 0.01
_TIME_DIGITS: Final = 15

_AT_END: Final = (
    ReadStatus.OFFSET_OVERFLOW_ONE,
    ReadStatus.NO_MESSAGE_IN_QUEUE,
    ReadStatus.NO_MATCHED_LOGIC_QUEUE,
)

log = logging.getLogger(__name__)


class Enqueue:
    """Moves messages from the timers' queue to the wheel."""

    def __init__(self, tables: Tables, files: TimerFiles, counts: TimerCounts, dequeue: Dequeue) -> None:
        self._store = tables.store
        self._clock = tables.clock
        self._settings = tables.settings
        self._files = files
        self._counts = counts
        self._dequeue = dequeue
        self._arrival = asyncio.Event()

    def arrived(self, rows: Rows) -> None:
        """Wake up when the timers' queue has new messages."""
        if type(rows) is UniformRows:
            if rows.tail.topic == TIMER_TOPIC:
                self._arrival.set()
        elif any(row[0].topic == TIMER_TOPIC for row in rows):
            self._arrival.set()

    async def run(self) -> None:
        """Move messages until cancelled."""
        while True:
            self._arrival.clear()
            try:
                if self._settings.value.timers.timer_stop_enqueue:
                    await asyncio.sleep(RETRY_S)
                elif not await self._take_portion():
                    await self._arrival.wait()
            except (DiskError, OffsetNotStored) as error:
                log.warning("timed messages are not put into the wheel", extra={"reason": str(error)})
                await asyncio.sleep(RETRY_S)

    async def _take_portion(self) -> bool:
        """Move some messages; return False at the end of the queue."""
        files = self._files
        pulled = await self._store.read(TIMER_TOPIC, 0, ReadRequest(files.queue_offset, PORTION, PORTION_BYTES))
        if pulled.status is ReadStatus.FOUND:
            await self._add(pulled)
            return True
        if pulled.status in _AT_END or pulled.next_offset == files.queue_offset:
            return False
        extra = {"from": files.queue_offset, "to": pulled.next_offset, "why": pulled.status.value}
        log.warning("timed messages are not there any more", extra=extra)
        files.queue_offset = pulled.next_offset
        return True

    async def _add(self, pulled: ReadResult) -> None:
        files, end = self._files, 0
        waiting: list[Timed] = []
        now_ms = self._clock.now_ms()
        for buffer in pulled.buffers:
            for head in heads(buffer):
                if head.physical_offset in files.in_log:
                    continue
                record = timed_record(head, buffer)
                timed = _timed(record, files)
                if timed is None:
                    log.warning("a message of the timers' queue has no time", extra={"offset": head.queue_offset})
                    continue
                while not files.has_room(timed.due_ms, now_ms, self._dequeue.closed_ms):
                    # Messages that were looked at are put away first: their slots may be delivered meanwhile.
                    self._put(waiting, now_ms)
                    waiting = []
                    await asyncio.sleep(ROOM_S)
                    now_ms = self._clock.now_ms()
                if timed.due_ms < files.floor(now_ms):
                    end = self._deliver_now(record, now_ms) or end
                else:
                    waiting.append(timed)
                    self._counts.change(record.value(keys.REAL_TOPIC) or "", -1 if timed.deletes else 1, now_ms)
        self._put(waiting, now_ms)
        if end:
            await self._store.reached(end, WRITTEN)
        files.queue_offset = pulled.next_offset

    def _put(self, waiting: list[Timed], now_ms: int) -> None:
        if not waiting:
            return
        files = self._files
        files.add(waiting, now_ms)
        self._counts.added += len(waiting)
        self._dequeue.added.set()

    def _deliver_now(self, record: TimedRecord, now_ms: int) -> int:
        """Deliver a message whose slot is over; return the end of its new record, 0 when there is none."""
        if record.is_deletion:
            return 0
        draft = delivered(record, NEVER_ADDED_MS, now_ms)
        if draft is None:
            return 0
        self._counts.delivered += 1
        try:
            return self._store.append(draft).end
        except IllegalMessage as error:
            log.exception("a timed message cannot be delivered", extra={"reason": str(error)})
            return 0


def _timed(record: TimedRecord, files: TimerFiles) -> Timed | None:
    """Return what is to be put into the wheel for a record; None when the record does not say when and for whom."""
    out, topic = record.value(keys.TIMER_OUT_MS) or "", record.value(keys.REAL_TOPIC)
    if not (out.isascii() and out.isdigit() and len(out) <= _TIME_DIGITS) or topic is None:
        return None
    return Timed(
        files.floor(int(out)),
        record.head.physical_offset,
        record.head.size,
        tag_code(topic),
        record.is_deletion,
        exact_ms(record, int(out), files.precision_ms) if files.config.timer_exact_delivery else 0,
    )
