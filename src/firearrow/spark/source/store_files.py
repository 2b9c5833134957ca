"""The files of a store as a table, without a broker: ours or Apache's, a live directory or a copy of one.

The log is cut into tasks by bytes. Consume queues give the positions of the wanted records of each cut, so log files
without wanted records are never opened. A task reads its cut in windows: the entries of all its queues in the window,
in the order of the log, then the bytes from the first to the last of them (or in several runs, if wanted records are
far apart).

Every entry is compared with its record: size, queue and both offsets. Entries that point to zeros or behind the end of
the log are the torn tail of a crashed store and are skipped; other mismatches are damage. Files that are deleted while
they are read are a loss, reported with its offsets.
"""

import asyncio
import logging
import re
import struct
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from msgspec import Struct
from pyspark.sql.datasource import DataSourceReader, InputPartition

from firearrow.client import Bounds
from firearrow.errors import BadRecord, SettingsError
from firearrow.model import MessageQueue
from firearrow.runtime.disk.real_disk import RealDisk
from firearrow.spark.options import EARLIEST, LATEST, StoreOptions
from firearrow.spark.source import places, plan
from firearrow.spark.source.plan import Span
from firearrow.spark.source.pushdown import NarrowedRows, narrowed, narrowing_of
from firearrow.spark.source.reader import report_losses
from firearrow.spark.source.row_decoder import rows_of
from firearrow.spark.source.windows import LogWindows
from firearrow.store.inspection.directory import FILLER_SIZE, QueueFileView, StoreView

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.datasource import Filter

log: Final = logging.getLogger(__name__)

LIGHT_QUEUES: Final = "%LMQ%"
ENTRY: Final = struct.Struct(">qiq")


class CutPartition(InputPartition):
    """The input of one task: a range of the log, and the queue entries in it."""

    def __init__(self, begin: int, end: int, spans: Sequence[Span]) -> None:
        super().__init__((begin, end))
        self.begin = begin
        self.end = end
        self.spans = tuple(spans)


_Asked = tuple[dict[MessageQueue, int], dict[MessageQueue, int]]
"""The beginnings and the ends that options give."""


class _Reach(Struct, frozen=True):
    """A span of a queue, and its range in the log."""

    queue: QueueFileView
    span: Span
    begin: int
    end: int


@contextmanager
def opened(path: str) -> Iterator[StoreView]:
    """Open a store directory for reading."""
    disk = RealDisk(path, read_only=True)
    try:
        if not disk.exists("commitlog"):
            raise SettingsError(f"{path} is not a store: it has no directory commitlog")
        view = asyncio.run(StoreView.open(disk))
        try:
            yield view
        finally:
            view.close()
    finally:
        asyncio.run(disk.close())


