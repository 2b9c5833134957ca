"""Topics as a stream: the begin, end and size of micro-batches, and the offsets reported to brokers.

One instance lives in a process of the driver for the life of a query and keeps state between calls; another one is
shipped to tasks and only reads. Spark calls, in order: ``latestOffset(start, limit)``, ``partitions(start, end)``, and
in tasks ``read``. ``start`` is the end of the last finished batch, so the group's progress is taken from it, and not
from ``commit``, which comes one batch late and not at all for the last batch.

A new queue begins at its first message. A queue that is missing for a while keeps its offset and continues when it is
back. While no broker can be reached batches are empty, and the query goes on, for `UNREACHABLE_MS`; then it fails,
because a query that looks idle would hide that messages are not read.

Spark 4.1 has neither limits nor ``start``: there the source remembers its position. Spark 4.1 asks for the end of the
first batch of a run before it gives its begin, so that batch is not limited, and a queue that no route shows at that
moment counts as new when it is back.
"""

import logging
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from firearrow.client import Bounds, MessageQueue
from firearrow.client.consumer.hidden_queues import QueueExtent
from firearrow.errors import FireArrowError
from firearrow.runtime.clock import SystemClock
from firearrow.spark.link import Link, link_of
from firearrow.spark.options import SourceOptions
from firearrow.spark.source import marks, places, plan
from firearrow.spark.source.marks import Position, ReplacedQueue
from firearrow.spark.source.plan import OffsetsJson, Span
from firearrow.spark.source.reader import (
    Edges,
    ReadPlan,
    SpanPartition,
    chosen_queues,
    read_spans,
    report_losses,
    view,
)

if TYPE_CHECKING:
    import pyarrow as pa

log: Final = logging.getLogger(__name__)

SAMPLED_QUEUES: Final = 32
"""Most queues whose record sizes are sampled for a batch; the others get the average of these."""


UNREACHABLE_MS: Final = 300_000
"""Milliseconds without an answer of any broker after which the query fails."""


def _available_now() -> type:
    """Return Spark's base class for sources that can stop at a fixed end; none before 4.2."""
    try:
        from pyspark.sql.streaming.datasource import SupportsTriggerAvailableNow
    except ImportError:
        return object
    return SupportsTriggerAvailableNow


