"""Metrics of a job for Prometheus: as text for a file, and over HTTP.

A job hands over its metrics as families, made anew whenever somebody asks. All jobs use the same names, so that the
alerts of `examples/prometheus/pipeline-alerts.yml` hold for each of them.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Final

from msgspec import Struct
from msgspec.structs import replace

from firearrow.errors import SettingsError
from firearrow.runtime.network import Address
from firearrow.telemetry.exporters import prometheus_metrics
from firearrow.telemetry.metrics import Collect, Family, text

if TYPE_CHECKING:
    from prometheus_client.core import Metric

PREFIX: Final = "firearrow_pipeline_"


def as_text(found: Iterable[Family]) -> str:
    """Metrics in Prometheus's text format."""
    return "".join(text(_prefixed(found)))


def _prefixed(found: Iterable[Family]) -> Iterator[Family]:
    for family in found:
        yield replace(family, name=PREFIX + family.name)


class _Collector:
    """Hands the metrics of the present to prometheus-client."""

    def __init__(self, found: Collect) -> None:
        self._found = found

    def collect(self) -> "Iterator[Metric]":
        """Yield the metrics."""
        return prometheus_metrics(_prefixed(self._found()))


class ServedMetrics(Struct, frozen=True):
    """Metrics that are served over HTTP."""

    port: int
    close: Callable[[], None]


def serve(found: Collect, address: str) -> ServedMetrics:
    """Serve metrics at ``http://ADDRESS/metrics``; port 0 lets the operating system choose one."""
    try:
        from prometheus_client import CollectorRegistry, start_http_server
    except ModuleNotFoundError:
        raise SettingsError("metrics over HTTP need prometheus-client: pip install 'firearrow[metrics]'") from None
    where = Address.parse(address)
    registry = CollectorRegistry()
    registry.register(_Collector(found))
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

    return ServedMetrics(server.server_port, close)
