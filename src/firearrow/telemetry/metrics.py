"""Metrics: counters, gauges and histograms of a process, and their text for Prometheus. Pure.

A counter is one addition, a histogram one search among a few bounds and two additions. Everything else is read when
somebody asks: a `Registry` holds functions that return families, and a family may compute its samples one by one while
they are written. `text` hands out a page piece by piece, so that a page of many lines does not hold up a loop: the
caller does other work between two pieces.

Names, labels and units of metrics that RocketMQ 5 has are RocketMQ's (``rocketmq_...``); all others begin with
``firearrow_`` and count in seconds and bytes.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, Literal

from msgspec import Struct

LINES_AT_ONCE: Final = 200
"""Samples in one piece of a page."""

Labels = tuple[tuple[str, str], ...]
Kind = Literal["counter", "gauge", "histogram"]


class Counter:
    """A number that only grows."""

    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value: float = 0

    def add(self, amount: float = 1) -> None:
        """Count more."""
        self.value += amount


class Histogram:
    """The number of values below each of a few bounds."""

    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: Sequence[float]) -> None:
        self.bounds: Final = tuple(bounds)
        self.counts: Final = [0] * (len(bounds) + 1)
        """The values between two bounds; the last number counts those above all bounds."""
        self.total: float = 0
        """The sum of all values."""

    def observe(self, value: float, times: int = 1) -> None:
        """Count a value that came this many times."""
        self.counts[bisect_left(self.bounds, value)] += times
        self.total += value * times

    @property
    def count(self) -> int:
        """The number of all values."""
        return sum(self.counts)

    def quantile(self, part: float) -> float:
        """Return the bound below which this part of the values lies; the last bound for values above it, 0 for none."""
        wanted, seen = part * self.count, 0
        for bound, count in zip(self.bounds, self.counts, strict=False):
            seen += count
            if seen >= wanted:
                return bound if seen else 0.0
        return self.bounds[-1]


Sample = tuple[Labels, float | Histogram]
PAUSE: Final = None
"""Among samples that take long to compute: here other work may be done."""


class Family(Struct, frozen=True):
    """One metric with its samples, each with its labels; the samples may be computed while they are iterated over."""

    name: str
    kind: Kind
    says: str
    samples: Iterable[Sample | None]


Collect = Callable[[], Iterable[Family]]
"""Returns the metrics of the present."""


class Registry:
    """The metrics of one process. ``labels`` stand on every sample."""

    def __init__(self, labels: Labels = ()) -> None:
        self._labels = labels
        self._parts: list[Collect] = []

    def add(self, part: Collect) -> None:
        """Add metrics that a function returns whenever somebody asks."""
        self._parts.append(part)

    def counter(self, name: str, says: str) -> Counter:
        """Return a new counter."""
        counter = Counter()
        self.add(lambda: [Family(name, "counter", says, [((), counter.value)])])
        return counter

    def gauge(self, name: str, says: str, read: Callable[[], float]) -> None:
        """Add a number that ``read`` returns."""
        self.add(lambda: [Family(name, "gauge", says, [((), read())])])

    def histogram(self, name: str, says: str, histogram: Histogram) -> None:
        """Add a histogram that its owner fills."""
        self.add(lambda: [Family(name, "histogram", says, [((), histogram)])])

    def families(self) -> Iterator[Family]:
        """Yield all metrics."""
        for part in self._parts:
            yield from part()

    def text(self) -> Iterator[str]:
        """Yield the page for Prometheus, piece by piece."""
        return text(self.families(), self._labels)


def text(families: Iterable[Family], labels: Labels = ()) -> Iterator[str]:
    """Yield metrics in Prometheus's text format, `LINES_AT_ONCE` samples a piece; ``labels`` stand on every sample."""
    shared = _written(labels)
    lines: list[str] = []
    for family in families:
        lines += [f"# HELP {family.name} {_escaped(family.says)}", f"# TYPE {family.name} {family.kind}"]
        for sample in family.samples:
            if sample is PAUSE:
                yield ""
                continue
            own, value = sample
            given = f"{shared},{_written(own)}" if shared and own else shared or _written(own)
            if isinstance(value, Histogram):
                lines += _buckets(family.name, given, value)
            else:
                lines.append(f"{family.name}{{{given}}} {value}" if given else f"{family.name} {value}")
            if len(lines) >= LINES_AT_ONCE:
                yield "\n".join(lines) + "\n"
                lines = []
    if lines:
        yield "\n".join(lines) + "\n"


def _buckets(name: str, given: str, histogram: Histogram) -> Iterator[str]:
    seen, comma = 0, "," if given else ""
    for bound, count in zip(histogram.bounds, histogram.counts, strict=False):
        seen += count
        yield f'{name}_bucket{{{given}{comma}le="{float(bound)}"}} {seen}'
    seen += histogram.counts[-1]
    yield f'{name}_bucket{{{given}{comma}le="+Inf"}} {seen}'
    yield f"{name}_sum{{{given}}} {histogram.total}"
    yield f"{name}_count{{{given}}} {seen}"


def _written(labels: Labels) -> str:
    return ",".join([f'{key}="{_quoted(value)}"' for key, value in labels])


def _escaped(says: str) -> str:
    return says.replace("\\", "\\\\").replace("\n", "\\n")


def _quoted(value: str) -> str:
    if value.isalnum():  # most values, and a page has very many
        return value
    return _escaped(value).replace('"', '\\"')
