"""The metrics of watched queries, for Prometheus: as text for a file, and over HTTP. See `progress` for what they mean.

A query is *stuck* if it is active and ``progress_timestamp_seconds`` stands still, *dead* if ``active`` is 0 or nobody
answers, *behind* if its lag grows; `examples/prometheus/pipeline-alerts.yml` has the rules.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct

from firearrow.errors import SettingsError
from firearrow.runtime.network import Address
from firearrow.spark.pipelines.progress import QueryState, Watched

if TYPE_CHECKING:
    from prometheus_client.core import Metric

PREFIX: Final = "firearrow_pipeline_"


class Family(Struct, frozen=True):
    """One metric with its samples, each with its labels."""

    name: str
    kind: str
    says: str
    samples: tuple[tuple[tuple[tuple[str, str], ...], float], ...]


Value = Callable[[QueryState], float]
OF_QUERY: Final[tuple[tuple[str, str, str, Value], ...]] = (
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


def families(watched: Watched, now_s: float) -> Iterator[Family]:
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


def as_text(found: Iterable[Family]) -> str:
    """Metrics in Prometheus's text format."""
    lines = []
    for family in found:
        name = PREFIX + family.name
        lines += [f"# HELP {name} {family.says}", f"# TYPE {name} {family.kind}"]
        for labels, value in family.samples:
            given = ",".join(f'{key}="{_quoted(text)}"' for key, text in labels)
            lines.append(f"{name}{{{given}}} {value!r}")
    return "\n".join(lines) + "\n"


def _quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')


class _Collector:
    """Hands the metrics of the present to prometheus-client."""

    def __init__(self, watched: Watched, now_s: Callable[[], float]) -> None:
        self._watched = watched
        self._now_s = now_s

    def collect(self) -> "Iterator[Metric]":
        """Yield the metrics."""
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

        for family in families(self._watched, self._now_s()):
            kind: Any = CounterMetricFamily if family.kind == "counter" else GaugeMetricFamily
            names = [key for key, _ in family.samples[0][0]] if family.samples else ["query"]
            metric = kind(PREFIX + family.name.removesuffix("_total"), family.says, labels=names)
            for labels, value in family.samples:
                metric.add_metric([text for _, text in labels], value)
            yield metric


class Served(Struct, frozen=True):
    """Metrics that are served over HTTP."""

    port: int
    close: Callable[[], None]


def serve(watched: Watched, address: str, now_s: Callable[[], float]) -> Served:
    """Serve the metrics at ``http://ADDRESS/metrics``; port 0 lets the operating system choose one."""
    try:
        from prometheus_client import CollectorRegistry, start_http_server
    except ModuleNotFoundError:
        raise SettingsError("metrics over HTTP need prometheus-client: pip install 'firearrow[metrics]'") from None
    where = Address.parse(address)
    registry = CollectorRegistry()
    registry.register(_Collector(watched, now_s))
    try:
        server, thread = start_http_server(where.port, where.host, registry)
    except OSError as wrong:
        raise SettingsError(
            f"metrics cannot be served at {address}: {wrong}; give another --metrics-address"
        ) from wrong

    def close() -> None:
        server.shutdown()
        server.server_close()
        thread.join()

    return Served(server.server_port, close)
