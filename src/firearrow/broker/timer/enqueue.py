"""Puts the messages of the timers' queue into the wheel. Java: ``TimerMessageStore.enqueue`` and its threads.

A message whose slot is over already goes to that slot too, so that a recall in the queue behind it still finds it. The
queue is read again from the checkpoint after a crash; messages whose units are in the timer log are passed over then.
"""

import asyncio
import logging
from typing import Final

from firearrow.broker.settings.live import LiveSettings
from firearrow.broker.timer.counts import TimerCounts
from firearrow.broker.timer.dequeue import Dequeue
from firearrow.broker.timer.records import TimedRecord, due_slot_ms, exact_ms, timed_record
from firearrow.errors import DiskError, DiskFull, OffsetNotStored
from firearrow.model import keys
from firearrow.model.java_hash import tag_code
from firearrow.model.names import TIMER_TOPIC
from firearrow.model.numbers import whole_number
from firearrow.record.decode import RecordHead, heads
from firearrow.record.layout import Buffer
from firearrow.runtime.clock import Clock
from firearrow.store.read.queue_reader import ReadRequest, ReadResult, ReadStatus
from firearrow.store.store import Store
from firearrow.store.timer.files import TimedMessage, TimerFiles
from firearrow.telemetry.damped import DampedEvents

PORTION: Final = 256
PORTION_BYTES: Final = 1 << 20
RETRY_S: Final = 1.0
ROOM_S: Final = 0.01
LATEST_MS: Final = 10**15

_AT_END: Final = (
    ReadStatus.OFFSET_OVERFLOW_ONE,
    ReadStatus.NO_MESSAGE_IN_QUEUE,
    ReadStatus.NO_MATCHED_LOGIC_QUEUE,
)

log = logging.getLogger(__name__)


class Enqueue:
    """Moves messages from the timers' queue to the wheel."""

    def __init__(
        self,
        files: TimerFiles,
        counts: TimerCounts,
        dequeue: Dequeue,
        *,
        store: Store,
        clock: Clock,
        settings: LiveSettings,
    ) -> None:
        self._store = store
        self._clock = clock
        self._settings = settings
        self._files = files
        self._counts = counts
        self._dequeue = dequeue
        self.arrival: Final = asyncio.Event()
        """Set when the timers' queue has new messages."""
        self._crowded_ms = 0
        self._failures = DampedEvents()

    async def run(self) -> None:
        """Move messages until cancelled."""
        while True:
            self.arrival.clear()
            try:
                if self._settings.value.timers.timer_stop_enqueue:
                    await asyncio.sleep(RETRY_S)
                    continue
                has_more = await self._take_portion()
                self._files.is_short = False
                if not has_more:
                    await self.arrival.wait()
            except (DiskError, OffsetNotStored) as error:
                self._files.is_short = isinstance(error, DiskFull)
                now, event = asyncio.get_running_loop().time(), "timed messages are not put into the wheel"
                self._failures.warn(log, now, event, {"reason": str(error)})
                await asyncio.sleep(RETRY_S)

    async def _take_portion(self) -> bool:
        """Move some messages; return False at the end of the queue."""
        files = self._files
        pulled = await self._store.read(TIMER_TOPIC, 0, ReadRequest(files.queue_offset, PORTION, PORTION_BYTES))
        if pulled.status is ReadStatus.FOUND:
            await self._add(pulled)
            return True
        if pulled.status in _AT_END or pulled.next_offset == files.queue_offset:
            files.in_log = frozenset()
            return False
        extra = {"from": files.queue_offset, "to": pulled.next_offset, "why": pulled.status.value}
        log.warning("timed messages are not there any more", extra=extra)
        files.queue_offset = pulled.next_offset
        return True

    async def _add(self, pulled: ReadResult) -> None:
        now_ms = self._clock.now_ms()
        waiting: list[TimedMessage] = []
        for buffer in pulled.buffers:
            for head in heads(buffer):
                timed = self._timed(head, buffer)
                if timed is None or self._files.was_delivered(head.queue_offset, timed.due_ms):
                    continue
                if head.physical_offset in self._files.in_log:
                    self._count(timed, now_ms)  # in the wheel since the last flush, but not in the counts that it wrote
                    continue
                while not self._has_room(timed, now_ms):
                    # Messages that were looked at are put away first: their slots may be delivered meanwhile.
                    self._put(waiting, now_ms, head.queue_offset)
                    waiting = []
                    await asyncio.sleep(ROOM_S)
                    now_ms = self._clock.now_ms()
                waiting.append(timed)
        self._put(waiting, now_ms, pulled.next_offset)

    def _timed(self, head: RecordHead, buffer: Buffer) -> TimedMessage | None:
        """Return what is to be put into the wheel for a record; None, with a warning, when there is nothing."""
        try:
            timed = _timed(timed_record(head, buffer), self._files)
        except Exception as error:  # a record that any client may have sent must not stop the timers
            log.exception("a message of the timers' queue is passed over", extra={"reason": str(error)})
            return None
        if timed is None:
            log.warning("a message of the timers' queue has no time", extra={"offset": head.queue_offset})
        return timed

    def _has_room(self, timed: TimedMessage, now_ms: int) -> bool:
        """Whether a slot can take a message, and is not being delivered."""
        span = self._files.span(timed.due_ms, now_ms)
        if span is None or span.due_ms == self._dequeue.closed_ms:
            return False
        if span != self._files.own_span(timed.due_ms, now_ms) and self._crowded_ms != timed.due_ms:
            self._crowded_ms = timed.due_ms
            log.warning(
                "the place of a slot in the timer wheel is taken by another time, as after a clock was set back; its "
                "messages go to a slot near it",
                extra={"due": timed.due_ms, "slot": span.due_ms},
            )
        return True

    def _put(self, waiting: list[TimedMessage], now_ms: int, next_offset: int) -> None:
        """Add messages to the wheel, and count the queue as read up to ``next_offset``."""
        files = self._files
        if waiting:
            files.add(waiting, now_ms)
            self._counts.added += len(waiting)
            for timed in waiting:
                self._count(timed, now_ms)
            self._dequeue.added.set()
        files.queue_offset = next_offset

    def _count(self, timed: TimedMessage, now_ms: int) -> None:
        if not timed.deletes:  # a message that is taken back waits until its time, when it is dropped
            self._counts.change(timed.topic, 1, now_ms)


def _timed(record: TimedRecord, files: TimerFiles) -> TimedMessage | None:
    """Return what is to be put into the wheel for a record; None when the record does not say when and for whom."""
    out_ms, topic = whole_number(record.value(keys.TIMER_OUT_MS), LATEST_MS), record.value(keys.REAL_TOPIC)
    if out_ms is None or topic is None:
        return None
    return TimedMessage(
        due_slot_ms(record, out_ms, files.precision_ms),
        record.head.physical_offset,
        record.head.size,
        tag_code(topic),
        record.is_deletion,
        exact_ms(record, out_ms, files.precision_ms) if files.config.timer_exact_delivery else 0,
        topic,
    )
