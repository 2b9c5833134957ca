"""The operation port of a server: ``/metrics`` for Prometheus, ``/health/live`` and ``/health/ready`` for probes.

The settings have the names of Apache's broker, 5.x. A page of metrics is made in pieces, between which the server does
its work.
"""

import enum
from typing import Annotated, Final

from msgspec import Meta, Struct

from firearrow.errors import SettingsError
from firearrow.remoting.http_port import HttpPort, Page
from firearrow.runtime.network import Address, Network
from firearrow.runtime.service import Lifetime
from firearrow.runtime.turn import breathe
from firearrow.telemetry.metrics import Labels, Registry
from firearrow.telemetry.readiness import Readiness

METRICS_KIND: Final = "text/plain; version=0.0.4; charset=utf-8"
DEFAULT_PORT: Final = 5557


class MetricsExporter(enum.Enum):
    """Whether metrics and health are served."""

    DISABLE = "DISABLE"
    PROM = "PROM"


class OperationConfig(Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """The port for metrics and probes."""

    metrics_exporter_type: Annotated[
        MetricsExporter,
        Meta(description="PROM opens the port of /metrics, /health/live and /health/ready; DISABLE opens none."),
    ] = MetricsExporter.DISABLE
    metrics_prom_exporter_port: Annotated[
        int, Meta(ge=0, le=65535, description="That port; 0 lets the operating system choose one.")
    ] = DEFAULT_PORT
    metrics_prom_exporter_host: Annotated[
        str, Meta(description="Address that the port listens on; empty takes bindAddress.")
    ] = ""
    metrics_otel_cardinality_limit: Annotated[
        int,
        Meta(
            ge=1,
            le=1_000_000,
            description="Topics, or pairs of topic and group, with samples of their own in a metric; "
            "all further ones share the sample of topic '_other_'.",
        ),
    ] = 10_000
    metrics_label: Annotated[
        str, Meta(description="Labels for every metric besides cluster and node: 'zone:a,rack:7'.")
    ] = ""

    @property
    def labels(self) -> Labels:
        """The labels of ``metricsLabel``."""
        pairs = [part.partition(":") for part in self.metrics_label.split(",") if part.strip()]
        for name, _, value in pairs:
            if not name.strip().isidentifier() or not value.strip():
                raise SettingsError(f"metricsLabel={self.metrics_label!r} is not a list such as zone:a,rack:7")
        return tuple((name.strip(), value.strip()) for name, _, value in pairs)


class OperationPort:
    """The metrics and health of a server over HTTP, for operators."""

    def __init__(self, network: Network, registry: Registry, readiness: Readiness) -> None:
        self._registry = registry
        self._readiness = readiness
        pages = {"/metrics": self._metrics, "/health/live": self._live, "/health/ready": self._ready}
        self._port = HttpPort(network, pages)

    @property
    def address(self) -> Address:
        """The address that the port listens at."""
        return self._port.address

    def show(self, registry: Registry, readiness: Readiness) -> None:
        """Show others than before, from the next request on."""
        self._registry, self._readiness = registry, readiness

    async def open(self, life: Lifetime, address: Address) -> None:
        """Answer until ``life`` ends; raise ``ListenFailed`` when the address is taken."""
        await self._port.start(address)
        life.on_stop(self._port.stop)
        life.spawn(self._port.run(), "operation port")

    async def _metrics(self) -> Page:
        pieces = []
        for piece in self._registry.text():
            pieces.append(piece.encode())
            await breathe()
        return Page(b"".join(pieces), kind=METRICS_KIND)

    async def _live(self) -> Page:
        return Page(b"live\n")

    async def _ready(self) -> Page:
        reasons = self._readiness.reasons()
        if not reasons:
            return Page(b"ready\n")
        return Page("".join(f"not ready: {reason}\n" for reason in reasons).encode(), 503)
