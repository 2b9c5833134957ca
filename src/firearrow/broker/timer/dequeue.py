"""Delivers the slots of the wheel one after the other. Java: ``TimerMessageStore.dequeue``.

A slot is due when the wall clock has passed its end; with ``timerExactDelivery`` it is taken up when it begins, and
each of its messages is delivered in its millisecond (`slot_delivery`).
"""

import asyncio
import logging
from typing import Final

from firearrow.broker.settings.live import LiveSettings
from firearrow.broker.statistics.counters import BrokerStats
from firearrow.broker.timer.counts import TimerCounts
from firearrow.broker.timer.slot_delivery import RETRY_S, SlotDelivery
from firearrow.errors import DiskError
from firearrow.model.names import TIMER_TOPIC
from firearrow.runtime.clock import Clock, elapsed_ms
from firearrow.runtime.turn import Pace
from firearrow.store.store import Store
from firearrow.store.timer.files import TimerFiles
from firearrow.store.timer.layout import Unit
from firearrow.store.timer.recovery import NEVER_MS
from firearrow.telemetry.damped import DampedEvents

LONGEST_SLEEP_MS: Final = 1_000
"""The longest sleep before the wall clock is read again: it may be set forward meanwhile."""
PATIENCE_MS: Final = 30_000
"""The time that a slot waits for a queue that is not read on."""
LOOK_AGAIN_S: Final = 0.002
STEPS_AT_ONCE: Final = 4096
"""Empty slots passed one by one; a longer way is looked up in the wheel as a whole."""

log = logging.getLogger(__name__)


class Dequeue:
    """Moves messages from the wheel to their topics when their slot is due."""

    def __init__(
        self,
        files: TimerFiles,
        counts: TimerCounts,
        *,
        store: Store,
        clock: Clock,
        settings: LiveSettings,
        stats: BrokerStats,
    ) -> None:
        self._store = store
        self._clock = clock
        self._settings = settings
        self._files = files
        self._slots = SlotDelivery(files, counts, store=store, stats=stats, clock=clock)
        self._failures = DampedEvents()
        self.added = self._slots.added
        """Set when a message was added to the wheel."""
        self._ahead_ms = files.precision_ms if files.config.timer_exact_delivery else 0

    @property
    def current_ms(self) -> int | None:
        """The slot that is being delivered; None when there is none."""
        return self._slots.current_ms

    @property
    def closed_ms(self) -> int | None:
        """The slot that is being delivered and takes no more messages; None when there is none.

        A slot that waits for room takes messages: the deletion that makes room waits until they are in the wheel.
        """
        return None if self._ahead_ms or self.is_held else self._slots.current_ms

    @property
    def is_held(self) -> bool:
        """Whether a slot is being delivered and nothing of it can be stored for now."""
        return self._slots.is_held

    def is_stored(self, unit: Unit) -> bool:
        """Whether a unit of the slot that is being delivered is stored for its topic already."""
        return self._slots.is_stored(unit)

    async def run(self) -> None:
        """Deliver until cancelled."""
        while True:
            self.added.clear()
            if self._settings.value.timers.timer_stop_dequeue:
                await asyncio.sleep(RETRY_S)
                continue
            try:
                await self._deliver_due()
            except DiskError as error:
                values = {"slot": self._files.read_ms, "reason": str(error)}
                self._failures.warn(log, asyncio.get_running_loop().time(), "timed messages wait", values)
                await asyncio.sleep(RETRY_S)
            await self._pause()

    async def _pause(self) -> None:
        """Wait until the next slot may be due."""
        if not self._files.wheel.used:
            await self.added.wait()
            return
        left_ms = self._files.read_ms + self._files.precision_ms - self._ahead_ms - self._clock.now_ms()
        await self._slots.wait(min(max(left_ms, 1), LONGEST_SLEEP_MS) / 1000)

    def _horizon_ms(self) -> int:
        """Return the first slot that is not taken up yet."""
        return self._files.floor(self._clock.now_ms()) + self._ahead_ms

    async def _deliver_due(self) -> None:
        files = self._files
        pace = Pace(STEPS_AT_ONCE // 8)
        until_ms = files.floor(self._clock.now_ms())
        if not files.wheel.used:
            files.read_ms = max(files.read_ms, until_ms)
        if until_ms - files.read_ms > STEPS_AT_ONCE * files.precision_ms:
            await self._deliver_overdue(until_ms)
        while files.read_ms < self._horizon_ms():
            time_ms = files.read_ms
            await self._deliver(time_ms)
            # The clock may have been set back while the slot was delivered, and a message added before it.
            if files.read_ms == time_ms:
                files.read_ms = time_ms + files.precision_ms
            await pace.did()

    async def _deliver_overdue(self, until_ms: int) -> None:
        """Deliver all slots up to a time, also those that get messages meanwhile, and go on from there."""
        files = self._files
        while files.read_ms < until_ms:
            files.added_ms = NEVER_MS
            async for time_ms in files.overdue(until_ms):
                await self._deliver(time_ms)
                if files.added_ms < time_ms:
                    break
                files.read_ms = max(files.read_ms, time_ms)
            else:
                if files.added_ms >= until_ms:
                    files.read_ms = max(files.read_ms, until_ms)

    async def _deliver(self, time_ms: int) -> None:
        """Deliver a slot when all messages and recalls that were in the timers' queue by now are in the wheel."""
        if self._files.wheel.get(time_ms) is not None:
            await self._queue_read()
            await self._slots.deliver(time_ms)

    async def _queue_read(self) -> None:
        files, end = self._files, self._store.max_offset(TIMER_TOPIC, 0)
        seen, patient_ms = files.queue_offset, elapsed_ms() + PATIENCE_MS
        while files.queue_offset < end and not self._settings.value.timers.timer_stop_enqueue:
            if files.queue_offset != seen:
                seen, patient_ms = files.queue_offset, elapsed_ms() + PATIENCE_MS
            elif elapsed_ms() > patient_ms:
                log.warning("timed messages are delivered while their queue cannot be read", extra={"offset": seen})
                return
            await asyncio.sleep(LOOK_AGAIN_S)
