"""Topics as a stream: where a micro-batch begins and ends, how much it takes, what is reported to brokers.

One instance lives in a process of the driver for the life of a query and keeps state between calls; another one is
shipped to tasks and only reads. What Spark calls, in order: ``latestOffset(start, limit)``, ``partitions(start, end)``,
tasks ``read``. ``start`` is the end of the last batch that is finished, so it, and not ``commit`` (which comes one
batch late and not at all for the last one), is what a group's progress is taken from.

A queue that is new begins at its first message. A queue that is not to be seen for a while keeps its place: it goes on
when it is back. While no broker can be asked a batch has nothing new, and the query lives on.

Spark 4.1 knows neither limits nor ``start``: there the source remembers where it was. It asks for the end of the first
batch of a run before it says where that batch begins, so this one is not limited, and a queue that no route shows at
that moment is taken for a new one when it is back.
"""

import logging
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from firearrow.client import Bounds, MessageQueue
from firearrow.errors import FireArrowError
from firearrow.runtime.clock import SystemClock
from firearrow.spark import plan
from firearrow.spark.link import Link, link_of
from firearrow.spark.options import SourceOptions
from firearrow.spark.plan import OffsetsJson, Span
from firearrow.spark.reader import Edges, Reading, SpanPartition, chosen_bounds, read_spans, report_losses

if TYPE_CHECKING:
    import pyarrow as pa

log: Final = logging.getLogger(__name__)

SAMPLED_QUEUES: Final = 32
"""Queues whose record sizes are sampled for one batch at most; the others count as the average of these."""


