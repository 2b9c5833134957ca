"""The metrics of a name server, and its readiness. RocketMQ's name server has none."""

from collections.abc import Iterator
from typing import Final

from firearrow.nameserver.routes import Routes
from firearrow.remoting.operation_port import OperationConfig
from firearrow.remoting.server import Server
from firearrow.runtime.clock import elapsed_ms
from firearrow.runtime.turn import families_of_turn
from firearrow.telemetry.metrics import Family, Registry
from firearrow.telemetry.readiness import Readiness

STARTING: Final = "the name server starts"


class NameServerMetrics:
    """Metrics and readiness of a name server."""

    def __init__(self, config: OperationConfig, routes: Routes, server: Server) -> None:
        self.registry = Registry((*config.labels, ("node_type", "nameserver")))
        self.readiness = Readiness(STARTING)
        self._routes = routes
        self._server = server
        self._served_ms = 0
        self.registry.add(self._families)
        self.registry.add(families_of_turn)
        self.readiness.add(self._waits)

    def serves(self, now_ms: int) -> None:
        """Note that the name server serves from now on."""
        self._served_ms = now_ms
        self.readiness.phase = None

    def _waits(self) -> str | None:
        """Return why routes are refused for a while after the start (``needWaitForService``)."""
        config = self._routes.config
        served_ms = elapsed_ms() - self._served_ms
        if not config.need_wait_for_service or served_ms >= config.wait_seconds_for_service * 1000:
            return None
        return "routes are refused until brokers have had time to register"

    def _families(self) -> Iterator[Family]:
        routes, load = self._routes, self._server.load
        for name, says, value in (
            ("brokers", "Brokers that are registered, masters and slaves", len(routes.leases)),
            ("broker_names", "Names of brokers", len(routes.names)),
            ("topics", "Topics with a route", len(routes.topics.topics())),
            ("connections", "Open connections", load.connections),
            ("in_flight_bytes", "Requests whose answers are owed", load.in_flight_bytes),
            ("unsent_bytes", "Bytes that peers have not read", load.unsent_bytes),
        ):
            yield Family(f"firearrow_nameserver_{name}", "gauge", says, [((), value)])
        masters = sum(1 for name in routes.names.values() if 0 in name.addresses)
        yield Family("firearrow_nameserver_masters", "gauge", "Broker names with a master", [((), masters)])
        for name, says, value in (
            ("connections_cut", "Connections ended for a limit or bad data", load.cut),
            ("connections_refused", "Connections beyond max_connections", load.refused),
            ("requests_failed", "Requests that failed by a bug", self._server.failures),
        ):
            yield Family(f"firearrow_nameserver_{name}_total", "counter", says, [((), value)])
