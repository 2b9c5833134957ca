"""Delivers the slots of the wheel one after the other. Java: ``TimerMessageStore.dequeue``.

A slot is due when the wall clock has passed its end; with ``timerExactDelivery`` it is taken up when it begins, and
each of its messages is delivered in its millisecond (`slot_delivery`).
"""

import asyncio
import logging
from typing import Final

from firearrow.broker.tables.tables import Tables
from firearrow.broker.timer.counts import TimerCounts
from firearrow.broker.timer.slot_delivery import RETRY_S, SlotDelivery
from firearrow.errors import DiskError
from firearrow.store.pacing import Pace
from firearrow.store.timer.files import TimerFiles

LONGEST_SLEEP_MS: Final = 1_000
"""The longest sleep before the wall clock is read again: it may be set forward meanwhile."""
STEPS_AT_ONCE: Final = 4096
"""Empty slots passed one by one; a longer way is looked up in the wheel as a whole."""

log = logging.getLogger(__name__)


class Dequeue:
    """Moves messages from the wheel to their topics when their slot is due."""

    def __init__(self, tables: Tables, files: TimerFiles, counts: TimerCounts) -> None:
        self._clock = tables.clock
        self._settings = tables.settings
        self._files = files
        self._slots = SlotDelivery(tables, files, counts)
        self.added = self._slots.added
        """Set when a message was added to the wheel."""
        self._ahead_ms = files.precision_ms if files.config.timer_exact_delivery else 0

    @property
    def current_ms(self) -> int | None:
        """The slot that is being delivered; None when there is none."""
        return self._slots.current_ms

    @property
    def closed_ms(self) -> int | None:
        """The slot that is being delivered and takes no more messages; None when there is none."""
        return None if self._ahead_ms else self._slots.current_ms

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
                log.warning("timed messages wait", extra={"time": self._files.read_ms, "reason": str(error)})
                await asyncio.sleep(RETRY_S)
            await self._pause()

    async def _pause(self) -> None:
        """Wait until the next slot may be due."""
        if not self._files.wheel.used:
            await self.added.wait()
            return
        left_ms = self._files.read_ms + self._files.precision_ms - self._ahead_ms - self._clock.now_ms()
        left_s = min(max(left_ms, 1), LONGEST_SLEEP_MS) / 1000
        if self._ahead_ms:
            await self._slots.wait(left_s)
        else:
            await asyncio.sleep(left_s)

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
            await self._slots.deliver(time_ms)
            # The clock may have been set back while the slot was delivered, and a message added before it.
            if files.read_ms == time_ms:
                files.read_ms = time_ms + files.precision_ms
            await pace.did()

    async def _deliver_overdue(self, until_ms: int) -> None:
        """Deliver all slots up to a time, and go on from there; a message that is added before them meanwhile stays."""
        files = self._files
        reached_ms = files.read_ms
        async for time_ms in files.overdue(until_ms):
            await self._slots.deliver(time_ms)
            if files.read_ms != reached_ms:
                return
            reached_ms = files.read_ms = max(reached_ms, time_ms)
        if files.read_ms == reached_ms:
            files.read_ms = until_ms
