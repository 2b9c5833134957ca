"""A store on a directory of the real disk, opened the way a fault campaign needs it.

The options choose what a broker never chooses by hand: where syncs run, under which boot the store believes to be, and
defects planted on purpose, which a campaign must catch to be believed.
"""

import asyncio
from collections.abc import Sequence
from typing import Literal

from msgspec import Struct

from firearrow.record.encode import Draft
from firearrow.runtime.clock import SystemClock
from firearrow.runtime.realdisk import RealDisk
from firearrow.runtime.syncchoice import Route, SyncChoice
from firearrow.store.config import FlushMode, LogConfig
from firearrow.store.opening import OpenedLog
from firearrow.store.placement import FLUSHED, WRITTEN, Appended, Level, Placed, QueueTail
from firearrow.store.running import RunningLog

Mutant = Literal["", "ack-before-sync", "no-directory-sync"]
RouteName = Literal["auto", "inline", "process", "thread"]


class Options(Struct, frozen=True, kw_only=True):
    """How a directory is opened."""

    root: str
    flush: FlushMode = "SYNC_FLUSH"
    segment_bytes: int = 16_384
    zero_fill: bool = True
    interval_ms: int = 20
    thorough_ms: int = 60
    boot_id: str = "boot-0"
    route: RouteName = "inline"
    mutant: Mutant = ""

    @property
    def level(self) -> Level:
        """What a send waits for."""
        return FLUSHED if self.flush == "SYNC_FLUSH" else WRITTEN

    def log_config(self) -> LogConfig:
        """The settings of the log."""
        return LogConfig(
            mapped_file_size_commit_log=self.segment_bytes,
            flush_disk_type=self.flush,
            zero_fill_ahead=self.zero_fill,
            flush_interval_commit_log=self.interval_ms,
            flush_commit_log_thorough_interval=self.thorough_ms,
        )

    def disk(self) -> RealDisk:
        """The disk below the root."""
        choice = None if self.route == "auto" else FixedChoice(Route(self.route))
        kind = CarelessDisk if self.mutant == "no-directory-sync" else RealDisk
        return kind(self.root, choice=choice)


class FixedChoice(SyncChoice):
    """Sends every sync the same way, so that runs are alike."""

    def __init__(self, route: Route) -> None:
        super().__init__()
        self._route = route

    def route(self, unsynced_bytes: int) -> Route:
        """Return the fixed route."""
        del unsynced_bytes
        return self._route

    def took(self, nanoseconds: int, unsynced_bytes: int) -> None:
        """Learn nothing."""


class CarelessDisk(RealDisk):
    """A planted defect: names are never made durable."""

    async def sync_directory(self, path: str = "") -> None:
        """Return at once."""
        del path


class Session:
    """An open store."""

    def __init__(self, options: Options, disk: RealDisk, running: RunningLog) -> None:
        self.options = options
        self.log = running.log
        self.opened: OpenedLog = running.opened
        self._disk = disk
        self._running = running
        self._tails: dict[tuple[str, int], QueueTail] = {}
        self._task: asyncio.Task[None] | None = None

    @classmethod
    async def open(cls, options: Options) -> "Session":
        """Recover the store of a directory and run it."""
        disk = options.disk()
        rows: list[Placed] = []
        running = await RunningLog.open(disk, SystemClock(), options.log_config(), options.boot_id, rows.extend)
        session = cls(options, disk, running)
        opened = running.opened
        start, end = opened.segments.min_offset, opened.recovered.end
        async for piece in opened.scanner.rows(start, end, session.tail_of, opened.damage.next_good):
            for tail, _, _, queue_offset, _, _, _ in piece:
                tail.next_offset = queue_offset + 1
        session._task = asyncio.get_running_loop().create_task(running.run())
        return session

    def tail_of(self, topic: str, queue_id: int) -> QueueTail:
        """The queue as the log sees it."""
        tail = self._tails.get((topic, queue_id))
        if tail is None:
            tail = self._tails[topic, queue_id] = QueueTail(topic, queue_id)
        return tail

    def append(self, drafts: Sequence[Draft]) -> list[Appended]:
        """Append one message, or a batch of one queue."""
        tail = self.tail_of(drafts[0].topic, drafts[0].queue_id)
        if len(drafts) == 1:
            return [self.log.append(tail, drafts[0])]
        batch = self.log.append_batch(tail, drafts)
        ends = [*batch.physical_offsets[1:], batch.end]
        return [
            Appended(physical, batch.queue_offset + index, end, batch.store_timestamp)
            for index, (physical, end) in enumerate(zip(batch.physical_offsets, ends, strict=True))
        ]

    async def reached(self, end: int) -> None:
        """Return once the store promises everything below ``end``."""
        level = WRITTEN if self.options.mutant == "ack-before-sync" else self.options.level
        await self.log.reached(end, level)

    async def close(self) -> None:
        """End in order."""
        try:
            await self._running.close()
        finally:
            await self._end()

    async def abandon(self) -> None:
        """Let everything go as a dying process does."""
        await self.opened.presence.leave(in_order=False)
        self.opened.slot.close()
        self.opened.segments.close()
        await self._end()

    async def _end(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        await self._disk.close()
