"""Reads a range of the log in windows; consume queues give the wanted records, in bulk.

Entries are arrays (20 bytes each: position 8, size 4, tag code 8), the log is bytes; there is no Python operation for
each record. A window never crosses the end of a log file, and neither does a record.
"""

import logging
from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from firearrow.columns import Heads
from firearrow.columns.decode import as_bytes
from firearrow.columns.slices import structures
from firearrow.errors import OffsetNotStored
from firearrow.model.java_hash import tag_code
from firearrow.spark.source.plan import Loss, Span
from firearrow.store.inspection.directory import FILLER_SIZE, QueueFileView, StoreView

log: Final = logging.getLogger(__name__)

ENTRY: Final = np.dtype([("place", ">i8"), ("size", ">i4"), ("code", ">i8")])
BLOCK_ENTRIES: Final = 65_536
WINDOW_BYTES: Final = 32 << 20
RUN_GAP_BYTES: Final = 32 << 10
"""Wanted records that are farther apart than this are read separately."""
_STATED: Final = np.dtype(
    [("size", ">i4"), ("magic", ">u4"), ("crc", ">i4"), ("queue_id", ">i4"), ("flag", ">i4"), ("offset", ">i8"),
     ("place", ">i8")]
)  # fmt: skip

Ints = npt.NDArray[np.int64]


class Entries(Struct, frozen=True):
    """Entries of queues: position and size of each record, and its queue and offset."""

    places: Ints
    sizes: Ints
    offsets: Ints
    owners: Ints
    """The index of the span of each entry."""

    def __len__(self) -> int:
        return len(self.places)

    def only(self, which: npt.NDArray[np.generic] | slice) -> "Entries":
        """Return some of the entries."""
        return Entries(self.places[which], self.sizes[which], self.offsets[which], self.owners[which])


class RecordWindow(Struct, frozen=True):
    """Records of one window, and its losses."""

    heads: Heads
    losses: tuple[Loss, ...] = ()


class _SpanCursor:
    """The entries of one span, read in blocks and taken by position."""

    def __init__(self, view: StoreView, queue: QueueFileView, span: Span, number: int, codes: Ints | None) -> None:
        self._view = view
        self._queue = queue
        self._next = span.begin
        self._end = span.end
        self._number = number
        self._codes = codes
        self._block = _none()
        self.is_done = False

    def first_place(self) -> int | None:
        """Return the position of the next record; None at the end."""
        self._load()
        return None if self.is_done else int(self._block.places[0])

    def take_before(self, place: int) -> list[Entries]:
        """Return the entries whose records begin before a position."""
        found: list[Entries] = []
        while True:
            self._load()
            if self.is_done:
                return found
            count = int(np.searchsorted(self._block.places, place))
            if count:
                found.append(self._block.only(slice(0, count)))
                self._block = self._block.only(slice(count, None))
            if len(self._block):
                return found

    def _load(self) -> None:
        while len(self._block) == 0 and self._next < self._end:
            count = min(BLOCK_ENTRIES, self._end - self._next)
            raw = np.frombuffer(self._view.entry_bytes(self._queue, self._next, count), ENTRY)
            offsets = np.arange(self._next, self._next + len(raw), dtype=np.int64)
            self._next += max(len(raw), 1)
            keep = (raw["size"] > 0) & (raw["size"] != FILLER_SIZE)
            if self._codes is not None:
                keep &= np.isin(raw["code"].astype(np.int64), self._codes)
            raw, offsets = raw[keep], offsets[keep]
            owners = np.full(len(raw), self._number, np.int64)
            self._block = Entries(raw["place"].astype(np.int64), raw["size"].astype(np.int64), offsets, owners)
        self.is_done = len(self._block) == 0


