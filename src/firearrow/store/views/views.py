"""The views: queues, index and checkpoint, opened together, flushed together, resumed from one offset.

A start after a crash dispatches the log again from `durable`. That offset advances in this order and no other: the log
is flushed up to an offset; the queues and the index of all records below are synced; the checkpoint is written for
Apache; the journal is written for us. Wiring and order only.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from datetime import UTC, tzinfo
from typing import Final

from msgspec import Struct, field

from firearrow.errors import DiskError, StoreFenced, SyncFailed
from firearrow.model.delays import DEFAULT_DELAY_LEVELS, parse_delay_levels
from firearrow.runtime.clock import Clock
from firearrow.runtime.disk.door import Disk
from firearrow.runtime.turn import Pace
from firearrow.store.dispatch import Dispatch
from firearrow.store.index import load as indexload
from firearrow.store.index.files import IndexFiles
from firearrow.store.index.key_index import Index, IndexConfig
from firearrow.store.index.layout import Shape
from firearrow.store.placement import QueueTail
from firearrow.store.queue.consume_queue import ConsumeQueue
from firearrow.store.queue.table import QueueConfig, Queues
from firearrow.store.recovery.open_log import OpenedLog
from firearrow.store.recovery.recover import known_from_apache
from firearrow.store.recovery.rescan import apart, last_lives, rows_again
from firearrow.store.views import queue_load as queueload
from firearrow.store.views.checkpoint import Checkpoint, read_checkpoint, write_checkpoint
from firearrow.store.views.pressure import Pressure
from firearrow.store.views.snapshot import Snapshot, ViewsJournal, ViewsState, read_journal
from firearrow.store.views.topic_lives import Lives

LOST: Final = (SyncFailed, StoreFenced)
"""Errors after which unsynced bytes are lost until the next start. After other errors a flush is repeated."""

STALLED_SECONDS: Final = 1.0
"""Seconds until a flush that found no space or no descriptors is tried again."""
_ROWS_AT_ONCE: Final = 1000

logger = logging.getLogger(__name__)


class ViewsConfig(Struct, frozen=True, kw_only=True):
    """The settings of queues and index."""

    queues: QueueConfig = field(default_factory=QueueConfig)
    index: IndexConfig = field(default_factory=IndexConfig)
    delays_ms: tuple[int, ...] = parse_delay_levels(DEFAULT_DELAY_LEVELS)


class Views:
    """The queues, the index and the checkpoint of a store."""

    def __init__(
        self,
        disk: Disk,
        config: ViewsConfig,
        queues: Queues,
        index: Index | None,
        checkpoint: Checkpoint,
        journal: ViewsJournal,
    ) -> None:
        self.queues = queues
        self.index = index
        self.dispatch = Dispatch(queues, index, config.delays_ms)
        self.durable = 0
        """All records below are in the queues and the index, on disk."""
        self._queues_from = 0  # rows from here on go to the queues again, from `durable` on to the index too
        self._missing: frozenset[queueload.Name] = frozenset()  # queues that need earlier rows as well
        self._reached: dict[QueueTail, int] = {}  # the end of the last record of each queue that is ahead
        self.interval_ms = config.queues.dispatch_flush_interval
        self._disk = disk
        self._checkpoint = checkpoint
        self._journal = journal
        self._one_at_a_time = asyncio.Lock()
        self.pressure = Pressure(lambda: self.waiting_bytes, config.queues.max_pending_queue_bytes, self.dispatch.views)
        self.has_deleted = False  # the snapshot holds queues that are deleted

    # ---- opening

    @classmethod
    async def open(
        cls, disk: Disk, clock: Clock, config: ViewsConfig, opened: OpenedLog, *, zone: tzinfo = UTC
    ) -> "Views":
        """Load queues and index in a state that the log from `durable` on completes. `catch_up` must follow."""
        checkpoint, checkpoint_crc = await read_checkpoint(disk)
        journal, snapshot = await read_journal(disk)
        if snapshot is not None and not _is_ours(opened, snapshot, checkpoint_crc):
            snapshot = None
        known = snapshot.standing if snapshot else None
        file_bytes = known.queue_file_bytes if known else await queueload.found_file_bytes(disk)
        shape = Shape(config.index.max_hash_slot_num, config.index.max_index_num)
        if known is not None and known.index is not None:
            shape = Shape(known.index_slots, known.index_entries)
        index = Index(IndexFiles(disk, clock, shape, zone)) if config.index.message_index_enable else None
        views = cls(disk, config, Queues(disk, config.queues, file_bytes), index, checkpoint, journal)
        if snapshot is None:
            await views._load_found(opened)
        else:
            await views._load_known(opened, snapshot)
        views.dispatch.position = views.durable
        return views

    async def _load_known(self, opened: OpenedLog, snapshot: Snapshot) -> None:
        end, known = opened.recovered.end, snapshot.standing
        in_order = known.closed and known.durable == end and not opened.died
        if not in_order or not await queueload.load_trusted(self.queues, snapshot):
            self._missing = await queueload.load_cut(self.queues, snapshot)
        if known.durable > end:
            # The queue of a topic that was deleted and created again behind the end has its earlier life again.
            emptied = await self.queues.cut(end)
            self._missing |= {(queue.topic, queue.queue_id) for queue in emptied}
        resume = self._queues_from = known.durable
        self.dispatch.last_store_ms = known.store_ms
        if self.index is not None:
            # Without an index in the last run, a crash cannot have left an incomplete one.
            in_order = in_order or known.index_slots == 0
            if known.durable <= end:
                entered = await indexload.load_known(self.index, known.index, known.durable, in_order=in_order)
            else:
                entered = await indexload.load_below(self.index, known.index, end)
            resume = min(resume, entered)
        self.durable = min(max(resume, opened.segments.min_offset), end)

    async def _load_found(self, opened: OpenedLog) -> None:
        end = opened.recovered.end
        believed = None
        if opened.died:
            known = await known_from_apache(
                opened.segments, opened.scanner, died=True, checkpoint_ms=self._checkpoint.safe_ms
            )
            believed = known.start
        resume, reached = await queueload.load_found(self.queues, opened.segments, believed, end)
        self._queues_from, self._reached = resume, {queue: at for queue, at in reached.items() if at > resume}
        if self.index is not None:
            resume = min(resume, await indexload.load_found(self.index, believed, end))
        self.durable = self.dispatch.position = min(max(resume, opened.segments.min_offset), end)
        # After a crash from here on, the next start finds a snapshot and need not read every file again.
        self._begin_flush(self.durable)
        await self._flush_to(self.durable, self.dispatch.last_store_ms, closed=False)

    async def catch_up(self, opened: OpenedLog) -> None:
        """Dispatch the log from `durable` to its end to every view."""
        end = opened.recovered.end
        pace = Pace(_ROWS_AT_ONCE)
        queues_from = min(max(self._queues_from, self.durable), end)
        if self.index is not None:
            # The queues have these rows already, but for topics that were deleted since and must stay empty.
            async for rows in rows_again(opened, self.durable, queues_from, apart()):
                self.index.put(rows)
                await pace.did(len(rows))
        if self._missing:
            async for rows in last_lives(opened, queues_from, self._missing, self.queues.tail_of):
                self.dispatch.enter_queues(rows)
                await pace.did(len(rows))
        lives = Lives(self.queues, self.dispatch, opened.damage, self._reached)
        async for rows in rows_again(opened, queues_from, end, self.queues.tail_of):
            await lives.enter(rows)
            self.dispatch(rows, are_in_queues=True)
            await pace.did(len(rows))
        self._reached = {}
        self.dispatch.position = end
        self.queues.settle()

    # ---- flushing

    async def flush(self, log_flushed: Callable[[int], Awaitable[None]], *, closed: bool = False) -> None:
        """Advance `durable` to the position of dispatch. ``log_flushed`` waits until the log is flushed so far."""
        async with self._one_at_a_time:
            if self.index is not None:
                await self.index.absorb_in_turns()
            position, store_ms = self.dispatch.position, self.dispatch.last_store_ms
            if position == self.durable and not closed and not self.has_deleted:
                return
            self._begin_flush(position)
            await log_flushed(position)
            await self._flush_to(position, store_ms, closed=closed)

    async def flush_after_cut(self) -> None:
        """Write the snapshot although nothing was dispatched: the one on disk is that of the log before its cut."""
        async with self._one_at_a_time:
            self._begin_flush(self.dispatch.position)
            await self._flush_to(self.dispatch.position, self.dispatch.last_store_ms, closed=False)

    def _begin_flush(self, position: int) -> None:
        self.queues.writer.begin_flush(position)
        if self.index is not None:
            self.index.begin_flush()

    async def _flush_to(self, position: int, store_ms: int, *, closed: bool) -> None:
        await self.queues.writer.flush()
        if self.index is not None:
            await self.index.flush()
        checkpoint_crc = await self._write_checkpoint(store_ms)
        deleted, changed = self.queues.take_changes()
        queues = self.queues.in_turns() if self._journal.wants_all else changed
        standing = self._standing(position, store_ms, checkpoint_crc, closed=closed)
        await self._journal.write(standing, deleted, queues)
        self.durable = position
        self.has_deleted = False

    async def _write_checkpoint(self, store_ms: int) -> int:
        old = self._checkpoint
        state = self.index.state if self.index is not None else None
        self._checkpoint = Checkpoint(
            log_ms=max(store_ms, old.log_ms),
            queues_ms=max(store_ms, old.queues_ms),
            index_ms=max(state.header.end_ms if state else 0, old.index_ms),
            master_flushed=old.master_flushed,
            confirmed=old.confirmed,
        )
        return await write_checkpoint(self._disk, self._checkpoint)

    def _standing(self, position: int, store_ms: int, checkpoint_crc: int, *, closed: bool) -> ViewsState:
        index = self.index
        return ViewsState(
            durable=position,
            store_ms=store_ms,
            closed=closed,
            checkpoint_crc=checkpoint_crc,
            queue_file_bytes=self.queues.files.file_bytes,
            index_slots=index.files.shape.slots if index else 0,
            index_entries=index.files.shape.entries if index else 0,
            index=index.state if index else None,
        )

    async def delete_topics(self, topics: Iterable[str], ended: Callable[[str], None]) -> int:
        """Delete the queues of topics; return how many there were. Durable after the next flush.

        ``ended`` is called in the turn in which the queues of a topic leave the table: what is appended to the topic
        from then on belongs to its next life.
        """
        async with self._one_at_a_time:
            deleted = 0
            for topic in topics:
                self.has_deleted = True
                ended(topic)
                deleted += await self.queues.delete_topic(topic)
            return deleted

    async def end_life(self, topic: str, end: int) -> None:
        """Delete the queues of a topic that end below a physical offset. Durable after the next flush."""
        async with self._one_at_a_time:
            if self.queues.has_over(topic, end):
                self.has_deleted = True
                await self.queues.end_life(topic, end)

    async def begin_anew(self, queue: ConsumeQueue, physical: int) -> None:
        """Empty a queue whose topic was deleted and created again, with a first record at an offset of the log."""
        async with self._one_at_a_time:
            await self.queues.begin_anew(queue, physical)

    async def run(self, log_flushed: Callable[[int], Awaitable[None]]) -> None:
        """Flush at intervals, and sooner after a failed flush, until cancelled."""
        pressure = self.pressure
        while True:
            interval_s = self.interval_ms / 1000
            await asyncio.sleep(interval_s if pressure.stalled is None else min(interval_s, STALLED_SECONDS))
            try:
                await self.flush(log_flushed)
            except LOST:
                raise
            except DiskError as error:
                pressure.flush_failed(error)
            else:
                pressure.flush_ended()

    @property
    def waiting_bytes(self) -> int:
        """Bytes of queues and index that wait in memory to be written."""
        return self.queues.writer.pending_bytes + (self.index.waiting_bytes if self.index is not None else 0)

    def close(self) -> None:
        """Close every file; `flush` must have been called before."""
        self.queues.close()
        if self.index is not None:
            self.index.files.close()
        self._journal.close()


def _is_ours(opened: OpenedLog, snapshot: Snapshot, checkpoint_crc: int) -> bool:
    """Whether no other program changed queues or index since the snapshot was taken."""
    slot = opened.slot.found
    if slot is None or opened.is_foreign or opened.presence.died_elsewhere:
        return False
    if slot.closed:
        return snapshot.standing.closed and snapshot.standing.checkpoint_crc == checkpoint_crc
    return opened.died
