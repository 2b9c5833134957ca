"""Runs of a query's trigger `access.DRAIN` until its tables have what the topics held when the first run began.

From Spark 4.2 on one run does it. Before, a run is one batch: the batch that an earlier run left unfinished, or one as
large as ``maxOffsetsPerTrigger`` allows. There runs follow each other until every query has planned, and so committed,
the ends that were wanted; a run that got no further ends it too.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from firearrow.spark.link import link_of
from firearrow.spark.options import source_options
from firearrow.spark.pipelines import body_schemas
from firearrow.spark.source import places
from firearrow.spark.source.reader import chosen_bounds

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from firearrow.client import MessageQueue

    Ends = Mapping[MessageQueue, int]


def runs(
    spark: "SparkSession",
    checkpoints: Sequence[str],
    wanted: "Callable[[], Ends]",
    begin: "Callable[[], list[StreamingQuery]]",
) -> "Iterator[list[StreamingQuery]]":
    """Yield the queries of each run; the caller waits for their end before it takes the next ones."""
    if _drains_at_once(spark.version):
        yield begin()
        return
    ends = wanted()

    def planned() -> "list[dict[MessageQueue, int]]":
        return [body_schemas.planned_end(spark, checkpoint) for checkpoint in checkpoints]

    yield begin()
    before, now = None, planned()  # the first run may have repeated a batch, so it may have planned nothing
    while now != before and not all(_reaches(each, ends) for each in now):
        yield begin()
        before, now = now, planned()


def ends_of(source: Mapping[str, str]) -> "dict[MessageQueue, int]":
    """The present ends of the queues that a source reads, as far as its options let it."""
    options = source_options(source, is_stream=True)
    bounds = chosen_bounds(link_of(options.connection, options.fetching), options)
    ends = {queue: each.end for queue, each in bounds.items() if each.end > each.first}
    if not options.ending.by_queue:
        return ends
    asked = places.asked(options.ending, bounds)
    return {queue: min(end, asked[queue]) for queue, end in ends.items() if queue in asked}


def _drains_at_once(version: str) -> bool:
    major, minor = (int(part) for part in version.split(".")[:2])
    return (major, minor) >= (4, 2)


def _reaches(planned: "Ends", wanted: "Ends") -> bool:
    return all(planned.get(queue, -1) >= end for queue, end in wanted.items())
