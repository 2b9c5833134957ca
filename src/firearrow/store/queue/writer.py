"""Writes the entries of queues from memory to disk, and makes them durable.

Entries wait in memory, queue by queue, and are written in groups: when too many bytes wait, and at every flush. So a
queue with one message a minute costs a small write at each flush and no descriptor. Entries that are lost in a crash
are dispatched from the log again.
"""

from collections import OrderedDict
from collections.abc import Iterable
from contextlib import suppress
from itertools import chain
from typing import Final

from firearrow.errors import FileMissing, ResourceShortage
from firearrow.runtime.turn import Pace
from firearrow.store.queue.consume_queue import ENTRY_BYTES, ConsumeQueue, entries_below
from firearrow.store.queue.files import QueueFiles

SYNCED_EACH: Final = 32
"""The most queues that are synced one by one; for more, one sync of all files costs less."""
SLICE: Final = 32
"""Queues written or synced before the work yields to the loop."""
WALKED_AT_ONCE: Final = 1024
"""Queues visited before the work yields to the loop."""


class QueueWriter:
    """Writes and syncs the pending entries of all queues."""

    def __init__(self, files: QueueFiles, max_pending: int) -> None:
        self.pending_bytes = 0
        self.max_pending = max_pending
        self.fresh: OrderedDict[ConsumeQueue, None] = OrderedDict()
        """Queues with pending entries, oldest first."""
        self.changed: dict[ConsumeQueue, None] = {}
        """Queues whose files changed since the journal was last written."""
        self.synced_each = SYNCED_EACH
        self._files = files
        self._unsynced: dict[ConsumeQueue, int] = {}  # lowest entry written since the last sync
        self._doubted = False
        self._flush_number = 0
        self._flush_to = 0  # the running flush makes the entries of records below durable
        self._flushing: list[ConsumeQueue] = []
        self._synced_early: dict[ConsumeQueue, None] = {}

    def wait(self, queue: ConsumeQueue, entries: bytes) -> None:
        """Add entries to the pending ones of their queue."""
        if queue.pending is None:
            queue.pending = bytearray()
            self.fresh[queue] = None
        queue.pending += entries
        self.pending_bytes += len(entries)

    def relieve(self, most: int) -> None:
        """Write up to ``most`` queues, the oldest first, while too many bytes wait; none while the disk is full."""
        with suppress(ResourceShortage):
            while most > 0 and self.pending_bytes > self.max_pending and self.fresh:
                self.write_out(next(iter(self.fresh)))
                most -= 1

    def write_out(self, queue: ConsumeQueue) -> None:
        """Write the pending entries of a queue."""
        self._fix_goal(queue)
        pending = queue.pending
        if pending is None:
            return
        if pending:
            self.write(queue, queue.written, pending)
        self.pending_bytes -= len(pending)
        queue.pending = None
        queue.written = queue.max_offset
        del self.fresh[queue]

    def rewrite(self, queue: ConsumeQueue, offset: int, entry: bytes) -> None:
        """Overwrite a wrong entry."""
        if offset >= queue.written and queue.pending is not None:
            at = (offset - queue.written) * ENTRY_BYTES
            queue.pending[at : at + ENTRY_BYTES] = entry
        else:
            self.write(queue, offset, entry)

    def write(self, queue: ConsumeQueue, offset: int, entries: bytes | bytearray) -> None:
        """Write entries to their files."""
        self._files.write(queue, offset, entries)
        lowest = self._unsynced.get(queue)
        if lowest is None or offset < lowest:
            self._unsynced[queue] = offset

    async def cut_files(self, queue: ConsumeQueue) -> None:
        """Remove everything on disk behind the last entry of a queue without pending entries."""
        following = self._files.first_of(queue.max_offset)
        # A file without an entry is deleted, because its name may not be durable.
        if following != queue.max_offset and not self._files.ends_at(queue, queue.max_offset):
            self._files.cut(queue, queue.max_offset)
            self._unsynced[queue] = queue.max_offset
        if following != queue.max_offset:
            following += self._files.per_file
        while self._files.there(queue, following):
            await self._files.remove(queue, following)
            following += self._files.per_file

    def doubt_files(self) -> None:
        """Make the next flush sync all files: their contents may be only in the page cache."""
        self._doubted = True

    # ---- flushing

    def begin_flush(self, position: int) -> None:
        """Set the goal of the next flush: all entries added by now, those of records below ``position``.

        The cost does not depend on the number of queues: a queue's goal is set when more of it is written.
        """
        self._flush_number += 1
        self._flush_to = position

    def _fix_goal(self, queue: ConsumeQueue) -> None:
        if queue.flush_number != self._flush_number:
            queue.flush_number = self._flush_number
            queue.goal = queue.written + (entries_below(queue.pending, self._flush_to) if queue.pending else 0)

    async def flush(self) -> None:
        """Make the entries durable that were added before `begin_flush`."""
        # Entries of an earlier flush that failed or was cancelled may be synced without being noted as durable.
        again = self._flushing
        self._flushing = [*again, *self._synced_early, *self._unsynced, *self.fresh]
        if again:
            self._flushing = list(dict.fromkeys(self._flushing))
        pace = Pace(SLICE, rests=True)
        for queue in self._flushing:
            self.write_out(queue)
            await pace.did()
        others: Iterable[ConsumeQueue] = ()
        if self._doubted or len(self._flushing) > self.synced_each:
            others = await self._sync_all()
            self._doubted = False
        else:
            for queue in self._flushing:
                await self._sync(queue)
            await self._files.sync_names()
        await self._note_durable(others)

    async def _note_durable(self, others: Iterable[ConsumeQueue]) -> None:
        """Note that the queues of this flush are synced, and ``others`` as well."""
        early: dict[ConsumeQueue, None] = {}
        walk = Pace(WALKED_AT_ONCE, rests=True)
        for queue in self._flushing:
            queue.durable = max(queue.durable, queue.goal)
            self.changed[queue] = None
            await walk.did()
        for queue in chain(self._flushing, others):
            # Entries added since `begin_flush` may be synced too, but do not count before their records are flushed.
            if queue.durable < queue.written:
                early[queue] = None
            await walk.did()
        self._synced_early = early
        self._flushing = []

    async def _sync_all(self) -> Iterable[ConsumeQueue]:
        """Sync everything; return the queues that were written since they were last synced."""
        taken, self._unsynced = self._unsynced, {}
        try:
            await self._files.sync_everything()
        except BaseException:
            for queue, lowest in taken.items():
                self._unsynced[queue] = min(lowest, self._unsynced.get(queue, lowest))
            raise
        return taken

    async def _sync(self, queue: ConsumeQueue) -> None:
        lowest = self._unsynced.pop(queue, None)
        if lowest is None:
            return
        try:
            for first in range(self._files.first_of(lowest), max(queue.written, lowest + 1), self._files.per_file):
                await self._files.sync(queue, first)
        except FileMissing:
            return  # the topic was deleted meanwhile
        except BaseException:
            self._unsynced[queue] = min(lowest, self._unsynced.get(queue, lowest))
            raise

    def forget(self, queue: ConsumeQueue) -> None:
        """Drop the pending entries of a queue that is being deleted; dispatch adds more only through `Queues.put`."""
        queue.plain = False
        self._unsynced.pop(queue, None)
        if queue.pending is not None:
            self.pending_bytes -= len(queue.pending)
            queue.pending = None
            del self.fresh[queue]
