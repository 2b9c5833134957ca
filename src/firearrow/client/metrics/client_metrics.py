"""The metrics of producers and consumers, for Prometheus and OpenTelemetry.

    metrics = ClientMetrics()
    prometheus_client.REGISTRY.register(metrics)
    async with Producer("127.0.0.1:9876", group="shop", metrics=metrics) as producer:
        ...

A client without this option counts nothing.
"""

import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Final

from firearrow.client.metrics.counts import Counts
from firearrow.client.metrics.families import LABELS, families
from firearrow.errors import SettingsError
from firearrow.telemetry import exporters
from firearrow.telemetry.metrics import Family, Labels, text

if TYPE_CHECKING:
    from opentelemetry.metrics import MeterProvider
    from prometheus_client.core import Metric

MOST_TOPICS: Final = 1000
_LABEL: Final = re.compile(r"[a-zA-Z][a-zA-Z0-9_]*")


class ClientMetrics:
    """The metrics of producers and consumers that get it as their option ``metrics``.

    It is a collector for prometheus-client: ``REGISTRY.register(metrics)``. ``observe`` serves OpenTelemetry, ``text``
    needs no library. ``labels`` stand on every sample. The first ``max_topics`` topics, and pairs of group and topic,
    have samples of their own, in the order in which they came up; all others are summed up under the topic ``_other_``.
    """

    def __init__(self, *, labels: Mapping[str, str] | None = None, max_topics: int = MOST_TOPICS) -> None:
        if max_topics < 1:
            raise SettingsError(f"max_topics={max_topics}: give 1 or more")
        self._labels = _checked(labels or {})
        self.counts: Final = Counts(max_topics)
        """The counts that clients add to."""

    def collect(self) -> "Iterator[Metric]":
        """Yield the metrics of the present; prometheus-client calls this, from any thread."""
        return exporters.prometheus_metrics(self._families())

    def observe(self, meters: "MeterProvider | None" = None) -> None:
        """Have OpenTelemetry read the metrics: by the global meter provider, or by the given one. Call it once."""
        if meters is None:
            try:
                from opentelemetry.metrics import get_meter_provider
            except ModuleNotFoundError:
                raise SettingsError("observe needs opentelemetry-api: pip install 'firearrow[opentelemetry]'") from None
            meters = get_meter_provider()
        exporters.observe(meters.get_meter("firearrow.client"), self._families)

    def text(self) -> str:
        """Return the metrics of the present in Prometheus's text format."""
        return "".join(text(self._families()))

    def _families(self) -> Iterator[Family]:
        return families(self.counts, self._labels)


def _checked(labels: Mapping[str, str]) -> Labels:
    for name in labels:
        if not _LABEL.fullmatch(name) or name in LABELS:
            raise SettingsError(
                f"labels={labels!r}: {name!r} cannot be a label; write letters, digits and _, and no name that the "
                f"metrics have already ({', '.join(sorted(LABELS))})"
            )
    return tuple(labels.items())
