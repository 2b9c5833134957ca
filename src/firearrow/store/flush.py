"""Makes the log durable: group commit and interval flush, the flush slot, and the fence.

One sync acknowledges everything that was written before it started. The order after a sync is fixed: `flushed` moves
and waiters hear of it only when every segment written, and the directory of every new one, is synced; then the slot is
written. So neither an acknowledgement nor the slot is ever ahead of a sync. The first failed sync fences the log: the
kernel has dropped pages and would say OK the next time. A sync that could not begin, because the process has no
descriptor left for a file, dropped nothing: it is tried again, and whoever waits goes on waiting.

Under ASYNC_FLUSH a sync comes every interval when enough pages are dirty or somebody waits for FLUSHED, and after the
thorough interval in any case. At most both intervals and the time that the sync itself takes are lost with the power,
and on a machine that does not let the process run, that time as well. Java: ``CommitLog.GroupCommitService``,
``CommitLog.FlushRealTimeService``.
"""

import asyncio
import logging
from typing import Final

from firearrow.errors import DiskError, ResourceShortage
from firearrow.runtime.disk import Disk
from firearrow.store.commitlog import CommitLog
from firearrow.store.config import LogConfig
from firearrow.store.segments import Segment, sync_names
from firearrow.store.slotfile import SYNC_SECONDS, SlotFile

PAGE_BYTES: Final = 4096
RETRY_SECONDS: Final = 0.1
"""How long a sync that could not begin is left alone."""

logger = logging.getLogger(__name__)


class Flusher:
    """The loops that bring the log to the device."""

    def __init__(self, disk: Disk, log: CommitLog, slot: SlotFile, config: LogConfig) -> None:
        self._disk = disk
        self._log = log
        self._slot = slot
        self._config = config
        self._work = asyncio.Event()
        self._late = asyncio.Event()
        self._one_at_a_time = asyncio.Lock()
        self._is_short = False
        if config.syncs_first:
            log.on_written = self._work.set
        log.on_late = self._late.set

    async def run(self) -> None:
        """Flush until cancelled or fenced."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._group_commit() if self._config.syncs_first else self._at_intervals())
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

    async def _group_commit(self) -> None:
        while self._log.fenced is None:
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
        while log.fenced is None:
            await asyncio.sleep(config.flush_interval_commit_log / 1000)
            now = loop.time()
            due = now - last >= thorough
            if log.needs_flush and (due or log.wants_flush or log.written - log.flushed >= least):
                await self._sync()
            if due:
                # From when it began: what was written while it ran shall not wait for it and then for the interval.
                last = now

    async def _sync(self) -> ResourceShortage | None:
        """Sync what is dirty; return why that could not begin, and must be tried again."""
        # One at a time: what one has taken is not durable yet, and another must not say so.
        async with self._one_at_a_time:
            # The one before may have failed: what it took is lost, and nothing left to sync proves nothing.
            return await self._sync_taken() if self._log.fenced is None else None

    async def _sync_taken(self) -> ResourceShortage | None:
        log = self._log
        target = log.written
        dirty = log.take_dirty()
        try:
            await self._sync_segments(dirty)
            self._slot.note(target)
        except ResourceShortage as shortage:
            log.give_back(dirty)
            if not self._is_short:
                logger.warning("the log cannot be synced for now: %s", shortage, extra={"reason": str(shortage)})
            self._is_short = True
            return shortage
        except DiskError as error:
            self._slot.distrust()
            log.fence(error)
        except asyncio.CancelledError:
            log.give_back(dirty)
            raise
        else:
            self._is_short = False
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
                continue  # an older note is as true
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
