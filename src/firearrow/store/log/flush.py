"""Makes the log durable: group commit and interval flush, the flush slot, and the fence.

One sync acknowledges everything that was written before it started. The order after a sync is fixed: `flushed` advances
and waiters are called only when every written segment, and the directory of every new one, is synced; then the slot is
written. So neither an acknowledgement nor the slot is ever ahead of a sync. The first failed sync fences the log: the
kernel has dropped dirty pages, and the next sync would succeed without them. A sync that could not begin, because the
process has no descriptor left for a file, has dropped nothing: it is tried again, and waiters go on waiting.

Under ASYNC_FLUSH there is a sync every interval if enough pages are dirty or there are waiters for FLUSHED, and after
the thorough interval in any case. A power loss loses at most the messages of both intervals and of the time of the sync
itself, plus the time in which the machine did not run the process. Java: ``CommitLog.GroupCommitService``,
``CommitLog.FlushRealTimeService``.
"""

import asyncio
import contextlib
import logging
from typing import Final

from firearrow.errors import DiskError, ResourceShortage
from firearrow.runtime.clock import Clock
from firearrow.runtime.disk.door import Disk
from firearrow.store.config import LogConfig
from firearrow.store.log.commit_log import CommitLog
from firearrow.store.log.segments import Segment, sync_names
from firearrow.store.sidecars.flush_slot import SYNC_SECONDS, SlotFile
from firearrow.telemetry.metrics import Histogram

PAGE_BYTES: Final = 4096
RETRY_SECONDS: Final = 0.1
"""Seconds until a sync that could not begin is tried again."""
SYNC_BOUNDS: Final = (0.0001, 0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0)

logger = logging.getLogger(__name__)


class Flusher:
    """Syncs the log: by group commit or by interval."""

    def __init__(self, disk: Disk, clock: Clock, log: CommitLog, slot: SlotFile, config: LogConfig) -> None:
        self._disk = disk
        self._clock = clock
        self._log = log
        self._slot = slot
        self._config = config
        self._work = asyncio.Event()
        self._late = asyncio.Event()
        self._one_at_a_time = asyncio.Lock()
        self._is_short = False
        self.seconds: Final = Histogram(SYNC_BOUNDS)
        """The durations of syncs."""
        log.on_late = self._late.set
        self.configure(config)

    def configure(self, config: LogConfig) -> None:
        """Sync by other settings from now on."""
        if config != self._config:
            self._config = config
            self._work.set()  # the loop looks which settings are in force
        self._log.on_written = self._work.set if config.syncs_first else None

    async def run(self) -> None:
        """Flush until cancelled or fenced."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._keep_flushed())
            group.create_task(self._keep_slot())
            group.create_task(self._confirm_late_writes())

    async def flush(self) -> None:
        """Make everything written so far durable; raise when that fails."""
        log = self._log
        log.write_pending()
        target = log.tail
        while log.fenced is None and log.written < min(target, log.tail):
            await log.confirm()
        while log.fenced is None and log.needs_flush:
            if (shortage := await self._sync()) is not None:
                raise shortage
        if log.fenced is not None:
            raise log.fenced

    async def _keep_flushed(self) -> None:
        while self._log.fenced is None:
            await (self._group_commit() if self._config.syncs_first else self._at_intervals())

    async def _group_commit(self) -> None:
        config = self._config
        while self._log.fenced is None and self._config is config:
            await self._work.wait()
            self._work.clear()
            if self._log.needs_flush and await self._sync() is not None:
                self._work.set()
                await asyncio.sleep(RETRY_SECONDS)

    async def _at_intervals(self) -> None:
        config, log = self._config, self._log
        loop = asyncio.get_running_loop()
        least = config.flush_commit_log_least_pages * PAGE_BYTES
        thorough = config.flush_commit_log_thorough_interval / 1000
        last = loop.time()
        self._work.clear()
        while log.fenced is None:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(config.flush_interval_commit_log / 1000):
                    await self._work.wait()
            if self._config is not config:
                return
            now = loop.time()
            due = now - last >= thorough
            if log.needs_flush and (due or log.wants_flush or log.written - log.flushed >= least):
                await self._sync()
            if due:
                # The interval counts from the start of the sync, so that bytes written during it do not wait longer.
                last = now

    async def _sync(self) -> ResourceShortage | None:
        """Sync dirty segments; return the reason if the sync could not begin and must be tried again."""
        # One sync at a time: a second one would find no dirty segments and report them as durable too early.
        async with self._one_at_a_time:
            # The sync before may have failed: then its segments are lost, and "nothing dirty" does not mean durable.
            return await self._sync_taken() if self._log.fenced is None else None

    async def _sync_taken(self) -> ResourceShortage | None:
        log = self._log
        target = log.written
        dirty = log.unsynced.take()
        began = self._clock.ticks()
        try:
            await self._sync_segments(dirty)
            self._slot.note(target)
        except ResourceShortage as shortage:
            log.unsynced.give_back(dirty)
            if not self._is_short:
                logger.warning("the log cannot be synced for now: %s", shortage, extra={"reason": str(shortage)})
            self._is_short = True
            return shortage
        except DiskError as error:
            self._slot.distrust()
            log.fence(error)
        except asyncio.CancelledError:
            log.unsynced.give_back(dirty)
            raise
        else:
            self._is_short = False
            self.seconds.observe((self._clock.ticks() - began) / 1e9)
            log.note_flushed(target)
        return None

    async def _sync_segments(self, dirty: list[Segment]) -> None:
        for segment in dirty:
            await segment.file.sync()
        unnamed = [segment for segment in dirty if not segment.named]
        if unnamed:
            await sync_names(self._disk)
            for segment in unnamed:
                segment.named = True

    async def _keep_slot(self) -> None:
        while self._log.fenced is None:
            await asyncio.sleep(SYNC_SECONDS)
            try:
                await self._slot.sync()
            except ResourceShortage:
                continue  # the older note stays valid
            except DiskError as error:
                self._log.fence(error)

    async def _confirm_late_writes(self) -> None:
        while self._log.fenced is None:
            await self._late.wait()
            self._late.clear()
            try:
                await self._log.confirm()
            except DiskError as error:
                self._log.fence(error)
