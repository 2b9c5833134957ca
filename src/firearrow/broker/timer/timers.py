"""The timers of a broker. Wiring: the files, the two loops, their flush and what operators see.

Call `load` before the broker serves, run `run` as a task, and call `close` after that task has ended and before the
store is closed. Java: ``TimerMessageStore``.
"""

import asyncio
import logging
import random
from typing import Final

from firearrow.broker.settings.live import LiveSettings
from firearrow.broker.statistics.counters import BrokerStats
from firearrow.broker.timer.admission import is_refused
from firearrow.broker.timer.counts import TimerCounts
from firearrow.broker.timer.dequeue import Dequeue
from firearrow.broker.timer.enqueue import Enqueue
from firearrow.broker.timer.renewal import Renewal
from firearrow.errors import DiskError
from firearrow.model import PhysicalOffset
from firearrow.model.names import TIMER_TOPIC
from firearrow.runtime.clock import Clock, elapsed_ms
from firearrow.runtime.disk.door import Disk
from firearrow.store.deletion import HOUR_MS
from firearrow.store.placement import FLUSHED, Rows
from firearrow.store.store import Store
from firearrow.store.timer.files import TimerFiles
from firearrow.store.timer.layout import TimerCheck
from firearrow.telemetry.damped import DampedEvents

KEPT_AFTER_MS: Final = 10 * 60_000
"""The interval at which the checkpoint is written when only the time has changed."""
COUNTS_MS: Final = 10_000
CLOSE_S: Final = 10.0
"""The time that a stop waits for the last flush."""
SMALLEST_WINDOW_SLOTS: Final = 60
_BEYOND: Final = PhysicalOffset(2**63 - 1)

log = logging.getLogger(__name__)