def _available_now() -> type:
    """Spark's mark for sources that can stop at a fixed end; nothing before 4.2."""
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
        self._last_end: dict[MessageQueue, int] | None = None
        self._reported: dict[MessageQueue, int] = {}
        self._seen: dict[MessageQueue, int] = {}
        self._waiting_since_ms = 0

    # -- on the driver

    def initialOffset(self) -> OffsetsJson:  # noqa: N802 - Spark's name
        """Where a query with a new checkpoint begins."""
        link = self._link()
        starts = Edges(link, self._options, chosen_bounds(link, self._options)).starts()
        # Spark 4.1 asks for it after the end of the first batch, which must not be forgotten: the next would go back.
        self._last_end = self._last_end or starts
        return plan.to_json(starts)

    def latestOffset(  # noqa: N802 - Spark's name
        self, start: Mapping[str, Any] | None = None, limit: object | None = None
    ) -> OffsetsJson:
        """Where the next batch ends."""
        begin = plan.from_json(start) if start is not None else self._last_end
        if begin is not None:
            self._report(begin)
        latest = self._latest(begin)
        if latest is None:
            return plan.to_json(begin or {})
        self._seen = latest
        if self._target is not None:
            latest = {queue: min(offset, self._target.get(queue, 0)) for queue, offset in latest.items()}
        end = plan.merged(begin or {}, latest)
        if begin is not None and not _is_everything(limit):
            end = self._limited(begin, latest)
        self._last_end = end
        return plan.to_json(end)

    def _latest(self, begin: Mapping[MessageQueue, int] | None) -> dict[MessageQueue, int] | None:
        """Where queues end now; None while nobody can be asked."""
        try:
            bounds = chosen_bounds(self._link(), self._options)
        except FireArrowError as error:
            if begin is None or not error.retryable:
                raise
            log.warning("no broker could be asked for new messages", extra={"reason": str(error)})
            return None
        return {queue: each.end for queue, each in bounds.items()}

    def _limited(self, begin: dict[MessageQueue, int], latest: dict[MessageQueue, int]) -> dict[MessageQueue, int]:
        options = self._options
        rows = sum(plan.behind(begin, latest).values())
        if rows and not self._is_due(rows):
            return plan.merged(begin, begin)
        end = plan.merged(begin, latest)
        if options.max_offsets_per_trigger is not None:
            end = plan.limited_rows(begin, end, options.max_offsets_per_trigger)
        if options.max_bytes_per_trigger is not None and rows:
            end = plan.limited_bytes(begin, end, options.max_bytes_per_trigger, self._sizes(begin, end))
        return end

    def _is_due(self, rows: int) -> bool:
        """Whether enough has gathered, or has waited for long enough."""
        least = self._options.min_offsets_per_trigger
        if least is not None and rows < least and self._target is None:
            now_ms = SystemClock().now_ms()
            self._waiting_since_ms = self._waiting_since_ms or now_ms
            if now_ms - self._waiting_since_ms < self._options.max_trigger_delay_ms:
                return False
        self._waiting_since_ms = 0
        return True

    def _sizes(self, begin: dict[MessageQueue, int], end: dict[MessageQueue, int]) -> dict[MessageQueue, float]:
        backlog = plan.behind(begin, end)
        most = sorted((queue for queue, rows in backlog.items() if rows), key=lambda queue: (-backlog[queue], queue))
        found = self._link().sizes({queue: begin.get(queue, 0) for queue in most[:SAMPLED_QUEUES]})
        usual = sum(found.values()) / len(found) if found else 1.0
        return {queue: found.get(queue, usual) for queue in end}

    def getDefaultReadLimit(self) -> Any:  # noqa: ANN401, N802 - not every Spark has its type
        """How much a batch takes when the trigger does not say. What it is limited to is for `latestOffset` to know."""
        from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxBytes, ReadMaxRows, ReadMinRows

        options = self._options
        if options.max_offsets_per_trigger is not None:
            return ReadMaxRows(options.max_offsets_per_trigger)
        if options.max_bytes_per_trigger is not None:
            return ReadMaxBytes(options.max_bytes_per_trigger)
        least = options.min_offsets_per_trigger
        return ReadAllAvailable() if least is None else ReadMinRows(least)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        """Fix the end: what comes later is for the next run."""
        bounds = chosen_bounds(self._link(), self._options)
        self._target = {queue: each.end for queue, each in bounds.items()}

    def reportLatestOffset(self) -> OffsetsJson | None:  # noqa: N802 - Spark's name
        """Where the topics end, for those who watch how far the query is behind."""
        return plan.to_json(self._seen) if self._seen else None

    def partitions(self, start: Mapping[str, Any], end: Mapping[str, Any]) -> Sequence[InputPartition]:
        """Plan the tasks of a batch, the same one again after a restart."""
        options, begins, ends = self._options, plan.from_json(start), plan.from_json(end)
        self._last_end = self._last_end or ends
        moved = {queue: offset for queue, offset in ends.items() if offset > begins.get(queue, 0)}
        if not moved:
            return [SpanPartition(())]
        bounds = self._bounds_of(moved)
        spans = [Span(q, _begin(q, begins, bounds), offset) for q, offset in sorted(moved.items())]
        firsts = {queue: each.first for queue, each in bounds.items()}
        losses = plan.lost(spans, firsts, {queue: each.end for queue, each in bounds.items()})
        report_losses(losses, fails=options.fail_on_data_loss)
        found = plan.tasks(plan.without(spans, losses), options.planning)
        return [SpanPartition(spans) for spans in found] or [SpanPartition(())]

    def _bounds_of(self, moved: Mapping[MessageQueue, int]) -> dict[MessageQueue, Bounds]:
        return self._link().bounds(sorted({queue.topic for queue in moved}))

    def commit(self, end: Mapping[str, Any]) -> None:
        """Spark will not ask for anything before ``end`` any more."""
        self._report(plan.from_json(end))

    def stop(self) -> None:
        """Nothing is left to do: connections end with the process."""

    def _report(self, done: dict[MessageQueue, int]) -> None:
        if not self._options.reports_progress:
            return
        news = {queue: offset for queue, offset in done.items() if offset > self._reported.get(queue, -1)}
        if news:
            self._link().report(news)
            self._reported.update(news)

    def _link(self) -> Link:
        return link_of(self._options.connection, self._options.fetching)

    # -- in tasks

    def read(self, partition: InputPartition) -> Iterator["pa.RecordBatch"]:
        """Read one task's rows."""
        assert isinstance(partition, SpanPartition)
        return read_spans(Reading(self._options, self._columns), partition.spans)


def _begin(queue: MessageQueue, begins: Mapping[MessageQueue, int], bounds: Mapping[MessageQueue, Bounds]) -> int:
    """Where a queue goes on; a new one begins at its first message."""
    if queue in begins:
        return begins[queue]
    return bounds[queue].first if queue in bounds else 0


def _is_everything(limit: object | None) -> bool:
    """Whether Spark wants all there is at once, as Trigger.Once does."""
    return type(limit).__name__ == "ReadAllAvailable"
