"""The store as a broker sees it. Wiring only: it builds and connects the parts, starts and ends them in order.

Opening: the log is recovered; queues and index are loaded and cut to its end; missing rows are dispatched again; then
appends are accepted. Closing is the reverse; the directory is marked as closed only when every step succeeded. The
owner must run `run` as a task while the store is open.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterable, Mapping
from datetime import UTC, tzinfo
from typing import Any, Final

from msgspec import Struct, field

from firearrow.errors import BadRecord, DiskError
from firearrow.record.encode import Draft
from firearrow.runtime.clock import Clock
from firearrow.runtime.disk.door import Disk
from firearrow.runtime.turn import Share, counted
from firearrow.store.config import LogConfig
from firearrow.store.copy_dispatch import CopyDispatch
from firearrow.store.deletion import RetentionConfig
from firearrow.store.lake_topics import LakeTopic
from firearrow.store.log.block_sums import BlockSums
from firearrow.store.log.waiters import OnReached
from firearrow.store.log_copy import LogCopy
from firearrow.store.mend import Mend
from firearrow.store.placement import FLUSHED, AppendPosition, Level
from firearrow.store.read.log_bytes import LogBytes
from firearrow.store.read.lookup import Lookups
from firearrow.store.read.queue_reader import QueueReader, ReadRequest, ReadResult
from firearrow.store.recovery.open_log import OpenedLog, open_log
from firearrow.store.recovery.scrub import Scrub, ScrubConfig
from firearrow.store.retention import Offsets, Retention
from firearrow.store.running_log import RunningLog
from firearrow.store.views.views import Views, ViewsConfig
from firearrow.telemetry.metrics import Histogram

DAMAGE_KEPT_SECONDS: Final = 1.0

logger = logging.getLogger(__name__)


class StoreConfig(Struct, frozen=True, kw_only=True):
    """All settings of the store."""

    log: LogConfig = field(default_factory=LogConfig)
    views: ViewsConfig = field(default_factory=ViewsConfig)
    retention: RetentionConfig = field(default_factory=RetentionConfig)
    scrub: ScrubConfig = field(default_factory=ScrubConfig)


class Store:
    """The messages of one directory: append, read, look up."""

    def __init__(
        self,
        disk: Disk,
        clock: Clock,
        config: StoreConfig,
        opened: OpenedLog,
        views: Views,
        *,
        zone: tzinfo = UTC,
        offsets: Callable[[], Offsets] = tuple,
        lake_topics: Callable[[], Mapping[str, LakeTopic] | None] = dict,
        is_copy: bool = False,
    ) -> None:
        self.opened = opened
        self.replica = opened.replica
        self.views = views
        self.queues = views.queues
        self._running = RunningLog(
            disk, clock, config.log, opened, views.dispatch, last_store_ms=views.dispatch.last_store_ms
        )
        self.log = self._running.log
        self.copy = LogCopy(self._running, views)
        self._copy_dispatch = CopyDispatch(self.log, opened.segments, views) if is_copy else None
        self.bytes = LogBytes(self.log, opened.segments)
        self.lookups = Lookups(self.log, views.queues, views.index, opened)
        self.retention = Retention(
            disk,
            clock,
            config.retention,
            self.log,
            opened,
            views,
            zone=zone,
            offsets=offsets,
            lake_topics=lake_topics,
            is_copy=is_copy,
        )
        self.sums = BlockSums(disk, opened.segments, self.log)
        self.scrub = Scrub(self.log, opened, config.scrub, self.sums)
        self.mend = Mend(self.log, opened, views.queues, config.views.delays_ms)
        self._reader = QueueReader(self.log, views.queues, opened, config.views.delays_ms, self.sums)
        self._tasks: list[asyncio.Task[None]] = []
        self._stopped = False

    @property
    def trouble(self) -> DiskError | None:
        """The reason to refuse messages, now or as soon as the present log file is full; None while all is well."""
        return self.log.fenced or self.retention.refusal or self._running.shortage

    @classmethod
    async def open(
        cls,
        disk: Disk,
        clock: Clock,
        config: StoreConfig,
        boot_id: str,
        *,
        zone: tzinfo = UTC,
        offsets: Callable[[], Offsets] = tuple,
        lake_topics: Callable[[], Mapping[str, LakeTopic] | None] = dict,
        is_copy: bool = False,
    ) -> "Store":
        """Recover the store of a directory, or create it.

        ``zone`` is the time zone of ``deleteWhen`` and, as in Apache's store, of the names of index files; ``offsets``
        returns the committed offsets of groups, for warnings; ``lake_topics`` the topics that are kept for a lake, None
        while they are not known yet. A store that ``is_copy`` gets its records from another
        broker's log, through `copy`.
        """
        opened = await open_log(disk, clock, config.log, boot_id, is_copy=is_copy)
        try:
            views = await Views.open(disk, clock, config.views, opened, zone=zone)
            await views.catch_up(opened)
            await opened.damage.keep(opened.segments)
        except BaseException:
            opened.segments.close()
            await opened.presence.leave(in_order=False)
            raise
        return cls(
            disk,
            clock,
            config,
            opened,
            views,
            zone=zone,
            offsets=offsets,
            lake_topics=lake_topics,
            is_copy=is_copy,
        )

    async def finish_cut(self) -> None:
        """End a cut that the log owed. The caller has lowered, durably, everything of its own that was ahead of it."""
        if self.replica.cut.offset is not None:
            await self.views.flush_after_cut()
            await self.replica.cut.paid()

    def configure(self, log: LogConfig, retention: RetentionConfig) -> None:
        """Sync and delete by other settings from now on; sizes of files stay."""
        self._running.configure(log)
        self.retention.configure(retention)

    async def run(self) -> None:
        """Flush, prepare segments and delete old files until `close` or cancellation."""
        if self._stopped:
            return
        tasks = [self._flush_views, self._keep_damage, self.retention.run, self._scrub, self._sum_up]
        if self._copy_dispatch is not None:
            tasks.append(self._dispatch_copy)
        async with asyncio.TaskGroup() as group:
            group.create_task(self._running.run())
            self._tasks = [group.create_task(task()) for task in tasks]

    def _scrub(self) -> Coroutine[Any, Any, None]:
        return counted(Share.BACKGROUND, self.scrub.run())

    def _sum_up(self) -> Coroutine[Any, Any, None]:
        return counted(Share.BACKGROUND, self.sums.run())

    async def _flush_views(self) -> None:
        try:
            await self.views.run(self._log_flushed)
        except DiskError as error:
            self.log.fence(error)

    async def _dispatch_copy(self) -> None:
        assert self._copy_dispatch is not None
        try:
            await self._copy_dispatch.run()
        except (DiskError, BadRecord) as error:
            self.log.fence(error)

    async def _keep_damage(self) -> None:
        while True:
            await asyncio.sleep(DAMAGE_KEPT_SECONDS)
            try:
                await self.opened.damage.keep(self.opened.segments)
            except DiskError as error:
                logger.warning("damage could not be recorded", extra={"reason": str(error)})

    async def _log_flushed(self, offset: int) -> None:
        await self.log.reached(offset, FLUSHED)

    async def close(self) -> None:
        """End in order; raise when a part could not be made durable."""
        self._stopped = True
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        try:
            await self._running.close(self._finish_views)
        finally:
            self.views.close()

    async def _finish_views(self) -> None:
        await self.views.flush(self._log_flushed, closed=True)

    @property
    def sync_seconds(self) -> Histogram:
        """The durations of syncs of the log."""
        return self._running.flusher.seconds

    # ---- writing

    def append(self, draft: Draft) -> AppendPosition:
        """Append a message. It is not safe before its end is `reached`."""
        if self.retention.refusal is not None:
            raise self.retention.refusal
        return self.log.append(self.queues.tail_of(draft.topic, draft.queue_id), draft)

    def on_reached(self, offset: int, level: Level, call: OnReached) -> None:
        """Call ``call`` once everything below ``offset`` is written or flushed, or with the error that prevents it."""
        self.log.on_reached(offset, level, call)

    async def reached(self, offset: int, level: Level) -> None:
        """Return once everything below ``offset`` is written or flushed."""
        await self.log.reached(offset, level)

    async def dispatched(self, offset: int) -> None:
        """Return once the queues of a copy have every record below ``offset``."""
        assert self._copy_dispatch is not None, "the store of a master dispatches what it appends"
        await self._copy_dispatch.reached(offset)

    # ---- reading

    def read_hot(self, topic: str, queue_id: int, request: ReadRequest) -> ReadResult | None:
        """Read a queue without waiting; None when `read` is needed."""
        return self._reader.read_hot(topic, queue_id, request)

    async def read(
        self, topic: str, queue_id: int, request: ReadRequest, *, far: ReadRequest | None = None, near_bytes: int = 0
    ) -> ReadResult:
        """Read a queue: buffers of the log. ``far`` replaces ``request`` when the records must be read from the device
        and lie more than ``near_bytes`` before the log's end."""
        return await self._reader.read(topic, queue_id, request, far=far, near_bytes=near_bytes)

    def min_offset(self, topic: str, queue_id: int) -> int:
        """The offset of the oldest message of a queue; the queue's end when it has none; 0 without such a queue."""
        queue = self.queues.find(topic, queue_id)
        return 0 if queue is None else self.queues.min_offset(queue, self.log.min_offset)

    def max_offset(self, topic: str, queue_id: int) -> int:
        """The offset after the last readable message of a queue; 0 without such a queue."""
        queue = self.queues.find(topic, queue_id)
        return 0 if queue is None else queue.max_offset

    async def delete_topics(
        self,
        topics: Iterable[str],
        ended: Callable[[str, int], None] = lambda _topic, _end: None,
        are_over: Callable[[str], bool] = lambda _topic: True,
    ) -> int:
        """Delete the queues of topics, durably; return how many there were. Their records stay in the log for a while.

        ``are_over`` decides about each topic, and ``ended`` is told where in the log its life ends, in the turn in
        which its queues leave the table. Raises when a crash could still bring the queues back; the next flush of the
        views makes the deletion durable then.
        """
        over = (topic for topic in topics if are_over(topic))
        deleted = await self.views.delete_topics(over, lambda topic: ended(topic, self.log.tail))
        # After a crash, rows that were appended before and are in no queue yet would be dispatched to the queue again.
        await self._log_flushed(self.log.tail)
        await self.views.flush(self._log_flushed)
        return deleted

    async def end_lives(self, ends: Mapping[str, int]) -> None:
        """Delete, durably, the queues of topics whose records all lie below an offset of the log, given by topic."""
        for topic, end in ends.items():
            await self.views.end_life(topic, end)
        if self.views.has_deleted:
            await self.views.flush(self._log_flushed)

    def read_from(self, physical: int, max_bytes: int) -> bytes:
        """Read raw bytes of the log, for copies of it."""
        return self.bytes.read_from(physical, max_bytes)

    def on_growth(self, call: Callable[[], None]) -> None:
        """Call ``call`` once, when the log has grown."""
        self.log.on_growth(call)
