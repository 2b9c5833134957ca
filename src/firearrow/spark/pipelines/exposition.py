"""The metrics of watched queries, for Prometheus. See `progress` for what they mean.

A query is *stuck* if it is active and ``progress_timestamp_seconds`` stands still, *dead* if ``active`` is 0 or nobody
answers, *behind* if its lag grows; `examples/prometheus/pipeline-alerts.yml` has the rules.
"""

from collections.abc import Callable, Iterator
from typing import Final

from firearrow.runtime import exposition
from firearrow.runtime.exposition import ServedMetrics
from firearrow.spark.pipelines.progress import QueryState, WatchedQueries
from firearrow.telemetry.metrics import Family, Kind

Value = Callable[[QueryState], float]
OF_QUERY: Final[tuple[tuple[str, Kind, str, Value], ...]] = (
    ("active", "gauge", "1 while the query runs, 0 when it has ended or failed", lambda q: float(q.is_active)),
    ("heartbeat_timestamp_seconds", "gauge", "When the job last saw the query alive", lambda q: q.seen_s),
    ("progress_timestamp_seconds", "gauge", "When Spark last reported progress or idleness", lambda q: q.reported_s),
    ("batch", "gauge", "Number of the last batch", lambda q: q.latest.batch),
    ("batch_seconds", "gauge", "Duration of the last batch", lambda q: q.latest.seconds),
    ("commit_seconds", "gauge", "Part of the last batch that wrote and noted it", lambda q: q.latest.commit_seconds),
    ("rows_per_second", "gauge", "Rows a second of the last batch", lambda q: q.latest.rows_per_second),
    ("batches_total", "counter", "Batches with rows since the start", lambda q: q.batches),
    ("rows_total", "counter", "Rows read since the start", lambda q: q.rows),
    ("written_rows_total", "counter", "Rows written since the start", lambda q: q.written),
)


def families(watched: WatchedQueries, now_s: float) -> Iterator[Family]:
    """The metrics of all queries."""
    states = list(watched.queries.values())
    for name, kind, says, value in OF_QUERY:
        yield Family(name, kind, says, tuple(((("query", q.latest.query),), value(q)) for q in states))
    bad = [state for state in states if state.latest.query.endswith("quarantine")]
    quarantined = tuple(((("query", q.latest.query),), float(q.written)) for q in bad)
    yield Family("quarantined_rows_total", "counter", "Rows that went to the quarantine since the start", quarantined)
    queues = [(state.latest.query, queue) for state in states for queue in state.latest.queues]
    lags = tuple(((("query", query), ("queue", queue.queue)), float(queue.lag)) for query, queue in queues)
    yield Family("lag_messages", "gauge", "Messages of a queue stored and not read", lags)
    ages = tuple(((("query", query), ("queue", queue.queue)), queue.seconds(now_s)) for query, queue in queues)
    yield Family("lag_seconds", "gauge", "Age of the last read message of a queue with unread ones", ages)


def serve(watched: WatchedQueries, address: str, now_s: Callable[[], float]) -> ServedMetrics:
    """Serve the metrics at ``http://ADDRESS/metrics``; port 0 lets the operating system choose one."""
    return exposition.serve(lambda: families(watched, now_s()), address)
