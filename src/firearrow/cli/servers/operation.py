"""The port for metrics and probes, as flags of the servers."""

from typing import Annotated

import typer

from firearrow.runtime.network import Address

MetricsPort = Annotated[
    int | None, typer.Option(help="Serve /metrics, /health/live and /health/ready on this port. [no port]")
]


def metrics_flags(port: int | None) -> dict[str, object]:
    """Return the settings that a metrics port stands for; none without one."""
    return {} if port is None else {"metrics_exporter_type": "PROM", "metrics_prom_exporter_port": port}


def metrics_line(address: Address | None) -> str:
    """Return what the line of a server that serves says of the port; empty without one."""
    return "" if address is None else f", shows metrics and health on {address}"
