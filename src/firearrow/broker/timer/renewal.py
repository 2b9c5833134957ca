"""Keeps pending timed messages whose records lie in log files that are about to be deleted: stores them again.

The units of the timer log are in the order of the records, so those of a file that goes are the first. A message is
pending while its slot has its unit. The new record goes through the timers' queue like every other; the old unit stays
in its slot, and finds no record when it is due. A crash before the file is deleted leaves both, and the message is
delivered twice. A slot that is being delivered is waited for, unless it waits itself for the room that the deletion
makes: then all of it is stored again, and what was delivered of it before comes twice.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Final

from firearrow.broker.tables.tables import Tables
from firearrow.broker.timer.counts import TimerCounts
from firearrow.broker.timer.dequeue import Dequeue
from firearrow.broker.timer.records import read_spans, rolled
from firearrow.errors import ResourceShortage
from firearrow.model import PhysicalOffset, keys
from firearrow.model.names import TIMER_TOPIC
from firearrow.runtime.clock import elapsed_ms
from firearrow.store.pacing import Pace
from firearrow.store.placement import FLUSHED
from firearrow.store.timer.files import TimerFiles
from firearrow.store.timer.layout import UNIT_BYTES, Unit, unit_at

PATIENCE_MS: Final = 10_000
"""How long a deletion waits for messages that are not in the wheel yet."""
LOOK_AGAIN_S: Final = 0.02
READ_BYTES: Final = 1024 * UNIT_BYTES
AT_ONCE: Final = 64


class Renewal:
    """Stores pending messages of old files again."""

    def __init__(
        self,
        tables: Tables,
        files: TimerFiles,
        dequeue: Dequeue,
        counts: TimerCounts,
        entry_at: Callable[[int], PhysicalOffset],
    ) -> None:
        self._store = tables.store
        self._clock = tables.clock
        self._files = files
        self._dequeue = dequeue
        self._counts = counts
        self._entry_at = entry_at

    async def below(self, physical: int) -> None:
        """Store pending messages whose records lie below a physical offset again; return when they are durable."""
        await self._until_added(physical)
        end, pace = 0, Pace(AT_ONCE)
        async for unit in self._pending(physical):
            end = await self._renew(unit) or end
            await pace.did()
        if end:
            await self._store.reached(end, FLUSHED)

    async def _until_added(self, physical: int) -> None:
        """Wait until every message below a physical offset is in the wheel."""
        patient_ms = elapsed_ms() + PATIENCE_MS
        while self._entry_at(self._files.queue_offset) < physical:
            if elapsed_ms() > patient_ms:
                raise ResourceShortage(
                    "log files are not deleted: they hold timed messages that are not in the timer wheel yet; if "
                    "timerStopEnqueue is true set it to false, else wait for the next round"
                )
            await asyncio.sleep(LOOK_AGAIN_S)

    async def _pending(self, physical: int) -> AsyncIterator[Unit]:
        log, least = self._files.log, self._store.log.min_offset
        position = log.start
        while (start := log.file_start(position)) is not None and position < log.end:
            data = await log.read(position, READ_BYTES)
            for into in range(0, len(data) - UNIT_BYTES + 1, UNIT_BYTES):
                unit = unit_at(data, into)
                if not unit.is_valid:
                    position = start + log.file_bytes
                    break
                if unit.physical >= physical:
                    return
                if unit.physical >= least and await self._is_in_wheel(unit, position):
                    yield unit
                position += UNIT_BYTES
            if len(data) < UNIT_BYTES:
                position = start + log.file_bytes

    async def _is_in_wheel(self, unit: Unit, position: int) -> bool:
        dequeue = self._dequeue
        # A slot is delivered soon, and looked at seldom.
        while dequeue.current_ms == unit.due_ms and not dequeue.is_held:  # noqa: ASYNC110
            await asyncio.sleep(LOOK_AGAIN_S)
        slot = self._files.wheel.get(unit.due_ms)
        return slot is not None and slot.first <= position <= slot.last

    async def _renew(self, unit: Unit) -> int:
        """Store a message again; return the end of its new record, 0 when the old one cannot be read."""
        end, segment_bytes = 0, self._store.opened.segments.size
        async for span in read_spans(self._store.bytes, segment_bytes, [unit.physical], [unit.record_bytes]):
            for record in filter(None, span.records()):
                now_ms = self._clock.now_ms()
                draft = rolled(record, unit.written_ms, now_ms)
                # Also while sends are refused: the deletion that waits for this makes room.
                end = self._store.log.append(self._store.queues.tail_of(TIMER_TOPIC, 0), draft).end
                if not record.is_deletion:
                    self._counts.change(record.value(keys.REAL_TOPIC) or "", -1, now_ms)
        return end
