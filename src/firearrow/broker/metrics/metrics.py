"""The metrics and the readiness of a broker, and the port that shows them. Wiring only.

The port opens before the store is recovered, so that probes are answered meanwhile: live, and not ready.
"""

import asyncio
from contextlib import suppress
from typing import Final

from firearrow.broker.identity import Identity
from firearrow.broker.metrics.delivery import DeliveryMetrics
from firearrow.broker.metrics.lag import SAMPLE_S, LagMetrics
from firearrow.broker.metrics.load import LoadMetrics
from firearrow.broker.metrics.storage import StorageMetrics
from firearrow.broker.metrics.table_sizes import TableMetrics
from firearrow.broker.metrics.traffic import TrafficMetrics
from firearrow.broker.settings.config import BrokerSettings
from firearrow.errors import FireArrowError
from firearrow.remoting.operation_port import MetricsExporter, OperationPort
from firearrow.remoting.server import Server
from firearrow.runtime.network import Address, Network
from firearrow.runtime.service import Lifetime
from firearrow.runtime.turn import Share, counted, families_of_turn
from firearrow.store.store import Store
from firearrow.telemetry.metrics import Registry
from firearrow.telemetry.readiness import Readiness

STARTING: Final = "the broker starts: its store is being recovered"
NO_PART: Final = "the broker has no part in its group now: it waits for the group's coordinator"
DRAINING: Final = "the broker drains: producers move to other brokers, then it stops"


class BrokerMetrics:
    """Metrics and readiness of one broker over HTTP. Without ``metricsExporterType=PROM`` there is no port."""

    def __init__(self, settings: BrokerSettings, identity: Identity, beginning: str = STARTING) -> None:
        config = self._config = settings.operation
        own = (("node_type", "broker"), ("cluster", identity.cluster), ("node_id", identity.name))
        self.registry = Registry((*config.labels, *own))
        self.readiness = Readiness(beginning)
        self._bind = config.metrics_prom_exporter_host or settings.broker.bind_address
        self._load: LoadMetrics | None = None
        self.port: OperationPort | None = None
        """The port, if it is open; of a group's broker it outlives this part."""

    @property
    def address(self) -> Address | None:
        """The address of the port; None when it is not open."""
        return None if self.port is None else self.port.address

    @property
    def is_on(self) -> bool:
        """Whether metrics are shown."""
        return self._config.metrics_exporter_type is MetricsExporter.PROM

    async def open(self, life: Lifetime, network: Network, idle: "BrokerMetrics | None" = None) -> None:
        """Open the port if the settings say so; if ``idle`` has one, take it until ``life`` ends."""
        if idle is not None:
            self._take_port(life, idle)
        elif self.is_on:
            port = self.port = OperationPort(network, self.registry, self.readiness)
            await port.open(life, Address(self._bind, self._config.metrics_prom_exporter_port))

    def _take_port(self, life: Lifetime, idle: "BrokerMetrics") -> None:
        port = self.port = idle.port
        if port is not None:
            port.show(self.registry, self.readiness)
            life.on_stop(lambda: port.show(idle.registry, idle.readiness))

    def watch_store(self, store: Store) -> None:
        """Let the readiness depend on the store."""
        self.readiness.add(lambda: None if store.log.fenced is None else str(store.log.fenced))
        self.readiness.add(lambda: None if store.retention.refusal is None else str(store.retention.refusal))

    def watch(
        self,
        life: Lifetime,
        traffic: TrafficMetrics,
        lag: LagMetrics,
        storage: StorageMetrics,
        tables: TableMetrics,
        load: LoadMetrics,
        delivery: DeliveryMetrics,
    ) -> None:
        """Show the parts of the broker."""
        self._load = load
        for part in (traffic, lag, storage, tables, load, delivery):
            self.registry.add(part.families)
        self.registry.add(families_of_turn)
        life.spawn(counted(Share.BACKGROUND, lag.run()), "lag of groups")
        life.spawn(counted(Share.BACKGROUND, _look(storage)), "age of messages")

    def serves(self, server: Server) -> None:
        """Show a port of the broker."""
        if self._load is not None:
            self._load.servers.append(server)


async def _look(storage: StorageMetrics) -> None:
    while True:
        with suppress(FireArrowError):  # the first file is being deleted; the next look finds the one after it
            await storage.look()
        await asyncio.sleep(SAMPLE_S)
