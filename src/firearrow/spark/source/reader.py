"""The reader of one job over topics, and the reading code that jobs and streams share.

The driver plans, tasks read: a task calls only ``read_spans``, which yields Arrow batches of a few thousand rows, in
the order of each queue.
"""

import logging
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from msgspec import Struct
from msgspec.structs import replace
from pyspark.sql.datasource import DataSourceReader, InputPartition

from firearrow.client import Bounds, MessageQueue
from firearrow.client.consumer.hidden_queues import QueueExtent
from firearrow.errors import FireArrowError, NoRoute, SettingsError
from firearrow.spark.link import Link, link_of
from firearrow.spark.options import EARLIEST, LATEST, Bound, FetchOptions, SourceOptions
from firearrow.spark.source import places, plan
from firearrow.spark.source.fetch import Fetch, Records
from firearrow.spark.source.marks import ClosedQueue, DeletedTopic, ReplacedQueue, bounds_of
from firearrow.spark.source.plan import Loss, Offsets, Span
from firearrow.spark.source.pushdown import NarrowedRows, narrowed, narrowing_of
from firearrow.spark.source.row_decoder import gaps, heads_of, joined, rows_of

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.datasource import Filter

log: Final = logging.getLogger(__name__)


Lost = Loss | ReplacedQueue | ClosedQueue | DeletedTopic


class DataLost(FireArrowError):
    """Messages that a job or a stream should have read are missing."""

    def __init__(self, losses: Sequence[Lost]) -> None:
        shown = "; ".join(str(loss) for loss in losses[:10])
        more = f"; and {len(losses) - 10} more gaps" if len(losses) > 10 else ""
        super().__init__(
            f"data was lost: {shown}{more}. Set failOnDataLoss to false to go on with what is there, "
            "or start at offsets that are there"
        )


class SpanPartition(InputPartition):
    """The spans that one task reads."""

    def __init__(self, spans: Sequence[Span]) -> None:
        super().__init__(tuple(spans))
        self.spans: tuple[Span, ...] = tuple(spans)


class ReadPlan(Struct, frozen=True):
    """The options, columns and filters of a task, besides its spans."""

    options: SourceOptions
    columns: tuple[str, ...]
    narrowing: NarrowedRows = NarrowedRows()

    def sets(self) -> dict[str, frozenset[str]]:
        """The tags and keys that rows must have: brokers compare only hashes of tags."""
        found: dict[str, frozenset[str]] = {}
        tags = self.options.fetching.tags
        if tags not in ("", "*"):
            found["tags"] = frozenset(part.strip() for part in tags.split("||"))
        elif self.narrowing.tags is not None:
            found["tags"] = self.narrowing.tags
        if self.narrowing.keys is not None:
            found["keys"] = self.narrowing.keys
        return found

    @property
    def fetching(self) -> FetchOptions:
        """The options of pulls; tags of a condition are sent to the brokers."""
        fetching, pushed = self.options.fetching, self.narrowing.tag_expression
        is_free = not fetching.is_filtered
        return replace(fetching, tags=pushed) if pushed and is_free else fetching


def report_losses(losses: Sequence[Lost], *, fails: bool) -> None:
    """Raise ``DataLost``, or log the losses if they may be ignored."""
    if losses and fails:
        raise DataLost(losses)
    for loss in losses:
        log.warning("data was lost, failOnDataLoss is false: %s", loss, extra={"loss": str(loss)})


def read_spans(reading: ReadPlan, spans: Sequence[Span]) -> Iterator["pa.RecordBatch"]:
    """The rows of some spans."""
    options, decoding = reading.options, reading.options.decoding
    link = link_of(options.connection, options.fetching)
    fetch = Fetch(link, spans, reading.fetching)
    try:
        while found := link.portal.call(fetch.next(decoding.batch_rows, decoding.batch_bytes)):
            report_losses([each.loss for each in found if each.loss], fails=options.fail_on_data_loss)
            for some in joined(found, decoding.batch_bytes):
                yield from _rows(reading, some, is_filtered=fetch.is_filtered)
    finally:
        link.portal.call(fetch.close())


