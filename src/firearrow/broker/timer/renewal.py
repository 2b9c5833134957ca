"""Keeps pending timed messages whose records lie in log files that are about to be deleted: stores them again.

A new record goes through the timers' queue like every other. `TimerFiles.renewed` remembers how far messages were
stored again: the old units below it stay in their slots and are passed over there, so a message comes once however
often the deletion of its file is tried. Only a crash between the renewal and the deletion makes it come twice, because
the new process finds both records.

A slot that is being delivered is waited for, unless it waits itself for the room that the deletion makes: then those of
its messages are stored again that are not delivered yet.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterator
from datetime import UTC, datetime
from typing import Final, NamedTuple

from firearrow.broker.settings.live import LiveSettings
from firearrow.broker.timer.counts import TimerCounts
from firearrow.broker.timer.dequeue import Dequeue
from firearrow.broker.timer.outcomes import Outcome, outcome_of
from firearrow.broker.timer.records import TimedRecord, read_spans, rolled
from firearrow.errors import DiskFull, FireArrowError, IllegalMessage, NotNow
from firearrow.model import PhysicalOffset, keys
from firearrow.model.names import TIMER_TOPIC
from firearrow.runtime.clock import Clock, elapsed_ms
from firearrow.store.placement import FLUSHED
from firearrow.store.store import Store
from firearrow.store.timer.files import TimerFiles
from firearrow.store.timer.pending import PlacedUnit, is_pending, pending_units
from firearrow.store.timer.recovery import NEVER_MS

PATIENCE_MS: Final = 10_000
"""The time that a deletion waits for messages that are not in the wheel yet."""
LOOK_AGAIN_S: Final = 0.02
AT_ONCE: Final = 64
"""Most messages stored again in one turn."""
BYTES_AT_ONCE: Final = 256 << 10
"""Messages of one turn: no further one after so many bytes."""

log = logging.getLogger(__name__)


class _RenewedMessage(NamedTuple):
    """A message that was appended again."""

    physical: int
    """The physical offset of the old record."""
    topic: str | None
    """The topic that it is counted for; None for a recall."""
    outcome: Outcome


class _LostMessages:
    """Messages of a topic that are given up."""

    def __init__(self, messages: int = 0) -> None:
        self.messages = messages
        self.first_ms, self.last_ms = NEVER_MS, 0

    def tell(self, topic: str) -> None:
        """Log the loss."""
        due = f", due from {_time(self.first_ms)} to {_time(self.last_ms)}," if self.last_ms else ""
        log.error(
            "%d timed messages of topic %s%s are LOST: their log file is deleted to save the disk, and the disk had no "
            "room to store them again; add disk space, and let their producers send them again",
            self.messages,
            topic,
            due,
            extra={"topic": topic, "messages": self.messages, "first_due": self.first_ms, "last_due": self.last_ms},
        )


class Renewal:
    """Stores pending messages of old files again: a `Keeper` of the store."""

    kept = "timed messages"

    def __init__(
        self,
        files: TimerFiles,
        dequeue: Dequeue,
        counts: TimerCounts,
        entry_at: Callable[[int], PhysicalOffset],
        *,
        store: Store,
        clock: Clock,
        settings: LiveSettings,
    ) -> None:
        self._store = store
        self._clock = clock
        self._settings = settings
        self._files = files
        self._dequeue = dequeue
        self._counts = counts
        self._entry_at = entry_at

    async def pending_bytes(self, start: int, end: int) -> int:
        """Return the size of the pending messages whose records lie between two physical offsets."""
        size = 0
        async for some in self._pending(start, end):
            size += sum([placed.unit.record_bytes for placed in some if not self._dequeue.is_stored(placed.unit)])
        return size

    async def renew_below(self, physical: int) -> None:
        """Store pending messages whose records lie below a physical offset again; return when they are durable."""
        await self._until_added(physical)
        end = 0
        async for some in self._pending(0, physical):
            for batch in _batches(some):
                end = await self._renew(batch) or end
        if end:
            await self._store.reached(end, FLUSHED)

    async def drop_below(self, physical: int) -> None:
        """Give the pending messages below a physical offset up: the disk has no room to store them again."""
        lost: dict[str, _LostMessages] = {}
        files = self._files
        async for some in self._pending(0, physical):
            for batch in _batches(some):
                records = await self._records(batch)
                await self._until_delivered(batch)
                for placed, record in zip(batch, records, strict=True):
                    if is_pending(files.wheel, placed) and not self._dequeue.is_stored(placed.unit):
                        _count_lost(lost, placed.unit.due_ms, record)
                files.renewed = files.renewing = batch[-1].unit.physical + 1
        for topic, one in lost.items():
            self._counts.change(topic, -one.messages, self._clock.now_ms())
            one.tell(topic)
        self._tell_not_added(physical)

    def _tell_not_added(self, physical: int) -> None:
        """Log how many messages below a physical offset are lost before they came into the wheel."""
        queue = self._store.queues.find(TIMER_TOPIC, 0)
        if queue is not None:
            messages = self._store.queues.first_at_or_above(queue, physical) - self._files.queue_offset
            if messages > 0:
                _LostMessages(messages).tell(TIMER_TOPIC)

    async def _until_added(self, physical: int) -> None:
        """Wait until every message below a physical offset is in the wheel."""
        patient_ms = elapsed_ms() + PATIENCE_MS
        while self._entry_at(self._files.queue_offset) < physical:
            if self._settings.value.timers.timer_stop_enqueue:
                raise NotNow(
                    "log files are not deleted: they hold timed messages that are not in the timer wheel yet; set "
                    "timerStopEnqueue to false"
                )
            if elapsed_ms() > patient_ms:
                # Messages are given up on a disk without room alone: timers that are behind else catch up.
                is_short = self._files.is_short or self._dequeue.is_held
                raise (DiskFull if is_short else NotNow)(
                    "log files are not deleted: they hold timed messages that are not in the timer wheel yet; the next "
                    "round tries again"
                )
            await asyncio.sleep(LOOK_AGAIN_S)

    def _pending(self, start: int, end: int) -> AsyncIterator[list[PlacedUnit]]:
        files = self._files
        start = max(start, self._store.log.min_offset, files.renewed)
        return pending_units(files.log, files.wheel, start, end)

    async def _renew(self, batch: list[PlacedUnit]) -> int:
        """Store messages again; return the end of the last new record, 0 without any."""
        records = await self._records(batch)
        dequeue, files = self._dequeue, self._files
        await self._until_delivered(batch)
        renewed: list[_RenewedMessage] = []
        failure, last = None, 0
        # No await until all are appended: a delivery sees none of them or all as stored again.
        for placed, record in zip(batch, records, strict=True):
            if not is_pending(files.wheel, placed) or dequeue.is_stored(placed.unit):
                continue
            try:
                end = self._append(placed, record)
            except FireArrowError as error:
                failure = error
                break
            files.renewing = placed.unit.physical + 1
            if end:
                topic = None if record is None or record.is_deletion else record.value(keys.REAL_TOPIC) or ""
                renewed.append(_RenewedMessage(placed.unit.physical, topic, outcome_of(self._store, end)))
                last = end
        await self._confirm(renewed)
        if failure is not None:
            raise failure
        return last

    async def _confirm(self, renewed: list[_RenewedMessage]) -> None:
        """Wait until new records are written; count only the messages up to the first failure as stored again."""
        files = self._files
        confirmed = files.renewed
        try:
            for one in renewed:
                if (error := await one.outcome) is not None:
                    raise error
                confirmed = one.physical + 1
                if one.topic is not None:
                    self._counts.change(one.topic, -1, self._clock.now_ms())
            confirmed = files.renewing
        finally:
            files.renewed = files.renewing = confirmed

    async def _until_delivered(self, batch: list[PlacedUnit]) -> None:
        """Wait for the slot that is being delivered if it has units of a batch, unless it waits for room."""
        due, dequeue = {placed.unit.due_ms for placed in batch}, self._dequeue
        # A slot is delivered soon, and looked at seldom.
        while dequeue.current_ms in due and not dequeue.is_held:  # noqa: ASYNC110
            await asyncio.sleep(LOOK_AGAIN_S)

    async def _records(self, batch: list[PlacedUnit]) -> list[TimedRecord | None]:
        places = [placed.unit.physical for placed in batch], [placed.unit.record_bytes for placed in batch]
        found: list[TimedRecord | None] = []
        async for span in read_spans(self._store.bytes, self._store.opened.segments.size, *places):
            found += span.records()
        return found

    def _append(self, placed: PlacedUnit, record: TimedRecord | None) -> int:
        """Append a message again; return the end of its new record, 0, with an error logged, when it is lost."""
        physical, reason = placed.unit.physical, "its record is damaged"
        if record is not None:
            draft = rolled(record, placed.unit.written_ms, self._clock.now_ms())
            try:
                # Also while sends are refused: the deletion that waits for this makes room.
                return self._store.log.append(self._store.queues.tail_of(TIMER_TOPIC, 0), draft).end
            except IllegalMessage as error:
                reason = str(error)
        log.error(
            "the timed message at physical offset %d is LOST: its log file is to be deleted and the message cannot be "
            "stored again: %s",
            physical,
            reason,
            extra={"physical": physical, "reason": reason},
        )
        return 0


def _count_lost(lost: dict[str, _LostMessages], due_ms: int, record: TimedRecord | None) -> None:
    if record is None or not record.is_deletion:
        one = lost.setdefault("" if record is None else record.value(keys.REAL_TOPIC) or "", _LostMessages())
        one.messages += 1
        one.first_ms, one.last_ms = min(one.first_ms, due_ms), max(one.last_ms, due_ms)


def _time(time_ms: int) -> str:
    return datetime.fromtimestamp(time_ms / 1000, UTC).isoformat(timespec="seconds")


def _batches(units: list[PlacedUnit]) -> Iterator[list[PlacedUnit]]:
    """Return units in lists that are stored in one turn."""
    batch: list[PlacedUnit] = []
    size = 0
    for placed in units:
        if batch and (len(batch) >= AT_ONCE or size + placed.unit.record_bytes > BYTES_AT_ONCE):
            yield batch
            batch, size = [], 0
        batch.append(placed)
        size += placed.unit.record_bytes
    if batch:
        yield batch