class StoreReader(DataSourceReader):
    """Reads a store's files in one job."""

    def __init__(self, options: StoreOptions, columns: tuple[str, ...]) -> None:
        self._options = options
        self._columns = columns
        self._narrowing = NarrowedRows()

    # -- on the driver

    def partitions(self) -> Sequence[InputPartition]:
        """Plan the tasks."""
        with opened(self._options.path) as view:
            queues = {self._name(queue): queue for queue in self._queues(view)}
            asked = self._asked(queues)
            reaches = [reach for name in queues if (reach := self._reach(view, queues[name], asked)) is not None]
            return self._cut(view, reaches) or [CutPartition(0, 0, ())]

    def _queues(self, view: StoreView) -> Iterator[QueueFileView]:
        chosen, known = self._options.chosen, asyncio.run(view.topics())
        missing = [topic for topic in chosen.topics if topic not in known]
        if missing:
            raise SettingsError(f"the store has no topic {', '.join(missing)}")
        matches = re.compile(chosen.pattern or ".*").fullmatch
        for topic in chosen.topics or sorted(known):
            if (chosen.topics or matches(topic)) and not topic.startswith(LIGHT_QUEUES):
                yield from asyncio.run(view.queues(topic))

    def _name(self, queue: QueueFileView) -> MessageQueue:
        return MessageQueue(queue.topic, self._options.broker, queue.queue_id)

    def _asked(self, queues: Collection[MessageQueue]) -> _Asked:
        """Return the offsets in options by queue; names without a match are refused."""
        options = self._options
        places.require_order(options.starting, options.ending, queues)
        return places.asked(options.starting, queues), places.asked(options.ending, queues)

    def _reach(self, view: StoreView, queue: QueueFileView, asked: _Asked) -> _Reach | None:
        """Return the wanted part of a queue; None if there is none."""
        named, first = self._name(queue), view.first_kept(queue)
        if not narrowed([Span(named, 0, 1 << 62)], self._narrowing):
            return None
        options = self._options
        starts = {named: self._edge(view, queue, first, asked[0].get(named), is_start=True)}
        ends = {named: self._edge(view, queue, first, asked[1].get(named), is_start=False)}
        losses = places.outside(starts, {named: Bounds(first, queue.end)}, ends)
        report_losses(losses, fails=options.fail_on_data_loss)
        span = self._pushed(view, queue, Span(named, max(starts[named], first), min(ends[named], queue.end)))
        spans = narrowed([span], self._narrowing)
        if not spans or not (place := _places(view, queue, spans[0])):
            return None
        return _Reach(queue, spans[0], *place)

    def _edge(self, view: StoreView, queue: QueueFileView, first: int, asked: int | None, *, is_start: bool) -> int:
        bound = self._options.starting if is_start else self._options.ending
        if bound.kind == "time" and asked is not None:
            return max(first, view.offset_by_time(queue, asked))
        return plan.resolved(
            None if bound.kind == "time" else asked, first, queue.end, EARLIEST if is_start else LATEST
        )

    def _pushed(self, view: StoreView, queue: QueueFileView, span: Span) -> Span:
        """Return the part of a span that conditions on the time allow."""
        begin, end = (
            None if time_ms is None else view.offset_by_time(queue, time_ms)
            for time_ms in (self._narrowing.from_ms, self._narrowing.before_ms)
        )
        return Span(span.queue, max(span.begin, begin or 0), span.end if end is None else min(span.end, end))

    def _cut(self, view: StoreView, reaches: Sequence[_Reach]) -> list[CutPartition]:
        """Cut the log that is reached into parts of about the same number of bytes."""
        rows = sum(reach.span.rows for reach in reaches)
        if not rows:
            return []
        count = plan.task_count(rows, self._options.planning)
        first, last = min(reach.begin for reach in reaches), max(reach.end for reach in reaches)
        edges = [first + (last - first) * number // count for number in range(count)] + [last]
        found = []
        left = list(reaches)
        for begin, end in pairwise(edges):
            spans = []
            for number, reach in enumerate(left):
                span = reach.span
                until = (
                    span.end if end >= reach.end else min(max(view.first_at(reach.queue, end), span.begin), span.end)
                )
                if until > span.begin:
                    spans.append(Span(span.queue, span.begin, until))
                left[number] = _Reach(reach.queue, Span(span.queue, until, span.end), reach.begin, reach.end)
            if spans:
                found.append(CutPartition(begin, end, spans))
        return found

    # -- in tasks

    def read(self, partition: InputPartition) -> Iterator["pa.RecordBatch"]:
        """Read one task's rows."""
        assert isinstance(partition, CutPartition)
        if not partition.spans:
            return
        with opened(self._options.path) as view:
            yield from self._read(view, partition)

    def _read(self, view: StoreView, partition: CutPartition) -> Iterator["pa.RecordBatch"]:
        options, narrowing = self._options, self._narrowing
        sets = _sets(narrowing)
        windows = LogWindows(view, _with_queues(view, partition.spans), narrowing.tags)
        for window in windows.read(options.decoding.batch_rows):
            report_losses(window.losses, fails=options.fail_on_data_loss)
            try:
                yield from rows_of(window.heads, self._columns, sets, options.broker, options.decoding)
            except BadRecord as wrong:
                raise BadRecord(f"{wrong.reason} (in {options.path})", offset=wrong.offset) from wrong


class PushingStoreReader(StoreReader):
    """A reader with pushdown. Spark refuses readers with pushdown unless the session enables it, so it is separate."""

    def pushFilters(self, filters: "list[Filter]") -> "list[Filter]":  # noqa: N802 - Spark's name
        """Note the conditions that the source applies; Spark applies all of them again."""
        self._narrowing = narrowing_of(filters)
        return filters


def _sets(narrowing: NarrowedRows) -> dict[str, frozenset[str]]:
    found = {"tags": narrowing.tags, "keys": narrowing.keys}
    return {name: values for name, values in found.items() if values is not None}


def _places(view: StoreView, queue: QueueFileView, span: Span) -> tuple[int, int] | None:
    """Return the range of a span in the log; None if its entries have no messages."""
    places = [
        place + size
        for offset, is_end in ((span.begin, False), (span.end - 1, True))
        for place, size in _entry(view, queue, offset, is_end=is_end)
    ]
    return (places[0], places[-1]) if places else None


def _entry(view: StoreView, queue: QueueFileView, offset: int, *, is_end: bool) -> list[tuple[int, int]]:
    """Return the position of the next entry with a message, and its size if ``is_end``."""
    step = -1 if is_end else 1
    while queue.start <= offset < queue.end:
        ((place, size, _),) = ENTRY.iter_unpack(view.entry_bytes(queue, offset, 1))
        if 0 < size < FILLER_SIZE:
            return [(place, size if is_end else 0)]
        offset += step
    return []


def _with_queues(view: StoreView, spans: Iterable[Span]) -> list[tuple[QueueFileView, Span]]:
    seen: dict[tuple[str, int], QueueFileView] = {}
    spans = list(spans)
    for topic in dict.fromkeys(span.queue.topic for span in spans):
        for queue in asyncio.run(view.queues(topic)):
            seen[topic, queue.queue_id] = queue
    found = [(seen.get((span.queue.topic, span.queue.queue_id)), span) for span in spans]
    return [(queue, span) for queue, span in found if queue is not None]
