"""A running log: opened, written, flushed and closed in order. Wiring only.

`open` recovers the log, which then accepts appends; the owner must run `run` as a task, because nothing is flushed
without it; `close` ends in order. To stop without an orderly end, cancel `run` and drop the object.
"""

import asyncio
from collections.abc import Awaitable, Callable

from firearrow.errors import DiskError
from firearrow.runtime.clock import Clock
from firearrow.runtime.disk.door import Disk
from firearrow.store.config import LogConfig
from firearrow.store.log.copied_log import CopiedLog
from firearrow.store.log.flush import Flusher
from firearrow.store.log.next_segment import NextSegment
from firearrow.store.log.progress import Sink
from firearrow.store.placement import FLUSHED, WRITTEN
from firearrow.store.recovery.open_log import OpenedLog, checkpoint_crc, open_log


class RunningLog:
    """The commit log and the loops that serve it."""

    def __init__(
        self, disk: Disk, clock: Clock, config: LogConfig, opened: OpenedLog, sink: Sink, *, last_store_ms: int = 0
    ) -> None:
        self.opened = opened
        self.log = CopiedLog(
            opened.segments,
            clock,
            config,
            opened.recovered.end,
            sink,
            last_store_ms=max(opened.recovered.last_store_ms, last_store_ms),
        )
        self.largest_body = config.max_message_size
        """The largest body that a client may send, in bytes."""
        self.flusher = Flusher(disk, clock, self.log, opened.slot, config)
        self._disk = disk
        self._ahead = NextSegment(disk, opened.segments, self.log, zeroed=config.syncs_first and config.zero_fill_ahead)
        self._tasks: list[asyncio.Task[None]] = []
        self._stopped = False

    @classmethod
    async def open(cls, disk: Disk, clock: Clock, config: LogConfig, boot_id: str, sink: Sink) -> "RunningLog":
        """Recover the log of a directory. ``sink`` gets the rows of all later appends."""
        return cls(disk, clock, config, await open_log(disk, clock, config, boot_id), sink)

    async def run(self) -> None:
        """Flush, and prepare segments, until `close` or cancellation."""
        if self._stopped:
            return
        async with asyncio.TaskGroup() as group:
            self._tasks = [group.create_task(self.flusher.run()), group.create_task(self._ahead.run())]

    @property
    def shortage(self) -> DiskError | None:
        """The reason why there is no next segment, so that appends will soon be refused; None when nothing is known."""
        return self._ahead.failure

    def configure(self, config: LogConfig) -> None:
        """Keep records at the level of other settings from now on, and sync by them."""
        level = FLUSHED if config.syncs_first else WRITTEN
        if level is not self.log.kept_at:
            self.log.keep_at(level)
        self.flusher.configure(config)

    async def begin_at(self, offset: int) -> None:
        """Begin an empty log at the start of another segment, durably. Nothing may be appended meanwhile."""
        await self._ahead.begin_at(offset)
        await self.opened.slot.begin(offset, offset)

    async def flush(self) -> None:
        """Make everything appended so far durable; raise when that fails."""
        await self.flusher.flush()

    async def close(self, finish: Callable[[], Awaitable[None]] | None = None) -> None:
        """End in order: accept no appends, make everything durable, and mark the directory as closed.

        ``finish`` is awaited when the log is durable, before the directory is marked.
        """
        in_order = False
        try:
            self.log.refuse_appends()
            await self._stop()
            await self.flusher.flush()
            if finish is not None:
                await finish()
            await self._mark_closed()
            in_order = True
        finally:
            await self._release(in_order=in_order)

    async def _stop(self) -> None:
        self._stopped = True
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _mark_closed(self) -> None:
        opened, end = self.opened, self.log.flushed
        await opened.damage.keep(opened.segments)
        opened.ranges.ranges.finish(end)
        await opened.ranges.save(opened.segments.size)
        await opened.slot.finish(end, await checkpoint_crc(self._disk))

    async def _release(self, *, in_order: bool) -> None:
        try:
            await self.opened.presence.leave(in_order=in_order)
        except DiskError:
            if in_order:
                raise
        finally:
            self.opened.slot.close()
            self.opened.segments.close()
