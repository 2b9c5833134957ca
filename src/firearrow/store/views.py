"""Queues, index and checkpoint as one: opened together, flushed together, resumed from one place.

`durable` is where a start after a crash begins to read the log again. It moves in this order and no other: the log is
flushed up to a place; the queues and the index of everything below it are synced; the checkpoint says so to Apache; the
journal says so to us. Wiring and order only; what is done is done elsewhere.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from datetime import UTC, tzinfo
from typing import Final

from msgspec import Struct, field

from firearrow.errors import DiskError, ResourceShortage, StoreFenced, SyncFailed
from firearrow.model.delays import DEFAULT_DELAY_LEVELS, parse_delay_levels
from firearrow.runtime.clock import Clock
from firearrow.runtime.disk import Disk
from firearrow.store import indexload, queueload
from firearrow.store.checkpoint import Checkpoint, read_checkpoint, write_checkpoint
from firearrow.store.dispatch import Dispatch
from firearrow.store.index import Index, IndexConfig
from firearrow.store.indexfile import Shape
from firearrow.store.lives import Lives
from firearrow.store.opening import OpenedLog
from firearrow.store.pacing import Pace
from firearrow.store.placement import QueueTail
from firearrow.store.pressure import Pressure
from firearrow.store.queues import QueueConfig, Queues
from firearrow.store.recovery import known_from_apache
from firearrow.store.rescan import apart, last_lives, rows_again
from firearrow.store.snapshot import Snapshot, Standing, ViewsJournal, read_journal

LOST: Final = (SyncFailed, StoreFenced)
"""What was unsynced is lost, and only a start makes it again from the log. After other failures a flush is repeated."""

STALLED_SECONDS: Final = 1.0
"""How soon a flush is tried again that found no space or no descriptors."""
_ROWS_AT_ONCE: Final = 1000

logger = logging.getLogger(__name__)


class ViewsConfig(Struct, frozen=True, kw_only=True):
    """Everything that is built behind the log."""

    queues: QueueConfig = field(default_factory=QueueConfig)
    index: IndexConfig = field(default_factory=IndexConfig)
    delays_ms: tuple[int, ...] = parse_delay_levels(DEFAULT_DELAY_LEVELS)


class Views:
    """What makes messages findable."""

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
        """Everything below is in the queues and the index, on disk."""
        self._queues_from = 0  # the log must be read again from here for the queues, from `durable` for the index too
        self._missing: frozenset[queueload.Name] = frozenset()  # queues that need what lies before it as well
        self._reached: dict[QueueTail, int] = {}  # where the log ends for a queue that has more than the others
        self.interval_ms = config.queues.dispatch_flush_interval
        self._disk = disk
        self._checkpoint = checkpoint
        self._journal = journal
        self._one_at_a_time = asyncio.Lock()
        self._pressure = Pressure(
            lambda: self.waiting_bytes, config.queues.max_pending_queue_bytes, self.dispatch.views
        )
        self._has_deleted = False  # the snapshot names queues that are gone

    # ---- opening

    @classmethod
    async def open(
        cls, disk: Disk, clock: Clock, config: ViewsConfig, opened: OpenedLog, *, zone: tzinfo = UTC
    ) -> "Views":
        """Bring queues and index to a state that the log from `durable` on completes. `catch_up` must follow."""
        checkpoint, checkpoint_crc = await read_checkpoint(disk)
        journal, snapshot = await read_journal(disk)
        if snapshot is not None and not _is_ours(opened, snapshot, checkpoint_crc):
            snapshot = None
        known = snapshot.standing if snapshot else None
        file_bytes = known.queue_file_bytes if known else await queueload.found_file_bytes(disk)
        shape = Shape(config.index.max_hash_slot_num, config.index.max_index_num)
        if known is not None and known.index is not None:
            shape = Shape(known.index_slots, known.index_entries)
        index = Index(disk, clock, shape, zone) if config.index.message_index_enable else None
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
            await self.queues.cut(end)
        resume = self._queues_from = known.durable
        self.dispatch.last_store_ms = known.store_ms
        if self.index is not None:
            state = known.index if known.durable <= end else None
            # Without an index at the last run there is nothing that a crash could have left half done.
            in_order = in_order or known.index_slots == 0
            entered = min(known.durable, end) if state is not None or known.index is None else 0
            resume = min(resume, await indexload.load_known(self.index, state, entered, in_order=in_order))
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
        # From here on a crash finds a snapshot, and need not look at every file again.
        self._begin_flush(self.durable)
        await self._flush_to(self.durable, self.dispatch.last_store_ms, closed=False)

    async def catch_up(self, opened: OpenedLog) -> None:
        """Bring what the log holds from `durable` to its end to every view."""
        end = opened.recovered.end
        pace = Pace(_ROWS_AT_ONCE)
        queues_from = min(max(self._queues_from, self.durable), end)
        if self.index is not None:
            # The queues have what they shall have of these, and of a topic that was deleted since they have nothing.
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
            self.dispatch.tell(rows)
            await pace.did(len(rows))
        self._reached = {}
        self.dispatch.position = end
        self.queues.settle()

    # ---- flushing

    async def flush(self, log_flushed: Callable[[int], Awaitable[None]], *, closed: bool = False) -> None:
        """Move `durable` to where dispatch is now. ``log_flushed`` returns once the log is durable up to a place."""
        async with self._one_at_a_time:
            if self.index is not None:
                await self.index.absorb_in_turns()
            position, store_ms = self.dispatch.position, self.dispatch.last_store_ms
            if position == self.durable and not closed and not self._has_deleted:
                return
            self._begin_flush(position)
            await log_flushed(position)
            await self._flush_to(position, store_ms, closed=closed)

    def _begin_flush(self, position: int) -> None:
        self.queues.begin_flush(position)
        if self.index is not None:
            self.index.begin_flush()

    async def _flush_to(self, position: int, store_ms: int, *, closed: bool) -> None:
        await self.queues.flush()
        if self.index is not None:
            await self.index.flush()
        checkpoint_crc = await self._write_checkpoint(store_ms)
        deleted, changed = self.queues.take_changes()
        queues = self.queues.in_turns() if self._journal.wants_all else changed
        standing = self._standing(position, store_ms, checkpoint_crc, closed=closed)
        await self._journal.write(standing, deleted, queues)
        self.durable = position
        self._has_deleted = False

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

    def _standing(self, position: int, store_ms: int, checkpoint_crc: int, *, closed: bool) -> Standing:
        index = self.index
        return Standing(
            durable=position,
            store_ms=store_ms,
            closed=closed,
            checkpoint_crc=checkpoint_crc,
            queue_file_bytes=self.queues.files.file_bytes,
            index_slots=index.shape.slots if index else 0,
            index_entries=index.shape.entries if index else 0,
            index=index.state if index else None,
        )

    async def delete_topics(self, topics: Iterable[str]) -> int:
        """Forget the queues of topics; return how many there were. Durable after the next flush."""
        async with self._one_at_a_time:
            deleted = 0
            for topic in topics:
                self._has_deleted = True
                deleted += await self.queues.delete_topic(topic)
            return deleted

    async def run(self, log_flushed: Callable[[int], Awaitable[None]]) -> None:
        """Flush at intervals, and soon again after one that could not be, until cancelled."""
        pressure = self._pressure
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
        """What queues and index hold in memory because it is not written yet."""
        return self.queues.pending_bytes + (self.index.waiting_bytes if self.index is not None else 0)

    @property
    def refusal(self) -> ResourceShortage | None:
        """Why no message should be taken: what leads to it cannot be written, and too much of it waits in memory."""
        return self._pressure.refusal

    def close(self) -> None:
        """Give up every file; `flush` must have come before."""
        self.queues.close()
        if self.index is not None:
            self.index.close()
        self._journal.close()


def _is_ours(opened: OpenedLog, snapshot: Snapshot, checkpoint_crc: int) -> bool:
    """Whether nobody else changed queues or index since the snapshot was taken."""
    slot = opened.slot.found
    if slot is None or opened.others or opened.presence.died_elsewhere:
        return False
    if slot.closed:
        return snapshot.standing.closed and snapshot.standing.checkpoint_crc == checkpoint_crc
    return opened.died
