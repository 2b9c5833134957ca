"""The commit log: every message of the broker, one after the other.

An append gets its place at once, is encoded, and waits in a list; the list is written with one call at the end of the
loop's turn, when it grows over a limit, or when somebody reads what is in it. Whoever promises something waits for
`reached`. All places advance in this order, and never go back but by a failed write of what nobody was promised::

    flushed <= written <= handed <= tail
    synced     survives   given to  where the next
               a crash    the disk  append goes

A segment ends with a BLANK of at least 8 bytes: a record, or a whole batch, that needs more than what remains less 8
goes to the next one. Bytes above the tail are zero. Java: ``CommitLog``, ``DefaultAppendMessageCallback``.
"""

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from itertools import accumulate, chain, repeat
from typing import cast

from firearrow.errors import (
    DiskError,
    IllegalMessage,
    OffsetNotStored,
    Overloaded,
    ResourceShortage,
    StoreFenced,
)
from firearrow.model import EpochMs, PhysicalOffset, QueueOffset
from firearrow.model.flags import PREPARED
from firearrow.record.alike import Alike, encode_alike
from firearrow.record.batch import Piece, drafts_of, encode_pieces
from firearrow.record.encode import Draft, encode
from firearrow.record.layout import BLANK_SIZE, blank
from firearrow.record.together import Together, encode_together
from firearrow.runtime.clock import Clock
from firearrow.store.config import LogConfig
from firearrow.store.placement import (
    FLUSHED,
    WRITTEN,
    Appended,
    AppendedBatch,
    AppendedTogether,
    Placed,
    PlacedRun,
    QueueTail,
    Rows,
    give_back,
    take_offsets,
)
from firearrow.store.progress import Progress, Sink
from firearrow.store.segments import Segment, Segments
from firearrow.store.waiting import Told

# The same function for plain numbers: naming their kinds costs more than a tenth of an append.
_encode = cast("Callable[[Draft, int, int, int], bytes]", encode)