class Timers:
    """Messages of one broker that are delivered at a time of their own."""

    queues: Final = frozenset({(TIMER_TOPIC, 0)})
    """The queue whose messages go into the wheel."""

    def __init__(
        self,
        *,
        store: Store,
        clock: Clock,
        disk: Disk,
        settings: LiveSettings,
        chance: random.Random,
        stats: BrokerStats,
    ) -> None:
        self._store = store
        self._clock = clock
        self._settings = settings
        self._stats = stats
        self._disk = disk
        self._chance = chance
        self.counts = TimerCounts(disk)
        self.files: TimerFiles | None = None
        self._enqueue: Enqueue | None = None
        self._dequeue: Dequeue | None = None
        self._saved_ms = 0
        self._failures = DampedEvents()

    async def load(self) -> None:
        """Open and recover the timer files; do nothing when timers are off."""
        store, clock, settings = self._store, self._clock, self._settings
        config = settings.value.timers
        if not config.timer_wheel_enable:
            return
        await self.counts.load()
        files = self.files = await self._open()
        kept_ms = settings.value.retention.file_reserved_time * HOUR_MS
        # A message is stored again before the file of its record is old enough to be deleted.
        half = kept_ms // 2 // config.timer_precision_ms
        files.window_slots = max(min(config.window_slots, half), SMALLEST_WINDOW_SLOTS)
        self._dequeue = Dequeue(files, self.counts, store=store, clock=clock, settings=settings, stats=self._stats)
        self._enqueue = Enqueue(files, self.counts, self._dequeue, store=store, clock=clock, settings=settings)
        renewal = Renewal(
            files, self._dequeue, self.counts, self._entry_at, store=store, clock=clock, settings=settings
        )
        self._store.retention.keepers.all.append(renewal)

    async def _open(self) -> TimerFiles:
        config, now_ms = self._settings.value.timers, self._clock.now_ms()
        tail = self._store.log.tail
        files = await TimerFiles.open(self._disk, config, now_ms, log_tail=tail, entry_at=self._entry_at)
        files.queue_offset = min(files.queue_offset, self._store.max_offset(TIMER_TOPIC, 0))
        return files

    async def cut(self) -> None:
        """Remove from the timer files, durably, what names records behind the end of a log that was cut."""
        if self._settings.value.timers.timer_wheel_enable:
            files = self.files or await self._open()
            await files.flush(self._deliveries_durable, self._clock.now_ms())
            if self.files is None:
                files.close()

    def _entry_at(self, offset: int) -> PhysicalOffset:
        """Return the physical offset of an entry of the timers' queue; beyond every record at the end of the queue."""
        queue = self._store.queues.find(TIMER_TOPIC, 0)
        if queue is None:
            return _BEYOND
        offset = max(offset, self._store.min_offset(TIMER_TOPIC, 0))
        if offset >= queue.max_offset:
            return _BEYOND
        return PhysicalOffset(self._store.queues.entry(queue, offset)[0])

    def arrived(self, _rows: Rows) -> None:
        """Wake the timers: their queue has new messages."""
        if self._enqueue is not None:
            self._enqueue.arrival.set()

    async def run(self) -> None:
        """Serve until cancelled."""
        if self._enqueue is None or self._dequeue is None or self.files is None:
            return
        async with asyncio.TaskGroup() as group:
            group.create_task(self._enqueue.run())
            group.create_task(self._dequeue.run())
            group.create_task(self._keep(self.files))

    async def _keep(self, files: TimerFiles) -> None:
        """Flush the files at every interval."""
        counted_ms = elapsed_ms()
        while True:
            await asyncio.sleep(self._settings.value.timers.timer_flush_interval_ms / 1000)
            now_ms = elapsed_ms()
            try:
                if files.is_changed or (now_ms - self._saved_ms >= KEPT_AFTER_MS and files.check.counter):
                    await self._flush(files)
                if now_ms - counted_ms >= COUNTS_MS:
                    counted_ms = now_ms
                    self.counts.sample(now_ms)
                    await files.log.delete_below(self._store.log.min_offset)
            except DiskError as error:
                now, values = asyncio.get_running_loop().time(), {"reason": str(error)}
                self._failures.warn(log, now, "the timers could not be written", values)

    async def _flush(self, files: TimerFiles) -> None:
        await files.flush(self._deliveries_durable, self._clock.now_ms())
        await self.counts.save()  # with the wheel: after a kill both go on from the same place
        self._saved_ms = elapsed_ms()

    async def _deliveries_durable(self) -> None:
        await self._store.reached(self._store.log.tail, FLUSHED)

    async def close(self) -> None:
        """Write everything; the store must still be open."""
        files = self.files
        if files is None:
            return
        try:
            async with asyncio.timeout(CLOSE_S):
                if files.is_changed or files.check.counter:
                    await self._flush(files)
        except TimeoutError:
            # A task that failed has ended the others, and nobody writes the log any more.
            log.warning("the timers are closed without a last flush; the next start recovers them")
        finally:
            files.close()

    # ---- what others ask

    def is_congested(self, slot_ms: int) -> bool:
        """Whether a message for a slot is refused because the slot is too full."""
        limit = self._settings.value.timers.timer_congest_num_each_slot
        slot = None if self.files is None else self.files.wheel.get(slot_ms)
        return slot is not None and is_refused(slot.number, limit, self._chance.random())

    @property
    def check(self) -> TimerCheck:
        """The progress of the timers."""
        files = self.files
        if files is None:
            return TimerCheck()
        old = files.check
        return TimerCheck(
            files.read_ms,
            files.log.synced,
            files.queue_offset,
            files.queue_offset,
            old.state_version,
            old.version_ms,
            old.counter,
        )

    def runtime(self) -> dict[str, str]:
        """Return the keys of the runtime table that are about timers."""
        files = self.files
        if files is None:
            return {}
        behind_ms = self._clock.now_ms() - files.read_ms if files.wheel.used else 0
        return {
            "timerReadBehind": str(max(behind_ms, 0) // 1000),
            "timerOffsetBehind": str(max(self._store.max_offset(TIMER_TOPIC, 0) - files.queue_offset, 0)),
            "timerCongestNum": str(self.counts.waiting),
            "timerEnqueueTps": str(self.counts.added_a_second),
            "timerDequeueTps": str(self.counts.delivered_a_second),
        }
