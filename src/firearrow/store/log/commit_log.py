"""The commit log: every record of the broker, one after the other.

An append gets its position at once, is encoded, and waits in a list; the list is written with one call at the end of
the turn, when it grows over a limit, or when one of its records is read. An acknowledgement must wait for `reached`.
All offsets advance in this order, and go back only after a failed write, whose records were never acknowledged::

    flushed <= written <= handed <= tail
    synced     survives   given to  where the next
               a crash    the disk  append goes

A segment ends with a filler of at least 8 bytes: a record, or a whole batch, that would leave fewer than 8 goes to the
next segment. Bytes above the tail are zero. Java: ``CommitLog``, ``DefaultAppendMessageCallback``.
"""

from collections.abc import Callable, Sequence
from itertools import accumulate, chain, repeat
from typing import cast

from firearrow.errors import DiskError, IllegalMessage, Overloaded, ResourceShortage, StoreFenced
from firearrow.model import EpochMs, PhysicalOffset, QueueOffset
from firearrow.model.flags import PREPARED
from firearrow.record.columns import Envelope, MessageColumns, UniformProperties
from firearrow.record.encode import Draft, encode
from firearrow.record.encode_columns import encode_columns
from firearrow.record.layout import BLANK_SIZE, Buffer, blank
from firearrow.runtime.clock import Clock
from firearrow.runtime.turn import Share, in_next_turn
from firearrow.store.config import LogConfig
from firearrow.store.log.progress import Progress, Sink
from firearrow.store.log.segments import Segment, Segments
from firearrow.store.log.unsynced import UnsyncedSegments
from firearrow.store.placement import (
    FLUSHED,
    WRITTEN,
    AppendedColumns,
    AppendPosition,
    Placed,
    QueueTail,
    Rows,
    UniformRows,
    give_back,
    take_offsets,
)

# `encode` typed for plain integers: wrapping them in NewTypes would cost more than a tenth of an append.
_encode = cast("Callable[[Draft, int, int, int], bytes]", encode)


