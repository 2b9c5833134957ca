"""Metrics handed to prometheus-client and to OpenTelemetry, each imported when it is first used.

OpenTelemetry knows no histogram that is read when somebody asks: a histogram is three counters there, with the names
that Prometheus writes (``..._bucket`` with the label ``le``, ``..._sum``, ``..._count``).
"""

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final

from firearrow.telemetry.metrics import Collect, Family, Histogram, Labels

if TYPE_CHECKING:
    from opentelemetry.metrics import CallbackOptions, Meter, Observation
    from prometheus_client.core import Metric

_TOTAL: Final = "_total"


def prometheus_metrics(families: Iterable[Family]) -> "Iterator[Metric]":
    """Yield families as prometheus-client wants them from a collector."""
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily

    kinds: dict[str, Any] = {
        "counter": CounterMetricFamily,
        "gauge": GaugeMetricFamily,
        "histogram": HistogramMetricFamily,
    }
    for family in families:
        samples = [sample for sample in family.samples if sample is not None]
        names = [key for key, _ in samples[0][0]] if samples else None
        metric = kinds[family.kind](family.name.removesuffix(_TOTAL), family.says, labels=names)
        for labels, value in samples:
            texts = [text for _, text in labels]
            if isinstance(value, Histogram):
                metric.add_metric(texts, list(_buckets(value)), value.total)
            else:
                metric.add_metric(texts, value)
        yield metric


def _buckets(histogram: Histogram) -> Iterator[tuple[str, float]]:
    seen = 0
    for bound, count in zip((*map(float, histogram.bounds), "+Inf"), list(histogram.counts), strict=True):
        seen += count
        yield str(bound), seen


def observe(meter: "Meter", collect: Collect) -> None:
    """Have a meter of OpenTelemetry read all families, whenever its reader asks."""
    for family in collect():
        if family.kind == "histogram":
            for end, samples in _PARTS.items():
                name = family.name + end
                meter.create_observable_counter(name, [_callback(collect, family.name, samples)], "", family.says)
        elif family.kind == "counter":
            name = family.name.removesuffix(_TOTAL)
            meter.create_observable_counter(name, [_callback(collect, family.name, _value)], "", family.says)
        else:
            meter.create_observable_gauge(family.name, [_callback(collect, family.name, _value)], "", family.says)


_Observed = Callable[[Labels, Any], Iterable[tuple[Labels, float]]]


def _callback(collect: Collect, name: str, observed: _Observed) -> "Callable[[CallbackOptions], Iterable[Observation]]":
    def call(_options: "CallbackOptions") -> "Iterator[Observation]":
        from opentelemetry.metrics import Observation

        family = next(family for family in collect() if family.name == name)
        for sample in family.samples:
            if sample is not None:
                for labels, value in observed(*sample):
                    yield Observation(value, dict(labels))

    return call


def _value(labels: Labels, value: float) -> Iterator[tuple[Labels, float]]:
    yield labels, value


def _bucket_counts(labels: Labels, value: Histogram) -> Iterator[tuple[Labels, float]]:
    for bound, seen in _buckets(value):
        yield (*labels, ("le", bound)), seen


def _sum(labels: Labels, value: Histogram) -> Iterator[tuple[Labels, float]]:
    yield labels, value.total


def _count(labels: Labels, value: Histogram) -> Iterator[tuple[Labels, float]]:
    yield labels, value.count


_PARTS: Final[dict[str, _Observed]] = {"_bucket": _bucket_counts, "_sum": _sum, "_count": _count}