class TopicsStreamReader(DataSourceStreamReader, _available_now()):  # type: ignore[misc] # a class by version of Spark
    """Reads topics as a stream."""

    def __init__(self, options: SourceOptions, columns: tuple[str, ...]) -> None:
        self._options = options
        self._columns = columns
        self._target: dict[MessageQueue, int] | None = None
        self._lacks_routes = False
        self._last_end: Position | None = None
        self._planned: tuple[Position, Position, dict[MessageQueue, int]] | None = None
        self._reported: dict[MessageQueue, int] = {}
        self._seen: dict[MessageQueue, int] = {}
        self._waiting_since_ms = 0
        self._unreachable_since_ms = 0

    # -- on the driver

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """Return the first position of a query with a new checkpoint."""
        link = self._link()
        held = chosen_queues(link, self._options)
        bounds = marks.bounds_of(held)
        starts = Edges(link, self._options, bounds).starts()
        begin = Position(starts, link.marks_at(marks.marked_places(starts, bounds)), marks.lives_of(held))
        # Spark 4.1 asks for it after the end of the first batch; that end must be kept, else the next batch goes back.
        self._last_end = self._last_end or begin
        return marks.to_json(begin)

    def latestOffset(  # noqa: N802 - Spark's name
        self, start: Mapping[str, Any] | None = None, limit: object | None = None
    ) -> dict[str, Any]:
        """Return the end of the next batch."""
        begin = marks.from_json(start) if start is not None else self._last_end
        if begin is not None:
            self._report(begin.offsets)
        try:
            end = self._next_end(begin, limit)
        except FireArrowError as error:
            now_ms = SystemClock().now_ms()
            self._unreachable_since_ms = self._unreachable_since_ms or now_ms
            may_wait = begin is not None and error.retryable and not self._lacks_routes
            if begin is None or not may_wait or now_ms - self._unreachable_since_ms >= UNREACHABLE_MS:
                raise
            log.warning("no broker could be asked for new messages: %s", error, extra={"reason": str(error)})
            return marks.to_json(begin)
        self._last_end, self._unreachable_since_ms = end, 0
        return marks.to_json(end)

    def _next_end(self, begin: Position | None, limit: object | None) -> Position:
        held = chosen_queues(self._link(), self._options, None if begin is None else begin.offsets)
        bounds = marks.bounds_of(held)
        self._seen = {queue: each.end for queue, each in bounds.items()}
        latest = self._within_target(bounds)
        if begin is None:
            return self._marked(latest, Position({}), held)
        starts = plan.complete(begin.offsets, {queue: bounds[queue].first for queue in latest})
        is_limited = not _is_everything(limit)
        has_changed = bool(marks.changed_queues(begin, held, marks.last_marks(begin.offsets, held)))
        if is_limited and not has_changed and not self._is_due(sum(plan.behind(starts, latest).values())):
            return begin
        changed = self._checked(begin, held)
        starts |= {each.queue: each.resume for each in changed}
        ends = self._limited(starts, latest) if is_limited else plan.merged(starts, latest)
        if ends == begin.offsets and not changed:
            return begin
        end = self._marked(ends, begin, held, {each.queue for each in changed})
        self._planned = (begin, end, starts)
        return end

    def _within_target(self, bounds: Mapping[MessageQueue, Bounds]) -> dict[MessageQueue, int]:
        """Return ends limited to the fixed end of this run and to given ends; other queues wait for the next run."""
        ends = {queue: each.end for queue, each in bounds.items()}
        asked = places.asked(self._options.ending, bounds) if self._options.ending.by_queue else None
        for limit in (self._target, asked):
            if limit is not None:
                ends = {queue: min(end, limit[queue]) for queue, end in ends.items() if queue in limit}
        return ends

    def _checked(self, at: Position, held: Mapping[MessageQueue, QueueExtent]) -> list[ReplacedQueue]:
        """Return the queues that have changed since the checkpoint; raise unless losses may be ignored.

        A queue that ends at its offset costs no request: the broker has told when its last message was stored.
        """
        link, bounds = self._link(), marks.bounds_of(held)
        known = {queue: offset for queue, offset in at.offsets.items() if queue in at.marks and queue in held}
        moved = {queue: offset for queue, offset in known.items() if bounds[queue].end != offset}
        marks_now = link.marks_at(marks.marked_places(moved, bounds)) | marks.last_marks(known, held)
        changed = marks.changed_queues(at, held, marks_now)
        later = link.offsets_at({queue: mark + 1 for queue, mark in changed.items() if mark is not None})
        found = marks.resumed(changed, at, held, later)
        report_losses(found, fails=self._options.fail_on_data_loss)
        return found

    def _marked(
        self,
        ends: dict[MessageQueue, int],
        begin: Position,
        held: Mapping[MessageQueue, QueueExtent],
        changed: Collection[MessageQueue] = (),
    ) -> Position:
        """Return an end with its marks and lives; marks of queues that neither advanced nor changed stay."""
        moved = {q: offset for q, offset in ends.items() if begin.offsets.get(q) != offset or q in changed}
        kept = {queue: mark for queue, mark in begin.marks.items() if queue not in moved}
        now = self._link().marks_at(marks.marked_places(moved, marks.bounds_of(held)))
        return Position(ends, kept | now, begin.lives | marks.lives_of(held))

    def _limited(self, starts: dict[MessageQueue, int], latest: dict[MessageQueue, int]) -> dict[MessageQueue, int]:
        options = self._options
        end = plan.merged(starts, latest)
        if options.max_offsets_per_trigger is not None:
            end = plan.limited_rows(starts, end, options.max_offsets_per_trigger)
        if options.max_bytes_per_trigger is not None and end != starts:
            end = plan.limited_bytes(starts, end, options.max_bytes_per_trigger, self._sizes(starts, end))
        return end

    def _is_due(self, rows: int) -> bool:
        """Whether a batch has enough rows, or has waited long enough."""
        least = self._options.min_offsets_per_trigger
        if least is not None and 0 < rows < least and self._target is None:
            now_ms = SystemClock().now_ms()
            self._waiting_since_ms = self._waiting_since_ms or now_ms
            if now_ms - self._waiting_since_ms < self._options.max_trigger_delay_ms:
                return False
        self._waiting_since_ms = 0
        return True

    def _sizes(self, begin: dict[MessageQueue, int], end: dict[MessageQueue, int]) -> dict[MessageQueue, float]:
        backlog = plan.behind(begin, end)
        most = sorted((queue for queue, rows in backlog.items() if rows), key=lambda queue: (-backlog[queue], queue))
        found = self._link().sizes({queue: begin[queue] for queue in most[:SAMPLED_QUEUES]})
        usual = sum(found.values()) / len(found) if found else 1.0
        return {queue: found.get(queue, usual) for queue in end}

    def getDefaultReadLimit(self) -> Any:  # noqa: ANN401, N802 - not every Spark has its type
        """Return the default limit of a batch; `latestOffset` applies the limits of the options."""
        from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxBytes, ReadMaxRows, ReadMinRows

        options = self._options
        if options.max_offsets_per_trigger is not None:
            return ReadMaxRows(options.max_offsets_per_trigger)
        if options.max_bytes_per_trigger is not None:
            return ReadMaxBytes(options.max_bytes_per_trigger)
        least = options.min_offsets_per_trigger
        return ReadAllAvailable() if least is None else ReadMinRows(least)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        """Fix the end of this run; later messages belong to the next run.

        A topic without a route has no end: `latestOffset` compares it with the checkpoint, tells whether it is deleted,
        and fails if its broker is away.
        """
        link = self._link()
        topics = link.topics(self._options.chosen)
        held = link.held_of_routed(topics)
        self._target = {queue: each.bounds.end for queue, each in held.items()}
        self._lacks_routes = not set(topics) <= {queue.topic for queue in held}

    def reportLatestOffset(self) -> OffsetsJson | None:  # noqa: N802 - Spark's name
        """Return the present ends of the topics, from which Spark computes the lag of the query."""
        return plan.to_json(self._seen) if self._seen else None

    def partitions(self, start: Mapping[str, Any], end: Mapping[str, Any]) -> Sequence[InputPartition]:
        """Plan the tasks of a batch; after a restart the same batch gives the same tasks."""
        options, begin, until = self._options, marks.from_json(start), marks.from_json(end)
        self._last_end = self._last_end or until
        moved = marks.moved_queues(begin, until)
        if not moved:
            return [SpanPartition(())]
        before = {queue: begin.offsets.get(queue, 0) for queue in moved}
        seen = view(self._link(), sorted({queue.topic for queue in moved}), before)
        report_losses(seen.losses, fails=options.fail_on_data_loss)
        held, bounds = seen.held, marks.bounds_of(seen.held)
        spans = self._spans(begin, until, moved - seen.given_up, held)
        firsts = {queue: each.first for queue, each in bounds.items()}
        losses = plan.lost(spans, firsts, {queue: each.end for queue, each in bounds.items()})
        report_losses(losses, fails=options.fail_on_data_loss)
        found = plan.tasks(plan.without(spans, losses), options.planning)
        return [SpanPartition(spans) for spans in found] or [SpanPartition(())]

    def _spans(
        self,
        begin: Position,
        until: Position,
        moved: Collection[MessageQueue],
        held: Mapping[MessageQueue, QueueExtent],
    ) -> list[Span]:
        """Return the spans of a batch; check it first, unless this process planned it and no topic is new since."""
        ends = {queue: until.offsets[queue] for queue in sorted(moved)}
        planned = self._planned
        is_new = any(queue in held and marks.has_new_life(queue, until.lives, held) for queue in moved)
        if planned is not None and planned[:2] == (begin, until) and not is_new:
            starts = planned[2]
        else:
            starts = plan.complete(begin.offsets, {q: held[q].bounds.first if q in held else 0 for q in moved})
            starts |= {each.queue: each.resume for each in self._checked(_only(begin, moved), held)}
            ends |= {
                each.queue: min(ends[each.queue], each.resume) for each in self._checked(_only(until, moved), held)
            }
        return [Span(queue, starts[queue], end) for queue, end in ends.items() if end > starts[queue]]

    def commit(self, end: Mapping[str, Any]) -> None:
        """Do nothing: Spark will not ask for offsets before ``end`` again."""
        self._report(plan.from_json(end))

    def stop(self) -> None:
        """Do nothing: connections end with the process."""

    def _report(self, done: dict[MessageQueue, int]) -> None:
        if not self._options.reports_progress:
            return
        news = {queue: offset for queue, offset in done.items() if offset != self._reported.get(queue)}
        if news:
            self._link().report(news)
            self._reported.update(news)

    def _link(self) -> Link:
        return link_of(self._options.connection, self._options.fetching)

    # -- in tasks

    def read(self, partition: InputPartition) -> Iterator["pa.RecordBatch"]:
        """Read one task's rows."""
        assert isinstance(partition, SpanPartition)
        return read_spans(ReadPlan(self._options, self._columns), partition.spans)


def _only(position: Position, queues: Collection[MessageQueue]) -> Position:
    """Return the part of a position for some queues."""
    offsets = {queue: offset for queue, offset in position.offsets.items() if queue in queues}
    return Position(offsets, position.marks, position.lives)


def _is_everything(limit: object | None) -> bool:
    """Whether Spark wants all there is at once, as Trigger.Once does."""
    return type(limit).__name__ == "ReadAllAvailable"
