"""The store as a broker sees it. Wiring only: it builds the parts, connects them, starts and ends them in order.

Opening: the log is recovered; queues and index are loaded and cut to it; what they miss is read from the log again;
then appends are taken. Closing is the reverse, and only when all of it went well does the directory say so. `run` must
be a task of the owner's while the store is open.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, tzinfo
from typing import Final

from msgspec import Struct, field

from firearrow.errors import DiskError
from firearrow.record.encode import Draft
from firearrow.runtime.clock import Clock
from firearrow.runtime.disk import Disk
from firearrow.store.config import LogConfig
from firearrow.store.lookups import Lookups
from firearrow.store.opening import OpenedLog, open_log
from firearrow.store.placement import FLUSHED, Appended, AppendedBatch, Level
from firearrow.store.pulling import Pull, Pulled, QueueReader
from firearrow.store.retention import Offsets, Retention, RetentionConfig
from firearrow.store.running import RunningLog
from firearrow.store.scrub import Scrub, ScrubConfig
from firearrow.store.views import Views, ViewsConfig
from firearrow.store.waiting import Told

DAMAGE_KEPT_SECONDS: Final = 1.0

logger = logging.getLogger(__name__)


class StoreConfig(Struct, frozen=True, kw_only=True):
    """Everything the store can be told."""

    log: LogConfig = field(default_factory=LogConfig)
    views: ViewsConfig = field(default_factory=ViewsConfig)
    retention: RetentionConfig = field(default_factory=RetentionConfig)
    scrub: ScrubConfig = field(default_factory=ScrubConfig)


class Store:
    """Messages, kept and found."""

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
    ) -> None:
        self.opened = opened
        self.views = views
        self.queues = views.queues
        self._running = RunningLog(
            disk, clock, config.log, opened, views.dispatch, last_store_ms=views.dispatch.last_store_ms
        )
        self.log = self._running.log
        self.lookups = Lookups(self.log, views.queues, views.index, opened)
        self.retention = Retention(disk, clock, config.retention, self.log, opened, views, zone=zone, offsets=offsets)
        self.scrub = Scrub(self.log, opened, config.scrub)
        self._reader = QueueReader(self.log, views.queues, opened, config.views.delays_ms)
        self._errands: list[asyncio.Task[None]] = []
        self._stopped = False

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
    ) -> "Store":
        """Recover the store of a directory, or begin one.

        ``zone`` is where the hours of ``deleteWhen`` count and after which index files are named, as Apache names them;
        ``offsets`` says what groups have read, for warnings.
        """
        opened = await open_log(disk, clock, config.log, boot_id)
        try:
            views = await Views.open(disk, clock, config.views, opened, zone=zone)
            await views.catch_up(opened)
            await opened.damage.keep(opened.segments)
        except BaseException:
            opened.segments.close()
            await opened.presence.leave(in_order=False)
            raise
        return cls(disk, clock, config, opened, views, zone=zone, offsets=offsets)

    async def run(self) -> None:
        """Flush, prepare and tidy until `close` or cancellation."""
        if self._stopped:
            return
        errands = (self._flush_views, self._keep_damage, self.retention.run, self.scrub.run)
        async with asyncio.TaskGroup() as group:
            group.create_task(self._running.run())
            self._errands = [group.create_task(errand()) for errand in errands]

    async def _flush_views(self) -> None:
        try:
            await self.views.run(self._log_flushed)
        except DiskError as error:
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
        """End in order; raise when something could not be made durable."""
        self._stopped = True
        for task in self._errands:
            task.cancel()
        await asyncio.gather(*self._errands, return_exceptions=True)
        try:
            await self._running.close(self._finish_views)
        finally:
            self.views.close()

    async def _finish_views(self) -> None:
        await self.views.flush(self._log_flushed, closed=True)

    # ---- writing

    def append(self, draft: Draft) -> Appended:
        """Give a message its place. Promise nothing before its end is `reached`."""
        if self.retention.refusal is not None:
            raise self.retention.refusal
        return self.log.append(self.queues.tail_of(draft.topic, draft.queue_id), draft)

    def append_batch(self, drafts: Sequence[Draft]) -> AppendedBatch:
        """Give messages of one queue places side by side: all or none."""
        if self.retention.refusal is not None:
            raise self.retention.refusal
        return self.log.append_batch(self.queues.tail_of(drafts[0].topic, drafts[0].queue_id), drafts)

    def on_reached(self, offset: int, level: Level, call: Told) -> None:
        """Call once everything below ``offset`` is written or flushed, or with the error that prevents it."""
        self.log.on_reached(offset, level, call)

    async def reached(self, offset: int, level: Level) -> None:
        """Return once everything below ``offset`` is written or flushed."""
        await self.log.reached(offset, level)

    # ---- reading

    def read_hot(self, topic: str, queue_id: int, pull: Pull) -> Pulled | None:
        """Read a queue without waiting; None when `read` must be asked."""
        return self._reader.read_hot(topic, queue_id, pull)

    async def read(
        self, topic: str, queue_id: int, pull: Pull, *, far: Pull | None = None, near_bytes: int = 0
    ) -> Pulled:
        """Read a queue: buffers of the log. ``far`` is asked instead where what is read must come from the device and
        lies more than ``near_bytes`` before the log's end."""
        return await self._reader.read(topic, queue_id, pull, far=far, near_bytes=near_bytes)

    def min_offset(self, topic: str, queue_id: int) -> int:
        """The oldest message of a queue that is left; its end when none is; 0 without such a queue."""
        queue = self.queues.find(topic, queue_id)
        return 0 if queue is None else self.queues.min_offset(queue, self.log.min_offset)

    def max_offset(self, topic: str, queue_id: int) -> int:
        """The offset after the last message of a queue that can be read; 0 without such a queue."""
        queue = self.queues.find(topic, queue_id)
        return 0 if queue is None else queue.max_offset

    async def delete_topics(self, topics: Iterable[str]) -> int:
        """Forget the queues of topics, durably; return how many there were. Their messages stay in the log a while.

        Whoever deletes takes no messages for them meanwhile. Raises when a crash could still bring them back; the next
        flush of the views makes it durable then.
        """
        deleted = await self.views.delete_topics(topics)
        # What was appended before and is in no queue yet would be brought to its queue again by a start after a crash.
        await self._log_flushed(self.log.tail)
        await self.views.flush(self._log_flushed)
        return deleted

    def read_from(self, physical: int, max_bytes: int) -> bytes:
        """Read the log as it lies, for whoever copies it."""
        return self.log.read_from(physical, max_bytes)

    def on_growth(self, call: Callable[[], None]) -> None:
        """Call once when the log has grown: the tail signal."""
        self.log.on_growth(call)
