"""A store on a directory of the real disk, opened the way a fault campaign needs it.

The options choose what a broker never chooses by hand: where syncs run, under which boot the store believes to be, and
defects planted on purpose, which a campaign must catch to be believed.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, Literal

from msgspec import Struct

from campaigns.drafts import append_batch
from firearrow.broker.state.state_file import StateFile
from firearrow.broker.tables.offset_rows import PATH, OffsetRows
from firearrow.broker.tables.offsets import OffsetTable
from firearrow.record.encode import Draft
from firearrow.runtime.clock import SystemClock
from firearrow.runtime.disk.door import Disk
from firearrow.runtime.disk.real_disk import RealDisk
from firearrow.runtime.disk.sync_choice import SyncChoice, SyncPlace
from firearrow.store.config import FlushMode, LogConfig
from firearrow.store.deletion import RetentionConfig
from firearrow.store.index.key_index import IndexConfig
from firearrow.store.placement import FLUSHED, WRITTEN, AppendPosition, Level
from firearrow.store.queue.table import QueueConfig
from firearrow.store.store import Store, StoreConfig
from firearrow.store.views.views import ViewsConfig

Mutant = Literal["", "ack-before-sync", "no-directory-sync"]
GROUP: Final = "readers"
NEVER_MS: Final = 600_000
"""An interval that no test lives to see: `settle` comes instead, where a run must be alike twice."""
DISPATCH_MS: Final = 50
NO_END: Final = 1 << 62
"""The end of a queue where offsets are to be seen as they are."""
RouteName = Literal["auto", "inline", "process", "thread"]


class Options(Struct, frozen=True, kw_only=True):
    """The settings with which a directory is opened."""

    root: str
    flush: FlushMode = "SYNC_FLUSH"
    segment_bytes: int = 16_384
    zero_fill: bool = True
    interval_ms: int = 20
    thorough_ms: int = 60
    dispatch_ms: int = DISPATCH_MS
    queue_file_bytes: int = 200
    index_slots: int = 16
    index_entries: int = 40
    verify_window: int = 64 << 20
    """The part of the log that a start checks again."""
    boot_id: str = "boot-0"
    route: RouteName = "inline"
    mutant: Mutant = ""
    deletes: bool = False
    """Whether log files may go as soon as they are full; else nothing is ever deleted."""
    quiet: bool = False
    """Whether nothing but the log is written while the store runs."""
    watched: bool = False
    """Whether the writer says when the log is synced and that its loop turns."""

    @property
    def level(self) -> Level:
        """The level that a send waits for."""
        return FLUSHED if self.flush == "SYNC_FLUSH" else WRITTEN

    def config(self) -> StoreConfig:
        """The settings of the store: small files, so that there are many."""
        log = LogConfig(
            mapped_file_size_commit_log=self.segment_bytes,
            flush_disk_type=self.flush,
            zero_fill_ahead=self.zero_fill,
            flush_interval_commit_log=self.interval_ms,
            flush_commit_log_thorough_interval=self.thorough_ms,
            verify_window_bytes=self.verify_window,
        )
        queues = QueueConfig(
            mapped_file_size_consume_queue=self.queue_file_bytes, dispatch_flush_interval=self.dispatch_ms
        )
        index = IndexConfig(max_hash_slot_num=self.index_slots, max_index_num=self.index_entries)
        # A small disk is soon full, and what is missing must be missing by accident: no level of use counts here.
        kept = RetentionConfig(
            file_reserved_time=0 if self.deletes else 72,
            clean_file_forcibly_enable=False,
            disk_space_warning_level_ratio=100,
            clean_resource_interval=NEVER_MS,
        )
        return StoreConfig(log=log, views=ViewsConfig(queues=queues, index=index), retention=kept)

    def disk(self, choice: SyncChoice | None = None) -> RealDisk:
        """The disk below the root; ``choice`` may look on where its syncs go."""
        if choice is None and self.route != "auto":
            choice = FixedChoice(SyncPlace(self.route))
        kind = CarelessDisk if self.mutant == "no-directory-sync" else RealDisk
        return kind(self.root, choice=choice)


class FixedChoice(SyncChoice):
    """Sends every sync the same way, so that runs are alike."""

    def __init__(self, route: SyncPlace) -> None:
        super().__init__()
        self._route = route

    def route(self, unsynced_bytes: int) -> SyncPlace:
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

    def __init__(self, options: Options, disk: RealDisk, store: Store) -> None:
        self.options = options
        self.disk = disk
        self.store = store
        self.log = store.log
        self.opened = store.opened
        self.read_to: dict[tuple[str, int], int] = {}
        """The offset after the last promised message of every queue."""
        self.offsets = OffsetTable()
        self.offset_file = offset_file(disk, self.offsets, self._all_flushed)
        self._task = asyncio.get_running_loop().create_task(store.run())

    @classmethod
    async def open(cls, options: Options, choice: SyncChoice | None = None) -> "Session":
        """Recover the store of a directory and run it."""
        disk = options.disk(choice)
        try:
            session = cls(options, disk, await Store.open(disk, SystemClock(), options.config(), options.boot_id))
            await session.offset_file.load()
        except BaseException:
            await disk.close()
            raise
        return session

    def append(self, drafts: Sequence[Draft]) -> list[AppendPosition]:
        """Append one message, or a batch of one queue."""
        if len(drafts) == 1:
            return [self.store.append(drafts[0])]
        batch = append_batch(self.store, drafts)
        ends = [*batch.physical_offsets[1:], batch.end]
        return [
            AppendPosition(physical, queue_offset, end, batch.store_timestamp)
            for physical, queue_offset, end in zip(batch.physical_offsets, batch.queue_offsets, ends, strict=True)
        ]

    async def reached(self, end: int) -> None:
        """Return once the store promises everything below ``end``."""
        level = WRITTEN if self.options.mutant == "ack-before-sync" else self.options.level
        await self.store.reached(end, level)

    async def settle(self) -> None:
        """Do now what the store does at intervals: flush queues, index and checkpoint, delete what may go."""
        await self.store.views.flush(self._flushed)
        if self.options.deletes:
            self.store.retention.delete_expired_now(1)
            await self.store.retention.round()

    async def _flushed(self, end: int) -> None:
        await self.store.reached(end, FLUSHED)

    async def commit(self) -> None:
        """Write down how far a group has read: everything that was promised so far."""
        for (topic, queue_id), offset in self.read_to.items():
            self.offsets.commit(GROUP, topic, queue_id, offset)
        await self.offset_file.save()

    async def _all_flushed(self) -> None:
        await self.store.reached(self.log.tail, FLUSHED)

    async def close(self) -> None:
        """End in order."""
        try:
            await self.offset_file.close()
            await self.store.close()
        finally:
            await self._stop()
            await self.disk.close()

    async def abandon(self) -> None:
        """Let everything go as a dying process does."""
        await self._stop()
        await self.opened.presence.leave(in_order=False)
        self.opened.slot.close()
        self.opened.segments.close()
        await self.disk.close()

    async def _stop(self) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)


def offset_file(disk: Disk, offsets: OffsetTable, settled: Callable[[], Awaitable[None]] | None = None) -> StateFile:
    """The file of offsets, as brokers keep it; a reader need not give the time of its writes."""
    rows = OffsetRows(offsets, lambda _topic, _queue_id: NO_END)
    return StateFile(disk, PATH, rows) if settled is None else StateFile(disk, PATH, rows, settled=settled)