def _rows(reading: ReadPlan, some: Sequence[Records], *, is_filtered: bool) -> Iterator["pa.RecordBatch"]:
    options = reading.options
    heads = heads_of(some)
    if not is_filtered:
        report_losses(gaps(some, heads), fails=options.fail_on_data_loss)
    yield from rows_of(heads, reading.columns, reading.sets(), some[0].span.queue.broker_name, options.decoding)


# -- where queues begin and end


class Edges:
    """Turns the starting and ending options into offsets; asks brokers for the offsets of times."""

    def __init__(self, link: Link, options: SourceOptions, bounds: Mapping[MessageQueue, Bounds]) -> None:
        places.require_assigned(options.chosen.assigned, bounds)
        self._link = link
        self._options = options
        self._bounds = bounds

    def starts(self) -> dict[MessageQueue, int]:
        """Return the first offset of each queue; given offsets that a queue does not have are a loss."""
        options, bounds = self._options, self._bounds
        found = self._offsets(options.starting, EARLIEST)
        report_losses(places.outside(found, bounds), fails=options.fail_on_data_loss)
        if options.starting.kind == "time" and options.starting_strategy == "error":
            for queue, offset in found.items():
                if offset >= bounds[queue].end:
                    raise SettingsError(
                        f"nothing was stored in {queue.topic} on {queue.broker_name}, queue {queue.queue_id}, since "
                        "the starting time; startingOffsetsByTimestampStrategy latest would begin at its end"
                    )
        return places.inside(found, bounds)

    def ends(self) -> dict[MessageQueue, int]:
        """Return the end offset of each queue."""
        return self._offsets(self._options.ending, LATEST)

    def _offsets(self, bound: Bound, otherwise: int) -> dict[MessageQueue, int]:
        asked = places.asked(bound, self._bounds)
        if bound.kind == "time":
            at = self._link.offsets_at(asked)
            return {
                queue: max(first, min(at[queue], end)) if queue in at else plan.resolved(None, first, end, otherwise)
                for queue, (first, end) in self._bounds.items()
            }
        return {
            queue: plan.resolved(asked.get(queue), first, end, otherwise)
            for queue, (first, end) in self._bounds.items()
        }


class View(Struct, frozen=True):
    """The queues of some topics at their brokers, for a reader with a checkpoint."""

    held: dict[MessageQueue, QueueExtent]
    """The queues that can be read."""
    losses: list[ClosedQueue | DeletedTopic]
    given_up: frozenset[MessageQueue]
    """Queues of the checkpoint that cannot be read."""


def view(link: Link, topics: Collection[str], known: Offsets) -> View:
    """Return what brokers show of topics; raise ``NoRoute`` if a topic of the checkpoint has no broker now.

    ``known`` is the checkpoint: queues that have no messages any more are returned as empty ones. A topic that is
    deleted, on one broker or on all, and a queue with unread messages that may not be read, are losses.
    """
    held = link.held(topics, known)
    routed, checked = _places_of(held), _places_of(known)
    gone = link.deleted(checked - routed) if checked - routed else set()
    existing = {topic for topic, _ in routed | (checked - gone)}
    silent = sorted(existing.intersection(topics) - {topic for topic, _ in routed})
    if silent:
        raise NoRoute(f"no name server knows a broker of topic {silent[0]} now")
    closed = {queue: each for queue, each in held.items() if not each.is_readable}
    given_up = {*closed, *(queue for queue in known if (queue.topic, queue.broker_name) in gone)}
    readable = {queue: each for queue, each in held.items() if each.is_readable}
    return View(readable, [*_deleted(gone, existing), *_unread(closed, known)], frozenset(given_up))