class LogWindows:
    """Reads the records of some spans, in the order of the log."""

    def __init__(
        self, view: StoreView, spans: Sequence[tuple[QueueFileView, Span]], tags: frozenset[str] | None = None
    ) -> None:
        self._view = view
        self._spans = [span for _, span in spans]
        codes = None if tags is None else np.array([tag_code(tag) for tag in sorted(tags)], np.int64)
        self._cursors = [_SpanCursor(view, queue, span, number, codes) for number, (queue, span) in enumerate(spans)]

    def read(self, rows: int) -> Iterator[RecordWindow]:
        """Yield windows of at most about ``rows`` records."""
        while (first := self._first_place()) is not None:
            entries = self._take(first)
            for begin in range(0, len(entries), rows):
                yield self._window(entries.only(slice(begin, begin + rows)))

    def _first_place(self) -> int | None:
        places = [place for cursor in self._cursors if (place := cursor.first_place()) is not None]
        return min(places, default=None)

    def _take(self, first: int) -> Entries:
        size = self._view.segments.size
        end = min(first + WINDOW_BYTES, first - first % size + size)
        taken = [entries for cursor in self._cursors for entries in cursor.take_before(end)]
        if len(taken) == 1:
            return taken[0]
        both = Entries(
            np.concatenate([each.places for each in taken]),
            np.concatenate([each.sizes for each in taken]),
            np.concatenate([each.offsets for each in taken]),
            np.concatenate([each.owners for each in taken]),
        )
        return both.only(np.argsort(both.places, kind="stable"))

    def _window(self, entries: Entries) -> RecordWindow:
        try:
            data, starts = self._bytes_of(entries)
        except OffsetNotStored as gone:
            empty = Heads(np.empty(0, np.uint8), np.empty(0, np.int64))
            return RecordWindow(empty, tuple(self._losses(entries, str(gone))))
        good, torn = self._compare(entries, data, starts)
        losses = self._losses(entries.only(~good & ~torn), "the log holds something else where the record should be")
        if torn.any():
            log.info("entries behind the end of the log are skipped", extra={"entries": int(torn.sum())})
        return RecordWindow(Heads(data, starts if good.all() else starts[good]), tuple(losses))

    def _bytes_of(self, entries: Entries) -> tuple[npt.NDArray[np.uint8], Ints]:
        """Return the bytes of some records, and the start of each in them."""
        places, ends = entries.places, entries.places + entries.sizes
        breaks = np.flatnonzero(places[1:] - ends[:-1] > RUN_GAP_BYTES) + 1
        if len(breaks) == 0:
            return as_bytes(self._view.log_bytes(int(places[0]), int(ends.max() - places[0]))), places - places[0]
        parts, starts, at = [], np.empty(len(places), np.int64), 0
        for low, high in zip([0, *breaks], [*breaks, len(places)], strict=True):
            length = int(ends[low:high].max() - places[low])
            parts.append(self._view.log_bytes(int(places[low]), length).ljust(length, b"\0"))
            starts[low:high] = places[low:high] - places[low] + at
            at += length
        return as_bytes(b"".join(parts)), starts

    def _compare(
        self, entries: Entries, data: npt.NDArray[np.uint8], starts: Ints
    ) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_]]:
        """Return which entries match their records, and which point to nothing."""
        inside = starts + np.maximum(entries.sizes, _STATED.itemsize) <= len(data)
        at = np.where(inside, starts, 0)
        if len(data) < _STATED.itemsize:
            return inside & False, ~inside
        stated = structures(data, at, _STATED)
        queue_ids = np.array([span.queue.queue_id for span in self._spans], np.int64)
        good = inside & (stated["size"] == entries.sizes) & (stated["place"] == entries.places)
        good &= (stated["offset"] == entries.offsets) & (stated["queue_id"] == queue_ids[entries.owners])
        return good, ~inside | (~good & (stated["size"] == 0))

    def _losses(self, entries: Entries, reason: str) -> Iterator[Loss]:
        """Return the losses as runs of offsets of each queue."""
        for owner in np.unique(entries.owners).tolist():
            offsets = entries.offsets[entries.owners == owner]
            breaks = np.flatnonzero(np.diff(offsets) != 1) + 1
            for run in np.split(offsets, breaks):
                yield Loss(self._spans[owner].queue, int(run[0]), int(run[-1]) + 1, reason)


def _none() -> Entries:
    empty = np.empty(0, np.int64)
    return Entries(empty, empty, empty, empty)
