"""A listener for queries of one's own: what `firearrow pipeline archive` shows of its queries, for any query of Spark.

    from firearrow.spark.pipelines.listener import QueryMetrics

    metrics = QueryMetrics()
    spark.streams.addListener(metrics)
    metrics.serve("0.0.0.0:9401")           # http://host:9401/metrics, needs the extra metrics

Queries that read ``format("rocketmq")`` show the lag of every queue; give them names (``queryName``), which become
labels. To count what a query writes, call ``counted(frame)`` on what it writes.
"""

import json
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F  # noqa: N812 - the name everyone uses
from pyspark.sql.streaming.listener import StreamingQueryListener

from firearrow.runtime.clock import Clock, SystemClock
from firearrow.runtime.exposition import ServedMetrics, as_text
from firearrow.spark.pipelines.exposition import families, serve
from firearrow.spark.pipelines.progress import OBSERVED, WRITTEN, WatchedQueries

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class QueryMetrics(StreamingQueryListener):
    """Watches the queries of a session."""

    def __init__(self, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()
        self.watched = WatchedQueries()

    def _now_s(self) -> float:
        return self._clock.now_ms() / 1000

    def serve(self, address: str) -> ServedMetrics:
        """Serve the metrics over HTTP."""
        return serve(self.watched, address, self._now_s)

    def text(self) -> str:
        """The metrics in Prometheus's text format."""
        return as_text(families(self.watched, self._now_s()))

    def onQueryStarted(self, event: Any) -> None:  # noqa: ANN401, N802 - Spark's name and type
        """Note a query that begins."""
        self.watched.begin(str(event.id), event.name or str(event.id), self._now_s())

    def onQueryProgress(self, event: Any) -> None:  # noqa: ANN401, N802 - Spark's name and type
        """Note a batch."""
        report = json.loads(event.progress.json)
        name, now_s = str(report["id"]), self._now_s()
        self.watched.fresh(name, [report], now_s)
        self.watched.saw(name, now_s, is_active=True)

    def onQueryIdle(self, event: Any) -> None:  # noqa: ANN401, N802 - Spark's name and type
        """Note that a query found no rows."""
        self.watched.idle(str(event.id), self._now_s())

    def onQueryTerminated(self, event: Any) -> None:  # noqa: ANN401, N802 - Spark's name and type
        """Note that a query has ended."""
        self.watched.saw(str(event.id), self._now_s(), is_active=False)


def counted(frame: "DataFrame") -> "DataFrame":
    """The same rows, which Spark counts: progress reports of the query that writes them have the number."""
    return frame.observe(OBSERVED, F.count(F.lit(1)).alias(WRITTEN))