class CommitLog(Progress):
    """The log from its recovered end on."""

    # Slots for speed: without them an object with more than thirty attributes loses CPython's fast attribute access.
    __slots__ = (
        "_active",
        "_closed",
        "_fresh",
        "_fresh_before",
        "_handed_to",
        "_held_back",
        "_limit",
        "_max_body",
        "_max_pending",
        "_now_ns",
        "_pending",
        "_room",
        "_schedule",
        "_segments",
        "_store_ms",
        "_turn_scheduled",
        "handed",
        "on_late",
        "on_roll",
        "opened_at",
        "tail",
        "unsynced",
    )

    def __init__(
        self, segments: Segments, clock: Clock, config: LogConfig, end: int, sink: Sink, *, last_store_ms: int = 0
    ) -> None:
        super().__init__(end, sink, FLUSHED if config.syncs_first else WRITTEN)
        self.tail = self.handed = end
        self.opened_at = end
        """Records below were not written by this process, so they may not be in the page cache."""
        self._segments = segments
        self._now_ns = clock.now_ns
        self._max_body = config.max_message_size
        # A record with a body over the size limit also ends above this limit, so `append` needs only one check.
        self._max_pending = min(config.max_pending_bytes, config.max_message_size)
        self._store_ms = last_store_ms
        self._active: Segment | None = None
        self._handed_to: Segment | None = None
        self._held_back = False
        self._room = -1  # the end of the bytes that records may take in the active segment
        self._limit = -1  # an append that ends above this needs `_make_room`: the segment or the pending list is full
        self._pending: list[Buffer] = []
        self._fresh: list[Placed] = []
        self._fresh_before: list[tuple[int, Rows]] = []  # earlier rows of this turn, with their ends
        self._turn_scheduled = False
        self._schedule: Callable[[], object] | None = None
        self.unsynced = UnsyncedSegments()
        self._closed = False
        self.on_roll: Callable[[], None] = lambda: None
        """Called when appends move to another segment: the next one should be prepared."""
        self.on_late: Callable[[], None] = lambda: None
        """Called after a write that the disk will do later: `confirm` must be awaited."""

    # ---- appending

    def append(self, tail: QueueTail, draft: Draft) -> AppendPosition:
        """Append a record. It may be acknowledged once ``end`` of the answer is `reached`."""
        if not self._pending:
            self._begin_turn()
        physical, store_ms = self.tail, self._store_ms
        prepared = draft.sys_flag & PREPARED
        queue_offset = 0 if prepared else tail.next_offset
        try:
            record = _encode(draft, queue_offset, physical, store_ms)
        except IllegalMessage:
            record = _encode_unstamped(draft, queue_offset, physical, store_ms)
        size = len(record)
        end = physical + size
        if end > self._limit:
            self._make_room(size, len(draft.body))
            place = self.append(tail, draft)
            self._limit_pending()
            return place
        self._pending.append(record)
        self.tail = end
        if not prepared:
            tail.next_offset = queue_offset + 1
        self._fresh.append((tail, physical, size, queue_offset, store_ms, draft.sys_flag, draft.properties))
        return AppendPosition(physical, queue_offset, end, store_ms)

    def append_columns(
        self, envelope: Envelope, tails: Sequence[QueueTail], columns: MessageColumns
    ) -> AppendedColumns:
        """Append records one after the other in one segment: all or none. ``tails`` are the messages' queues."""
        # If the pending list is full, write it now: otherwise the records would be encoded twice.
        is_full = self._pending and self.tail + sum(map(len, columns.bodies)) > self._limit
        if is_full and (error := self.write_pending()) is not None:
            raise error
        place = self.append_columns_if_room(envelope, tails, columns)
        if place is None:
            records, _ = encode_columns(envelope, columns, [0] * len(tails), self.tail, self._store_ms)
            self._make_room(len(records), max(map(len, columns.bodies)))
            place = self.append_columns(envelope, tails, columns)
            self._limit_pending()
        return place

    def append_columns_if_room(
        self, envelope: Envelope, tails: Sequence[QueueTail], columns: MessageColumns
    ) -> AppendedColumns | None:
        """As `append_columns`, but None, and no effect, if the segment or the pending list has no room for all."""
        if not self._pending:
            self._begin_turn()
        start, store_ms, offsets = self.tail, self._store_ms, take_offsets(tails)
        try:
            records, sizes = encode_columns(envelope, columns, offsets, start, store_ms)
        except IllegalMessage:
            give_back(tails, offsets)
            raise
        end = start + len(records)
        if end > self._limit:
            give_back(tails, offsets)
            return None
        self._pending.append(records)
        self.tail = end
        sys_flag, properties = envelope.sys_flag, columns.properties
        places = list(accumulate(sizes, initial=start))
        places.pop()
        if type(properties) is UniformProperties:
            rows = UniformRows(tails[0], places, sizes, offsets[0], store_ms, sys_flag, properties)
            if self._fresh:
                self._fresh_before.append((start, self._fresh))
                self._fresh = []
            self._fresh_before.append((end, rows))
            return AppendedColumns(places, offsets, end, store_ms)
        self._fresh += zip(tails, places, sizes, offsets, repeat(store_ms), repeat(sys_flag), properties, strict=False)
        return AppendedColumns(places, offsets, end, store_ms)

    def _begin_turn(self) -> None:
        now_ms = self._now_ns() // 1_000_000
        if now_ms > self._store_ms:
            self._store_ms = now_ms
        if not self._turn_scheduled:
            self._turn_scheduled = True
            if self._schedule is None:
                self._schedule = in_next_turn(self.write_pending, Share.WRITE)
            self._schedule()

    def _make_room(self, size: int, largest: int) -> None:
        """Make room for an append that ends above the limit, or raise the reason why it cannot be stored."""
        self._check_open()
        if largest > self._max_body:
            raise IllegalMessage(f"a body of {largest} bytes is over the {self._max_body} of maxMessageSize")
        if size + BLANK_SIZE > self._segments.size:
            raise IllegalMessage(f"{size} bytes in one piece do not fit a log file of {self._segments.size} bytes")
        if (error := self.write_pending()) is not None:
            raise error
        active = self._active
        if active is None or self.tail + size > self._room:
            if self._held_back:
                raise Overloaded("the disk is more than a log file behind with writing; send again in a moment")
            if active is not None and self.tail < active.end:
                self._fill_up(active)
            self._activate()
        # For this append only the segment is a limit: the record may be larger than the limit of the pending list.
        self._limit = self._room

    def _limit_pending(self) -> None:
        self._limit = min(self.handed + self._max_pending, self._room)

    def _fill_up(self, active: Segment) -> None:
        self._pending.append(blank(active.end - self.tail))
        self.tail = active.end
        if (error := self.write_pending()) is not None:
            raise error

    def _activate(self) -> None:
        """Make the segment at the tail the active one."""
        self._limit = self._room = -1
        segment = self._segments.at(self.tail)
        if segment is None:
            segment = self._segments.create(self.tail - self.tail % self._segments.size)
            self.unsynced.add(segment)
        self._active = segment
        self._room = segment.end - BLANK_SIZE
        self.on_roll()

    # ---- writing

    def write_pending(self) -> DiskError | None:
        """Write pending records to the disk; return the error if that failed, after calling the waiters with it."""
        self._turn_scheduled = False
        pending, segment = self._pending, self._active
        if not pending or segment is None:
            return None
        if self.written < segment.start:
            # The disk has not yet written the segment before: a crash now would leave a hole.
            self._held_back = True
            return None
        file, tail = segment.file, self.tail
        rows = [*self._fresh_before, (tail, self._fresh)]
        self._pending, self._fresh, self._fresh_before = [], [], []
        try:
            file.write_at(self.handed - segment.start, pending)
        except DiskError as error:
            return self._undo(error, rows, segment)
        if not segment.unsynced:
            self.unsynced.add(segment)
        self.handed = tail
        self._handed_to = segment
        self._limit = tail + self._max_pending
        if self._limit > self._room:
            self._limit = self._room
        self._rows += rows
        if file.late:
            self.on_late()
        else:
            self.note_written(tail)
        return None

    def _undo(self, error: DiskError, rows: list[tuple[int, Rows]], segment: Segment) -> DiskError:
        """Undo a failed write: none of its records was acknowledged."""
        for tail, _, _, queue_offset, _, sys_flag, _ in chain.from_iterable(reversed(batch) for _, batch in rows[::-1]):
            if not sys_flag & PREPARED:
                tail.next_offset = queue_offset
        self.tail = self.handed
        try:
            # Complete records of the failed write may be in the file; recovery would find them there.
            segment.file.truncate(self.handed - segment.start)
            segment.file.truncate(self._segments.size)
        except ResourceShortage:
            # No descriptor is left for the file, so the write had none either and has changed nothing.
            pass
        except DiskError as worse:
            return self.fence(worse)
        if not isinstance(error, ResourceShortage):
            return self.fence(error)
        self._limit = -1
        self.unsynced.take_back(error, segment, self._take_waiting(above=self.handed))
        if self.on_written is not None:
            self.on_written()
        return error

    async def confirm(self) -> None:
        """Wait for a disk that writes later, and note how far it has written."""
        target = self.handed
        if self._handed_to is not None:
            await self._handed_to.file.written()
        if target > self.written:
            self.note_written(target)
        if self._held_back and self.fenced is None:
            self._held_back = False
            self.write_pending()

    # ---- flushing (called by the flusher)

    def note_flushed(self, offset: int) -> None:
        """Note that all bytes below ``offset`` survive a power loss."""
        if self.fenced is not None:
            return
        self.unsynced.were_synced()
        self._advance_flushed(offset)

    def fence(self, error: Exception) -> StoreFenced:
        """Acknowledge nothing from here on: unsynced bytes must be considered lost."""
        if self.fenced is None:
            self._limit = -1
            self._pending, self._fresh, self._fresh_before = [], [], []
            self.tail = self.handed
            fenced = super().fence(error)
            self.unsynced.refuse(fenced)
        return super().fence(error)

    @property
    def needs_flush(self) -> bool:
        """Whether there are bytes that a sync would make durable."""
        return self.flushed < self.written or self.unsynced.taken_back is not None

    @property
    def wants_flush(self) -> bool:
        """Whether a sync should come soon because there are waiters."""
        return self._has_waiters(FLUSHED) or self.unsynced.taken_back is not None

    @property
    def min_offset(self) -> int:
        """The start of the oldest segment."""
        return self._segments.min_offset

    # ---- ending

    def refuse_appends(self) -> None:
        """Refuse appends from now on: the store is closing."""
        self.write_pending()
        self._closed = True
        self._limit = -1

    def _check_open(self) -> None:
        if self.fenced is not None:
            raise self.fenced
        if self.unsynced.taken_back is not None:
            raise self.unsynced.taken_back
        if self._closed:
            raise StoreFenced("the store is closing and takes no messages; send to another broker")


def _encode_unstamped(draft: Draft, queue_offset: int, physical: int, store_ms: int) -> bytes:
    """Encode without the stamp a message that is too long with it."""
    return encode(draft, QueueOffset(queue_offset), PhysicalOffset(physical), EpochMs(store_ms), stamped=False)