class CommitLog(Progress):
    """The log from its recovered end on."""

    # Not for space: an object with more than thirty attributes and no slots loses CPython's fast access to them.
    __slots__ = (
        "_active",
        "_closed",
        "_dirty",
        "_fresh",
        "_fresh_before",
        "_handed_to",
        "_held_back",
        "_limit",
        "_max_body",
        "_max_pending",
        "_now_ms",
        "_pending",
        "_refused",
        "_room",
        "_schedule_turn",
        "_segments",
        "_store_ms",
        "_taken_back",
        "_taking_back_synced",
        "_turn_scheduled",
        "handed",
        "on_late",
        "on_roll",
        "opened_at",
        "tail",
    )

    def __init__(
        self, segments: Segments, clock: Clock, config: LogConfig, end: int, sink: Sink, *, last_store_ms: int = 0
    ) -> None:
        super().__init__(end, sink, FLUSHED if config.syncs_first else WRITTEN)
        self.tail = self.handed = end
        self.opened_at = end
        """Records below were not written by this process: nobody knows whether they are in memory."""
        self._segments = segments
        self._now_ms = clock.now_ms
        self._max_body = config.max_message_size
        # Whatever is over the size of a body ends above the limit too, so the fast way needs one check only.
        self._max_pending = min(config.max_pending_bytes, config.max_message_size)
        self._store_ms = last_store_ms
        self._active: Segment | None = None
        self._handed_to: Segment | None = None
        self._held_back = False
        self._room = -1  # end of the room for records in the active segment
        self._limit = -1  # an append that ends above goes the slow way: the segment or the pending list is full
        self._pending: list[bytes] = []
        self._fresh: list[Placed] = []
        self._fresh_before: list[tuple[int, Rows]] = []  # rows of this turn before those, with where they end
        self._turn_scheduled = False
        self._schedule_turn: Callable[[], object] | None = None
        self._dirty: list[Segment] = []
        self._taken_back: DiskError | None = None
        self._taking_back_synced = False
        self._refused: list[Told] = []
        self._closed = False
        self.on_roll: Callable[[], None] = lambda: None
        """Called when another segment is appended to: the one after it will be needed."""
        self.on_late: Callable[[], None] = lambda: None
        """Called after a write that the disk has only promised: `confirm` must be awaited."""

    # ---- appending

    def append(self, tail: QueueTail, draft: Draft) -> Appended:
        """Give the message its place. Wait for ``end`` of the answer before promising anything."""
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
            self._make_room(size, (draft,))
            place = self.append(tail, draft)
            self._limit_pending()
            return place
        self._pending.append(record)
        self.tail = end
        if not prepared:
            tail.next_offset = queue_offset + 1
        self._fresh.append((tail, physical, size, queue_offset, store_ms, draft.sys_flag, draft.properties))
        return Appended(physical, queue_offset, end, store_ms)

    def append_together(self, shared: Draft, tails: Sequence[QueueTail], messages: Together) -> AppendedTogether | None:
        """What `append` does with messages that came together; None, and nothing is done, where they do not fit."""
        if not self._pending:
            self._begin_turn()
        store_ms, offsets = self._store_ms, take_offsets(tails)
        try:
            records, sizes = encode_together(shared, messages, offsets, self.tail, store_ms)
        except IllegalMessage:
            give_back(tails, offsets)
            return None
        places = list(accumulate(sizes, initial=self.tail))
        end = places.pop()
        if end > self._limit:
            give_back(tails, offsets)
            return None
        self._pending.append(records)
        self.tail = end
        shared_values = repeat(store_ms), repeat(shared.sys_flag)
        self._fresh += zip(tails, places, sizes, offsets, *shared_values, messages.properties, strict=False)
        return AppendedTogether(places, offsets, end)

    def append_batch(self, tail: QueueTail, drafts: Sequence[Draft]) -> AppendedBatch:
        """Give messages of one queue consecutive places in one segment: all of them or none."""
        if not self._pending:
            self._begin_turn()
        first = queue_offset = tail.next_offset
        physical = self.tail
        store_ms = self._store_ms
        records: list[bytes] = []
        rows: list[Placed] = []
        places: list[int] = []
        for draft in drafts:
            try:
                record = _encode(draft, queue_offset, physical, store_ms)
            except IllegalMessage:
                record = _encode_unstamped(draft, queue_offset, physical, store_ms)
            size = len(record)
            records.append(record)
            rows.append((tail, physical, size, queue_offset, store_ms, draft.sys_flag, draft.properties))
            places.append(physical)
            physical += size
            queue_offset += 1
        if physical > self._limit:
            self._make_room(physical - self.tail, drafts)
            batch = self.append_batch(tail, drafts)
            self._limit_pending()
            return batch
        self._pending += records
        self._fresh += rows
        self.tail = physical
        tail.next_offset = queue_offset
        return AppendedBatch(places, first, physical, store_ms)

    def _append_alike(self, tail: QueueTail, shared: Draft, alike: Alike) -> AppendedBatch:
        """What `append_batch` does with the drafts of a client's batch whose messages are alike."""
        if not self._pending:
            self._begin_turn()
        first, start, store_ms = tail.next_offset, self.tail, self._store_ms
        try:
            records, size = encode_alike(alike, shared, first, start, store_ms)
        except IllegalMessage:
            return self.append_batch(tail, drafts_of(alike.pieces(), shared))
        end = start + len(records)
        if end > self._limit:
            return self.append_batch(tail, drafts_of(alike.pieces(), shared))
        self._pending.append(records)
        self.tail = end
        tail.next_offset = first + len(alike)
        if self._fresh:
            self._fresh_before.append((start, self._fresh))
            self._fresh = []
        run = PlacedRun(tail, start, size, first, store_ms, shared.sys_flag, alike.properties)
        self._fresh_before.append((end, run))
        return AppendedBatch(run.places, first, end, store_ms)

    def append_pieces(self, tail: QueueTail, shared: Draft, pieces: Alike | Sequence[Piece]) -> AppendedBatch:
        """What `append_batch` does with the drafts of a client's batch, without making them."""
        if isinstance(pieces, Alike):
            return self._append_alike(tail, shared, pieces)
        # Where what waits leaves no room, that is better seen now than after these were encoded in vain.
        is_full = self._pending and self.tail + sum([len(body) + len(more) for _, body, more in pieces]) > self._limit
        if is_full and (error := self.write_pending()) is not None:
            raise error
        if not self._pending:
            self._begin_turn()
        first, start, store_ms = tail.next_offset, self.tail, self._store_ms
        try:
            records, sizes = encode_pieces(pieces, shared, first, start, store_ms)
        except IllegalMessage:
            return self.append_batch(tail, drafts_of(pieces, shared))
        places = list(accumulate(sizes, initial=start))
        end = places.pop()
        if end > self._limit:
            return self.append_batch(tail, drafts_of(pieces, shared))
        self._pending.append(records)
        self.tail = end
        after = tail.next_offset = first + len(sizes)
        sys_flag = shared.sys_flag
        self._fresh += [
            (tail, place, size, offset, store_ms, sys_flag, piece[2])
            for place, size, offset, piece in zip(places, sizes, range(first, after), pieces, strict=True)
        ]
        return AppendedBatch(places, first, end, store_ms)

    def _begin_turn(self) -> None:
        now_ms = self._now_ms()
        if now_ms > self._store_ms:
            self._store_ms = now_ms
        if not self._turn_scheduled:
            self._turn_scheduled = True
            schedule = self._schedule_turn
            if schedule is None:
                schedule = self._schedule_turn = partial(asyncio.get_running_loop().call_soon, self.write_pending)
            schedule()

    def _make_room(self, size: int, drafts: Sequence[Draft]) -> None:
        """The slow way of an append: find out why it does not fit, and make it fit or say why not."""
        self._check_open()
        largest = max(len(draft.body) for draft in drafts)
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
        # For this one append the segment is the only limit: it may be larger than what may be pending.
        self._limit = self._room

    def _limit_pending(self) -> None:
        self._limit = min(self.handed + self._max_pending, self._room)

    def _fill_up(self, active: Segment) -> None:
        self._pending.append(blank(active.end - self.tail))
        self.tail = active.end
        error = self.write_pending()
        if error is not None:
            raise error

    def _activate(self) -> None:
        """Append to the segment at the tail from here on."""
        self._limit = self._room = -1
        segment = self._segments.at(self.tail)
        if segment is None:
            segment = self._segments.create(self.tail - self.tail % self._segments.size)
            self._dirty.append(segment)
        self._active = segment
        self._room = segment.end - BLANK_SIZE
        self.on_roll()

    # ---- writing

    def write_pending(self) -> DiskError | None:
        """Hand what is pending to the disk. The error that failed it is returned, and everybody concerned knows it."""
        self._turn_scheduled = False
        pending, segment = self._pending, self._active
        if not pending or segment is None:
            return None
        if self.written < segment.start:
            # The disk writes late and has not written the segment before: were we to die now, a hole would be left.
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
            segment.unsynced = True
            self._dirty.append(segment)
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
        """Take back a write that failed: nobody was promised anything of it."""
        for tail, _, _, queue_offset, _, sys_flag, _ in chain.from_iterable(reversed(some) for _, some in rows[::-1]):
            if not sys_flag & PREPARED:
                tail.next_offset = queue_offset
        self.tail = self.handed
        try:
            # Whole records of the failed write may be in place; left there, recovery would find them.
            segment.file.truncate(self.handed - segment.start)
            segment.file.truncate(self._segments.size)
        except ResourceShortage:
            # There is no descriptor for the file: there was none for the write either, and nothing is in place.
            pass
        except DiskError as worse:
            return self.fence(worse)
        if not isinstance(error, ResourceShortage):
            return self.fence(error)
        # Before the cut is durable nothing may be appended and nobody may hear that it failed: a lost cut would bring
        # the failed records back.
        self._taken_back, self._taking_back_synced = error, False
        self._limit = -1
        if not segment.unsynced:
            segment.unsynced = True
            self._dirty.append(segment)
        self._refused += self._take_waiting(above=self.handed)
        self.on_written()
        return error

    async def confirm(self) -> None:
        """Wait for a disk that writes late, and note what it has written."""
        target = self.handed
        if self._handed_to is not None:
            await self._handed_to.file.written()
        if target > self.written:
            self.note_written(target)
        if self._held_back and self.fenced is None:
            self._held_back = False
            self.write_pending()

    # ---- flushing (called by the flusher)

    def take_dirty(self) -> list[Segment]:
        """The segments with unsynced bytes, oldest first; they count as clean from now on."""
        dirty, self._dirty = self._dirty, []
        for segment in dirty:
            segment.unsynced = False
        self._taking_back_synced = self._taken_back is not None
        return dirty

    def give_back(self, dirty: list[Segment]) -> None:
        """The sync of these did not come to an end."""
        for segment in dirty:
            segment.unsynced = True
        self._dirty = dirty + [segment for segment in self._dirty if segment not in dirty]

    def note_flushed(self, offset: int) -> None:
        """Everything below ``offset`` survives the loss of power."""
        if self.fenced is not None:
            return
        if self._taking_back_synced:
            self._tell_refused()
        self._came_to_be_flushed(offset)

    def _tell_refused(self) -> None:
        error, self._taken_back = self._taken_back, None
        refused, self._refused = self._refused, []
        for call in refused:
            call(error)

    def fence(self, error: Exception) -> StoreFenced:
        """Acknowledge nothing from here on: what was unsynced must be taken for lost."""
        if self.fenced is None:
            self._limit = -1
            self._pending, self._fresh, self._fresh_before = [], [], []
            self.tail = self.handed
            fenced = super().fence(error)
            refused, self._refused = self._refused, []
            for call in refused:
                call(fenced)
        return super().fence(error)

    @property
    def needs_flush(self) -> bool:
        """Whether there is anything that a sync would make durable."""
        return self.flushed < self.written or self._taken_back is not None

    @property
    def wants_flush(self) -> bool:
        """Whether a sync should come soon for somebody's sake."""
        return self._somebody_waits(FLUSHED) or self._taken_back is not None

    # ---- reading

    @property
    def min_offset(self) -> int:
        """Where the oldest segment starts."""
        return self._segments.min_offset

    def read(self, physical: int, size: int) -> bytes:
        """The bytes at an offset, inside one segment. Waits for the device when they are cold."""
        segment = self._holding(physical, size)
        return self._whole(segment.file.read_at(physical - segment.start, size), physical, size)

    def read_hot(self, physical: int, size: int) -> bytes | None:
        """What `read` returns, or None when it would wait for the device."""
        segment = self._holding(physical, size)
        data = segment.file.read_hot(physical - segment.start, size)
        return None if data is None else self._whole(data, physical, size)

    async def read_cold(self, physical: int, size: int) -> bytes:
        """What `read` returns, off the loop when it would wait for the device."""
        segment = self._holding(physical, size)
        return self._whole(await segment.file.read(physical - segment.start, size), physical, size)

    def read_from(self, physical: int, max_bytes: int) -> bytes:
        """The log's bytes from an offset on, as they lie, up to the end of the segment or of what is written."""
        if physical == self.written:
            return b""
        segment = self._holding(physical, 1)
        return segment.file.read_at(
            physical - segment.start, min(max_bytes, segment.end - physical, self.written - physical)
        )

    def _holding(self, physical: int, size: int) -> Segment:
        if physical + size > self.handed:
            self.write_pending()
        segment = self._segments.at(physical)
        if segment is None or physical + size > min(self.handed, segment.end):
            raise OffsetNotStored(
                f"the log holds {self.min_offset} to {self.handed} in files of {self._segments.size} bytes; "
                f"{size} bytes at {physical} are not there"
            )
        return segment

    def _whole(self, data: bytes, physical: int, size: int) -> bytes:
        if len(data) != size:
            raise OffsetNotStored(f"the file holds {len(data)} of the {size} bytes at {physical}")
        return data

    # ---- ending

    def refuse_appends(self) -> None:
        """Take no more messages: the store is closing."""
        self.write_pending()
        self._closed = True
        self._limit = -1

    def _check_open(self) -> None:
        if self.fenced is not None:
            raise self.fenced
        if self._taken_back is not None:
            raise self._taken_back
        if self._closed:
            raise StoreFenced("the store is closing and takes no messages; send to another broker")


def _encode_unstamped(draft: Draft, queue_offset: int, physical: int, store_ms: int) -> bytes:
    """What is no record with a stamp may be one without: the stamp is no reason to refuse a message."""
    return encode(draft, QueueOffset(queue_offset), PhysicalOffset(physical), EpochMs(store_ms), stamped=False)
