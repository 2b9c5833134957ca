"""The name server: builds the table, handlers, files and clock and starts them. Wiring only, no decisions.

Brokers leave the table in three ways: they unregister, their connection ends, or their lease expires, which is checked
every ``scanNotActiveBrokerInterval``. Elapsed time is the loop's, so a jump of the wall clock expires no lease. Java:
``namesrv.NamesrvController``.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from random import SystemRandom
from typing import Final, cast

from firearrow.access.access import AccessControl, access_of, open_to_all
from firearrow.access.plain.access import PlainAccess
from firearrow.access.settings import AccessConfig, inner_signer
from firearrow.errors import FireArrowError
from firearrow.nameserver.changes import Changes, decode_changes, encode_changes, overlay
from firearrow.nameserver.config import NameServerConfig
from firearrow.nameserver.effects import Notice, RemovalOutcome
from firearrow.nameserver.handlers.lookup import LookupHandlers
from firearrow.nameserver.handlers.membership import MembershipHandlers
from firearrow.nameserver.handlers.operation import OperationHandlers
from firearrow.nameserver.kv_config import MAX_BYTES, ORDER_TOPIC_CONFIG, KvConfig
from firearrow.nameserver.metrics import NameServerMetrics
from firearrow.nameserver.routes import Routes
from firearrow.protocol.requests.naming.registration import NotifyMinBrokerIdChange
from firearrow.remoting.caller import Caller
from firearrow.remoting.handlers import Handlers, Peer
from firearrow.remoting.limits import Limits
from firearrow.remoting.operation_port import MetricsExporter, OperationConfig, OperationPort
from firearrow.remoting.server import Server
from firearrow.remoting.turns import Turns
from firearrow.runtime.certificates import Certificates
from firearrow.runtime.clock import Clock, SystemClock, elapsed_ms
from firearrow.runtime.disk.door import Disk
from firearrow.runtime.disk.stored import StoredValue
from firearrow.runtime.network import Address, Network
from firearrow.runtime.service import Lifetime
from firearrow.runtime.tls_network import TlsNetwork
from firearrow.runtime.tls_settings import ClientTls, ServerTls, TlsMode
from firearrow.runtime.turn import TurnBudgets

MAX_CHANGES_BYTES: Final = 64 * 1024

log = logging.getLogger(__name__)

MAX_NOTICES: Final = 10_000
"""Most notices that wait to be sent; further ones are dropped, because brokers also ask by themselves."""

NOTICE_TIMEOUT_MS: Final = 300

ACCESS_PATH: Final = "access.json"
ANY_CLUSTER: Final = ""
"""The cluster of requests that name none: only rules about every cluster match it."""


class NameServer:
    """Answers which brokers serve which topics. ``disk`` is the directory of its files."""

    def __init__(
        self,
        config: NameServerConfig,
        *,
        network: Network,
        disk: Disk,
        limits: Limits | None = None,
        tls: ServerTls | None = None,
        client_tls: ClientTls | None = None,
        operation: OperationConfig | None = None,
        access: AccessConfig | None = None,
        clock: Clock | None = None,
    ) -> None:
        """``clock`` says when events of the audit log happened, and what CPU requests take.

        If it is not given, the machine's clock says the first and the loop's time the second.
        """
        self._base = config
        self._routes = Routes(config)
        self._texts: StoredValue[KvConfig] = StoredValue(
            disk,
            config.kv_config_path,
            KvConfig(),
            encode=KvConfig.encode,
            decode=KvConfig.decode,
            limit_bytes=MAX_BYTES,
            on_change=self._reconfigure,
        )
        self._changes: StoredValue[Changes] = StoredValue(
            disk,
            config.config_store_path,
            {},
            encode=encode_changes,
            decode=decode_changes,
            limit_bytes=MAX_CHANGES_BYTES,
            on_change=self._reconfigure,
        )
        self._tls_mode = tls.mode if tls is not None else TlsMode.PERMISSIVE
        self._certificates = Certificates(tls or ServerTls(), client_tls or ClientTls())
        self._operation = operation or OperationConfig()
        self._limits = limits or Limits(idle_s=config.server_channel_max_idle_time_seconds)
        self._network = network
        self._disk = disk
        self._access = access or AccessConfig()
        self._clock = clock or SystemClock()
        self._cpu_ns = None if clock is None else clock.cpu_ns
        outgoing = TlsNetwork(network, self._certificates)
        self._caller = Caller(outgoing, sign=inner_signer(self._access, self._clock, SystemRandom()))
        self._notices: asyncio.Queue[Notice] = asyncio.Queue(MAX_NOTICES)
        self._server: Server | None = None
        self._operation_address: Address | None = None

    @property
    def address(self) -> Address:
        """The address it listens on, with the real port."""
        assert self._server is not None, "the name server has not been started"
        return self._server.address

    @property
    def routes(self) -> Routes:
        """The table of routes, for programs that embed a name server."""
        return self._routes

    @property
    def texts(self) -> KvConfig:
        """The KV configuration in force."""
        return self._texts.value

    @property
    def operation_address(self) -> Address | None:
        """The address of the port for metrics and probes; None when it is not open."""
        return self._operation_address

    async def run(self) -> None:
        """Serve until cancelled."""
        async with self.serving():
            await asyncio.get_running_loop().create_future()

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[Address]:
        """Serve within the block; raise ``ListenFailed`` or ``SettingsError`` if that fails."""
        await self._texts.read()
        await self._changes.read()
        self._reconfigure(None)
        handlers, access = await self._guarded()
        server = self._server = Server(
            self._network,
            handlers,
            self._limits,
            tls=self._certificates.server,
            tls_mode=self._tls_mode,
            on_disconnect=self._disconnected,
            turns=Turns(TurnBudgets(self._cpu_ns)),
        )
        self._certificates.on_change.append(lambda: server.renew(self._certificates.server))
        metrics = NameServerMetrics(self._operation, self._routes, server)
        if access is not None:
            metrics.registry.add(access.witness.families)
        async with Lifetime("operation") as life, asyncio.TaskGroup() as group:
            await self._operate(life, metrics)
            await server.start(Address(self._base.bind_address, self._base.listen_port))
            metrics.serves(elapsed_ms())
            work = [self._texts.write_changes(), self._changes.write_changes(), self._expire(), self._tell_brokers()]
            work.append(self._certificates.run())
            work += [access.run()] if access is not None else []
            tasks = [group.create_task(each) for each in work]
            log.info("name server listens", extra={"address": str(server.address)})
            try:
                yield server.address
            finally:
                for task in tasks:
                    task.cancel()
                await server.stop()
                await self._caller.close()

    async def _operate(self, life: Lifetime, metrics: NameServerMetrics) -> None:
        config = self._operation
        if config.metrics_exporter_type is MetricsExporter.PROM:
            port = OperationPort(self._network, metrics.registry, metrics.readiness)
            host = config.metrics_prom_exporter_host or self._base.bind_address
            await port.open(life, Address(host, config.metrics_prom_exporter_port))
            self._operation_address = port.address

    def _handlers(self) -> Handlers:
        handlers = Handlers()
        LookupHandlers(self._routes, elapsed_ms).add_to(handlers)
        MembershipHandlers(self._routes, elapsed_ms, self._notify, self._order_table).add_to(handlers)
        OperationHandlers(self._routes, self._texts, self._changes).add_to(handlers)
        return handlers

    async def _guarded(self) -> tuple[Handlers, AccessControl | PlainAccess | None]:
        """Return the handlers as requests reach them: behind the guard, if access is on."""
        handlers = self._handlers()
        if open_to_all(self._access, "name server", self._base.bind_address):
            return handlers, None
        access = access_of(self._access, self._disk, ANY_CLUSTER, self._clock, ACCESS_PATH)
        await access.open()
        access.guard.clusters_of = self._clusters_of
        return access.before(handlers), access

    def _clusters_of(self, broker: str) -> Sequence[str]:
        known = self._routes.names.get(broker)
        return () if known is None else tuple(known.clusters)

    def _order_table(self) -> Mapping[str, str] | None:
        return self._texts.value.table(ORDER_TOPIC_CONFIG)

    def _reconfigure(self, _changed: object) -> None:
        self._routes.reconfigure(overlay(self._base, self._changes.value), self._order_table() or {})

    def _disconnected(self, peer: Peer) -> None:
        self._departed(self._routes.disconnected(peer), "its connection ended")

    async def _expire(self) -> None:
        while True:
            await asyncio.sleep(self._routes.config.scan_not_active_broker_interval / 1000)
            self._departed(self._routes.expire(elapsed_ms()), "it was silent for too long")

    def _departed(self, departed: RemovalOutcome, why: str) -> None:
        for member in departed.members:
            extra = {"broker": member.name, "id": member.broker_id, "at": member.address, "why": why}
            log.warning("broker %s (id %d) at %s is removed: %s", *extra.values(), extra=extra)
        for connection in departed.connections:
            cast("Peer", connection).close()
        self._notify(departed.notices)

    def _notify(self, notices: tuple[Notice, ...]) -> None:
        for notice in notices:
            try:
                self._notices.put_nowait(notice)
            except asyncio.QueueFull:
                log.warning("a notice to %s is dropped: too many are waiting", notice.to, extra={"brokers": notice.to})

    async def _tell_brokers(self) -> None:
        while True:
            notice = await self._notices.get()
            request = NotifyMinBrokerIdChange(
                min_broker_id=notice.min_broker_id,
                min_broker_addr=notice.min_broker_address,
                offline_broker_addr=notice.offline_address,
                ha_broker_addr=notice.ha_address,
            )
            for broker in notice.to:
                try:
                    await self._caller.tell(Address.parse(broker), request, timeout_ms=NOTICE_TIMEOUT_MS)
                except FireArrowError as error:
                    extra = {"broker": broker, "reason": str(error)}
                    log.warning("the broker at %s could not be notified: %s", broker, error, extra=extra)
