"""How far streaming queries are: rows a second and lag of every queue, for people and for metrics. Pure.

Input is what Spark reports of a finished batch (``StreamingQuery.recentProgress``) as a dictionary. Metrics are
Prometheus's text format.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from msgspec import Struct

from firearrow.spark.options import MARKS


class QueueLag(Struct, frozen=True):
    """How far one queue is."""

    queue: str
    offset: int
    lag: int


class BatchProgress(Struct, frozen=True):
    """One finished batch."""

    query: str
    batch: int
    rows: int
    rows_per_second: float
    seconds: float
    queues: tuple[QueueLag, ...]

    @property
    def lag(self) -> int:
        """Messages that are stored and not archived."""
        return sum(queue.lag for queue in self.queues)

    def line(self) -> str:
        """One line for people."""
        return (
            f"{self.query:20} batch {self.batch:6} {self.rows:10,} rows {self.rows_per_second:10,.0f} rows/s "
            f"{self.seconds:7.1f} s  lag {self.lag:,} in {len(self.queues)} queues"
        )


def read_progress(report: Mapping[str, Any]) -> BatchProgress:
    """What Spark reported of a batch."""
    queues: list[QueueLag] = []
    for source in report.get("sources", ()):
        ends = dict(_leaves(_object(source.get("endOffset"))))
        latest = dict(_leaves(_object(source.get("latestOffset"))))
        queues += [QueueLag(name, end, max(0, latest.get(name, end) - end)) for name, end in sorted(ends.items())]
    seconds = report.get("batchDuration", 0) / 1000
    rows = report.get("numInputRows")
    if rows is None:  # through Spark Connect only the sources say it
        rows = sum(source.get("numInputRows", 0) for source in report.get("sources", ()))
    return BatchProgress(
        report.get("name") or str(report.get("id", "")),
        report.get("batchId", -1),
        rows,
        rows / seconds if seconds else 0.0,
        seconds,
        tuple(queues),
    )


def _object(value: Any) -> Any:  # noqa: ANN401 - Spark's JSON
    return json.loads(value) if isinstance(value, str) else value


def _leaves(value: Any, path: str = "") -> Iterator[tuple[str, int]]:  # noqa: ANN401 - Spark's JSON
    """The numbers of an offset, under the path of names that leads to each."""
    if isinstance(value, bool):
        return
    if isinstance(value, int):
        yield path, value
    elif isinstance(value, dict):
        for name, inner in value.items():
            if name == MARKS:
                continue
            yield from _leaves(inner, f"{path}/{name}" if path else str(name))


def metrics(batches: Iterable[BatchProgress]) -> str:
    """The latest batch of each query in Prometheus's text format."""
    lines = []
    for name, kind, says in (
        ("rows", "gauge", "Rows of the last batch"),
        ("rows_per_second", "gauge", "Rows a second of the last batch"),
        ("batch", "gauge", "Number of the last batch"),
        ("lag", "gauge", "Messages stored and not archived"),
    ):
        lines += [f"# HELP firearrow_archive_{name} {says}", f"# TYPE firearrow_archive_{name} {kind}"]
        lines += [f'firearrow_archive_{name}{{query="{b.query}"}} {getattr(b, name)}' for b in batches]
    lines += ["# HELP firearrow_archive_queue_lag Messages of a queue stored and not archived"]
    lines += ["# TYPE firearrow_archive_queue_lag gauge"]
    lines += [
        f'firearrow_archive_queue_lag{{query="{batch.query}",queue="{queue.queue}"}} {queue.lag}'
        for batch in batches
        for queue in batch.queues
    ]
    return "\n".join(lines) + "\n"


class Watched:
    """Remembers which batches of a query were seen."""

    def __init__(self) -> None:
        self._last: dict[str, int] = {}
        self.latest: dict[str, BatchProgress] = {}

    def fresh(self, query: str, reports: Iterable[Mapping[str, Any]]) -> list[BatchProgress]:
        """The batches among these reports that were not seen before, idle ones left out."""
        found = []
        for report in reports:
            batch = read_progress(report)
            if batch.batch > self._last.get(query, -1):
                if batch.rows:
                    self._last[query] = batch.batch
                    found.append(batch)
                self.latest[query] = batch
        return found
