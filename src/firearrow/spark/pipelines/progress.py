"""Progress of streaming queries: rows, lag of every queue in messages and seconds, for people and metrics. Pure.

Input is what Spark reports of a batch (``StreamingQuery.recentProgress``, or a listener's event) as a dictionary.

The lag in seconds of a queue with unread messages is the time since its last read message was stored, which the offsets
of our source carry. The oldest unread message is younger than that, so the lag is never more than this says.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from msgspec import Struct

from firearrow.spark.options import BESIDE_OFFSETS, MARKS

OBSERVED: Final = "firearrow"
"""The name of the observation that counts the rows written by a query, in ``observedMetrics``."""
WRITTEN: Final = "rows"
COMMITS: Final = ("addBatch", "walCommit", "commitOffsets", "commitBatch")
"""The parts of a batch in which it is written and noted, as Spark names them in ``durationMs``."""


class QueueLag(Struct, frozen=True):
    """The next offset of one queue, and its lag."""

    queue: str
    offset: int
    lag: int
    stored_ms: int = 0
    """The store time of the message before ``offset``; 0 if it is not known."""

    def seconds(self, now_s: float) -> float:
        """Return how old the last read message is if there are unread ones, else 0."""
        return max(0.0, now_s - self.stored_ms / 1000) if self.lag and self.stored_ms else 0.0


class BatchProgress(Struct, frozen=True):
    """One finished batch."""

    query: str
    batch: int
    rows: int
    rows_per_second: float
    seconds: float
    queues: tuple[QueueLag, ...]
    written: int | None = None
    """Rows that the query wrote; None if that is not known."""
    at: str = ""
    """The time at which the batch began, as Spark writes it."""
    commit_seconds: float = 0.0
    """The part of ``seconds`` in which rows were written and the batch was noted."""

    @property
    def lag(self) -> int:
        """Messages that are stored and not read."""
        return sum(queue.lag for queue in self.queues)

    @property
    def ends(self) -> dict[str, int]:
        """The end of the batch in each queue."""
        return {queue.queue: queue.offset for queue in self.queues}

    def line(self) -> str:
        """One line for people."""
        return (
            f"{self.query:20} batch {self.batch:6} {self.rows:10,} rows {self.rows_per_second:10,.0f} rows/s "
            f"{self.seconds:7.1f} s  lag {self.lag:,} in {len(self.queues)} queues"
        )


def read_progress(report: Mapping[str, Any]) -> BatchProgress:
    """Return the progress in Spark's report of a batch."""
    queues: list[QueueLag] = []
    for source in report.get("sources", ()):
        end = _object(source.get("endOffset"))
        ends, latest = dict(_leaves(end)), dict(_leaves(_object(source.get("latestOffset"))))
        stored = dict(_leaves(end.get(MARKS))) if isinstance(end, dict) else {}
        queues += [
            QueueLag(name, offset, max(0, latest.get(name, offset) - offset), stored.get(name, 0))
            for name, offset in sorted(ends.items())
        ]
    seconds = report.get("batchDuration", 0) / 1000
    rows = report.get("numInputRows")
    if rows is None:  # through Spark Connect only the sources say it
        rows = sum(source.get("numInputRows", 0) for source in report.get("sources", ()))
    durations = report.get("durationMs") or {}
    return BatchProgress(
        report.get("name") or str(report.get("id", "")),
        report.get("batchId", -1),
        rows,
        rows / seconds if seconds else 0.0,
        seconds,
        tuple(queues),
        _written(report),
        str(report.get("timestamp", "")),
        sum(durations.get(part, 0) for part in COMMITS) / 1000,
    )


def _written(report: Mapping[str, Any]) -> int | None:
    observed = (report.get("observedMetrics") or {}).get(OBSERVED)
    return int(observed[WRITTEN]) if isinstance(observed, dict) and WRITTEN in observed else None


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
            if name in BESIDE_OFFSETS:
                continue
            yield from _leaves(inner, f"{path}/{name}" if path else str(name))


class QueryState(Struct):
    """The known state of one query."""

    latest: BatchProgress
    is_active: bool = True
    seen_s: float = 0.0
    """The time at which the query was last seen alive."""
    reported_s: float = 0.0
    """The time of Spark's last report of a batch, or of having no batch to make."""
    batches: int = 0
    rows: int = 0
    written: int = 0
    """Rows written since the start; rows read, where it is not known how many were written."""


class WatchedQueries:
    """The queries of a job, or of a session."""

    def __init__(self) -> None:
        self._last: dict[str, int] = {}
        self._ends: dict[str, dict[str, int]] = {}
        self.queries: dict[str, QueryState] = {}
        """The state of each query, by its id."""

    @property
    def latest(self) -> dict[str, BatchProgress]:
        """The last report of each query."""
        return {query: state.latest for query, state in self.queries.items()}

    def fresh(self, query: str, reports: Iterable[Mapping[str, Any]], now_s: float = 0.0) -> list[BatchProgress]:
        """The batches among these reports that were not seen before, those without rows only if an end moved forward.

        A filter may leave out every row of a batch. Where Spark made no batch, it reports the end of the last one.
        """
        found = []
        for report in reports:
            batch = read_progress(report)
            state = self.queries.setdefault(query, QueryState(batch))
            if batch.batch > self._last.get(query, -1):
                if batch.rows or self._moves(query, batch):
                    found.append(batch)
                if batch.rows:
                    self._ends[query] = batch.ends
                    self._last[query] = batch.batch
                    state.batches += 1
                    state.rows += batch.rows
                    state.written += batch.rows if batch.written is None else batch.written
                if batch.at != state.latest.at:
                    state.reported_s = now_s
                state.latest = batch
        return found

    def _moves(self, query: str, batch: BatchProgress) -> bool:
        """Note the ends of a batch without rows; return whether one lies before all that were seen of its queue."""
        known = self._ends.setdefault(query, {})
        ahead = {queue: offset for queue, offset in batch.ends.items() if offset > known.get(queue, -1)}
        known.update(ahead)
        return bool(ahead)

    def begin(self, query: str, name: str, now_s: float) -> None:
        """Note a query that begins."""
        state = QueryState(BatchProgress(name, -1, 0, 0.0, 0.0, ()), seen_s=now_s, reported_s=now_s)
        self.queries.setdefault(query, state)

    def saw(self, query: str, now_s: float, *, is_active: bool) -> None:
        """Note that a query is alive, or has ended."""
        state = self.queries.get(query)
        if state is not None:
            state.is_active = is_active
            if is_active:
                state.seen_s = now_s

    def idle(self, query: str, now_s: float) -> None:
        """Note that a query looked for rows and found none."""
        state = self.queries.get(query)
        if state is not None:
            state.reported_s = state.seen_s = now_s

    def summary(self, seconds: float) -> list[str]:
        """The closing lines of a job: one for each query."""
        return [
            f"{state.latest.query}: {state.rows:,} rows read, {state.written:,} written in {state.batches:,} batches, "
            f"{seconds:,.1f} s; lag {state.latest.lag:,}"
            for state in self.queries.values()
        ]