def _places_of(queues: Iterable[MessageQueue]) -> set[tuple[str, str]]:
    """Return the topics of queues, each with the name of a broker."""
    return {(queue.topic, queue.broker_name) for queue in queues}


def _deleted(gone: Collection[tuple[str, str]], existing: Collection[str]) -> Iterator[DeletedTopic]:
    yield from (DeletedTopic(topic) for topic in sorted({topic for topic, _ in gone} - set(existing)))
    yield from (DeletedTopic(topic, broker) for topic, broker in sorted(gone) if topic in existing)


def _unread(closed: Mapping[MessageQueue, QueueExtent], known: Offsets) -> Iterator[ClosedQueue]:
    for queue, each in sorted(closed.items()):
        offset = known.get(queue, each.bounds.first)
        if offset < each.bounds.end:
            yield ClosedQueue(queue, offset)


def chosen_queues(link: Link, options: SourceOptions, known: Offsets | None = None) -> dict[MessageQueue, QueueExtent]:
    """Return what logs have of the chosen queues, and report what is lost of the queues of a checkpoint (`view`)."""
    seen = view(link, link.topics(options.chosen), known or {})
    held = seen.held
    losses = seen.losses if options.fail_on_data_loss else link.news(seen.losses)
    report_losses(losses, fails=options.fail_on_data_loss)
    if options.chosen.assigned:
        held = {queue: each for queue, each in held.items() if places.is_assigned(options.chosen.assigned, queue)}
    if options.fetching.from_replica:
        link.require_replicas(held)
    return held


def chosen_bounds(link: Link, options: SourceOptions) -> dict[MessageQueue, Bounds]:
    """Return the present bounds of the chosen queues, as far as logs have messages of them."""
    return bounds_of(chosen_queues(link, options))


class TopicsReader(DataSourceReader):
    """Reads topics in one job."""

    def __init__(self, options: SourceOptions, columns: tuple[str, ...]) -> None:
        self._options = options
        self._columns = columns
        self._narrowing = NarrowedRows()

    def partitions(self) -> Sequence[InputPartition]:
        """Plan the tasks."""
        options = self._options
        link = link_of(options.connection, options.fetching)
        bounds = chosen_bounds(link, options)
        edges = Edges(link, options, bounds)
        starts, ends = edges.starts(), edges.ends()
        places.require_order(options.starting, options.ending, bounds)
        spans = [Span(queue, starts[queue], max(starts[queue], ends[queue])) for queue in sorted(bounds)]
        spans = self._narrow(link, spans)
        first = {queue: each.first for queue, each in bounds.items()}
        losses = plan.lost(spans, first, {queue: each.end for queue, each in bounds.items()})
        report_losses(losses, fails=options.fail_on_data_loss)
        found = plan.tasks(plan.without(spans, losses), options.planning)
        return [SpanPartition(spans) for spans in found] or [SpanPartition(())]

    def _narrow(self, link: Link, spans: list[Span]) -> list[Span]:
        spans = narrowed(spans, self._narrowing)
        for is_start, time_ms in ((True, self._narrowing.from_ms), (False, self._narrowing.before_ms)):
            if time_ms is not None and spans:
                at = link.offsets_at({span.queue: time_ms for span in spans})
                spans = plan.clipped(spans, at, is_start=is_start)
        return spans

    def read(self, partition: InputPartition) -> Iterator["pa.RecordBatch"]:
        """Read one task's rows."""
        assert isinstance(partition, SpanPartition)
        return read_spans(ReadPlan(self._options, self._columns, self._narrowing), partition.spans)


class PushingTopicsReader(TopicsReader):
    """A reader with pushdown. Spark refuses readers with pushdown unless the session enables it, so it is separate."""

    def pushFilters(self, filters: "list[Filter]") -> "list[Filter]":  # noqa: N802 - Spark's name
        """Note the conditions that the source applies; Spark applies all of them again."""
        self._narrowing = narrowing_of(filters)
        return filters
