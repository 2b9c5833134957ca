"""The composition root of a broker: store, tables, handlers and clock. Wiring only, no decisions.

Parts start in this order and stop in the reverse: store, tables and their files, handlers, ports, registration. So the
broker takes requests only when every part behind the ports runs, registers last, and leaves every acknowledged message
durable after an orderly stop. Java: ``BrokerController``.
"""

import asyncio
import logging
import random
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager, suppress
from typing import Final

from msgspec.structs import replace

from firearrow.access.settings import inner_signer
from firearrow.broker.consumer_side import Consuming, Registers
from firearrow.broker.failover.group_part import GroupPart
from firearrow.broker.gate.promises import check_promises, of_slave
from firearrow.broker.guarded import Front, guarded
from firearrow.broker.handlers.admin.broker_config import BrokerConfigHandlers
from firearrow.broker.handlers.admin.replication import ReplicationHandlers
from firearrow.broker.handlers.admin.runtime import RuntimeHandlers, begin_days
from firearrow.broker.handlers.admin.timer import TimerHandlers
from firearrow.broker.handlers.admin.topic import TopicHandlers
from firearrow.broker.handlers.admin.unserved import UnservedHandlers
from firearrow.broker.handlers.message.query import QueryHandlers
from firearrow.broker.handlers.message.recall import RecallHandlers
from firearrow.broker.handlers.message.send import SendHandlers
from firearrow.broker.handlers.message.transaction import TransactionHandlers
from firearrow.broker.identity import Identity
from firearrow.broker.metrics.metrics import DRAINING, BrokerMetrics
from firearrow.broker.registration import Registration
from firearrow.broker.replication.mending import Mending
from firearrow.broker.replication.replication import Replication
from firearrow.broker.self_check import warn
from firearrow.broker.settings.config import FAST_PORT_BELOW, BrokerSettings
from firearrow.broker.settings.live import LiveSettings
from firearrow.broker.statistics.counters import BrokerStats
from firearrow.broker.statistics.disk_watch import DiskWatch
from firearrow.broker.statistics.meters import SAMPLE_MS
from firearrow.broker.statistics.watch import Watch
from firearrow.broker.tables.lake_topics import lake_topics
from firearrow.broker.tables.tables import Tables
from firearrow.broker.tables.topic_book import Topics
from firearrow.broker.tables.topics import system_topics
from firearrow.broker.transaction.ends import Ends
from firearrow.broker.transaction.transactions import Transactions
from firearrow.broker.unfinished import refuse_pending
from firearrow.errors import ListenFailed, SettingsError
from firearrow.protocol.codes import RequestCode
from firearrow.remoting.caller import Caller
from firearrow.remoting.handlers import Handlers
from firearrow.remoting.server import Server
from firearrow.remoting.turns import Turns
from firearrow.runtime.certificates import Certificates
from firearrow.runtime.clock import Clock, elapsed_ms
from firearrow.runtime.disk.door import Disk
from firearrow.runtime.machine import Machine
from firearrow.runtime.network import Address, Network
from firearrow.runtime.service import Lifetime
from firearrow.runtime.tls_network import TlsNetwork
from firearrow.runtime.turn import Share, counted
from firearrow.store.lake_topics import LakeTopic
from firearrow.store.store import Store, StoreConfig
from firearrow.store.views.views import ViewsConfig

PORT_ATTEMPTS: Final = 50
LEAVE_S: Final = 1.0
"""The time that a broker that hands its part over waits for name servers."""
NOT_ON_FAST_PORT: Final = frozenset({RequestCode.PULL_MESSAGE, RequestCode.LITE_PULL_MESSAGE})

log = logging.getLogger(__name__)


class Broker:
    """Takes messages, stores them, hands them out. ``disk`` is the directory of the store."""

    def __init__(
        self,
        settings: BrokerSettings,
        machine: Machine,
        *,
        network: Network,
        disk: Disk,
        clock: Clock,
        chance: random.Random,
        part: GroupPart | None = None,
    ) -> None:
        """``part`` is the broker's part in a group with a coordinator; without one the settings say it."""
        self._part = part
        self._settings = LiveSettings(settings)
        self._name_servers = _addresses(settings.broker.namesrv_addr)
        self._machine = machine
        self._network = network
        self._disk = disk
        self._clock = clock
        self._chance = chance
        self._certificates = Certificates(settings.tls, settings.client_tls)
        self._between = TlsNetwork(network, self._certificates, settings.tls.mode)
        """For connections to name servers and between the brokers of a group."""
        self._caller = Caller(self._between, sign=inner_signer(settings.access, clock, chance))
        self._registration: Registration | None = None
        self._tables: Tables | None = None
        self._servers: list[Server] = []
        self.metrics: BrokerMetrics | None = None
        self.stays_registered = False
        """Whether the broker goes on in another part: name servers are told by that one."""
        self._instance = f"{chance.getrandbits(64):016x}"

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[Identity]:
        """Serve within the block; raise the error that keeps the broker from serving."""
        identity = await self._identify()
        async with Lifetime("broker") as life:
            life.on_stop(self._caller.close)
            metrics = self.metrics = BrokerMetrics(self._settings.value, identity)
            await metrics.open(life, self._network, None if self._part is None else self._part.idle)
            tables = await self._open_tables(life, identity)
            metrics.watch_store(tables.store)
            self._count(life, tables.stats)
            changes = await self._load_changes(life, tables)
            consuming = await self._consume(life, tables)
            make = Replication.by_settings if self._part is None else self._part.replication
            replication = make(tables, self._between, self._caller, consuming.delays)
            transactions = Transactions(tables)
            ending = TransactionHandlers(transactions, tables)
            registration = Registration(self._caller, self._name_servers, tables)
            registration.on_registered = replication.registered
            sends = SendHandlers(tables, consuming.timers.is_congested)
            tables.gate.wait_for(replication.confirmation)
            writers = self._write(life, tables, sends, ending)
            watch = Watch(sends.admission, sends.replies, tables.gate.lines)
            for_operators = self._operate(life, tables, watch, consuming, transactions.ends, registration)
            metrics.watch(life, tables, watch, sends, consuming, transactions, replication, registration)
            copies = ReplicationHandlers(tables, replication, consuming.delays.offsets)
            parts: tuple[Registers, ...] = (consuming, *writers, *for_operators, copies, changes)
            handlers = Handlers()
            for part in parts:
                part.add_to(handlers)
            if self._settings.value.replication.is_slave:
                handlers = of_slave(handlers, is_elected=self._part is not None)
            pulls, producers = consuming.pulls, transactions.producers
            front = await guarded(life, handlers, tables, metrics.registry, producers, pulls, replication)
            check_promises(front.handlers.by_code)
            await replication.start(life)
            if await self._may_serve(front, consuming):
                await self._serve_clients(life, tables.store, front, consuming, registration)
            mending = Mending(tables.store, self._caller, self._name_servers, identity)
            life.spawn(mending.run(), "mending")
            life.spawn(self._certificates.run(), "certificates")
            if self._certificates.fit_each_other:
                life.spawn(warn(self._caller, identity, self._instance), "self-check")
            metrics.readiness.phase = None
            log.info("broker serves", extra={"broker": identity.name, "address": identity.address})
            yield identity

    async def drain(self) -> None:
        """Take the write permission away, then wait ``drain_wait_seconds`` until producers have newer routes."""
        if self._registration is not None:
            if self.metrics is not None:
                self.metrics.readiness.phase = DRAINING
            await self._registration.wipe_writes()
            await asyncio.sleep(self._settings.broker.drain_wait_seconds)

    async def hush(self) -> None:
        """Leave the name servers and take no request any more; answers that are owed still leave. The end follows."""
        for server in self._servers:
            await server.hush()
        if self._registration is not None and not self.stays_registered:
            self.stays_registered = True
            with suppress(TimeoutError):
                async with asyncio.timeout(LEAVE_S):
                    await self._registration.leave()

    # ---- parts, in the order of their start

    async def _identify(self) -> Identity:
        value = self._settings.value
        given = value.broker
        broker = replace(
            given,
            broker_name=given.broker_name or self._machine.name,
            broker_ip1=given.broker_ip1 or self._machine.ip,
            listen_port=await _port(self._network, given.bind_address, given.listen_port),
        )
        self._settings.replace(replace(value, broker=broker))
        return Identity(
            name=broker.broker_name,
            cluster=broker.broker_cluster_name,
            ip=broker.broker_ip1,
            port=broker.listen_port,
            ha_ip=broker.broker_ip2,
            ha_listen_port=value.replication.ha_listen_port,
        )

    async def _open_store(self, life: Lifetime) -> Store:
        settings = self._settings.value
        views = ViewsConfig(queues=settings.queues, index=settings.index, delays_ms=settings.broker.delays_ms)
        config = StoreConfig(log=settings.log, views=views, retention=settings.retention, scrub=settings.scrub)
        machine = self._machine
        store = await Store.open(
            self._disk,
            self._clock,
            config,
            machine.boot_id,
            zone=machine.zone,
            offsets=self._read_by_groups,
            lake_topics=self._lake_topics,
            is_copy=settings.replication.is_slave,
        )
        try:
            if not settings.replication.is_slave:
                await self._refuse_pending(store)
        except BaseException:
            await store.close()
            raise
        self._settings.on_change.append(
            lambda: store.configure(self._settings.value.log, self._settings.value.retention)
        )
        life.spawn(store.run(), "store")
        life.on_stop(store.close)
        if self._part is not None:
            await self._part.begin(store)
        life.on_stop(lambda: store.log.dispatch_below(store.log.tail))  # nobody reads any more
        return store

    async def _refuse_pending(self, store: Store) -> None:
        broker, timers = self._settings.broker, self._settings.value.timers.timer_wheel_enable
        opens, directory = broker.open_with_pending_state, broker.store_path_root_dir
        await refuse_pending(self._disk, store, directory, opens=opens, timers=timers)

    def _read_by_groups(self) -> Iterable[tuple[str, str, dict[int, int]]]:
        """Return the committed offsets, for warnings about messages that groups lose; empty before they are loaded."""
        return () if self._tables is None else self._tables.offsets.rows()

    def _lake_topics(self) -> dict[str, LakeTopic] | None:
        """Return the topics that are kept for a lake; None before they are loaded."""
        return None if self._tables is None else lake_topics(self._tables.topics.table.topics, self._tables.offsets)

    async def _open_tables(self, life: Lifetime, identity: Identity) -> Tables:
        store = await self._open_store(life)
        topics = Topics(self._disk, self._clock, system_topics(self._settings.broker, identity.name))
        await topics.load()
        if store.replica.history.epochs.entries and not self._settings.value.replication.is_slave:
            unknown = [queue for queue in store.queues if queue.topic not in topics.table]
            topics.restore((queue.topic, queue.queue_id) for queue in unknown)
        life.on_stop(topics.file.close)
        life.spawn(topics.file.run(), "topics")
        tables = Tables.make(
            identity, self._settings, store, topics, disk=self._disk, clock=self._clock, chance=self._chance
        )
        self._tables = tables
        return tables

    def _count(self, life: Lifetime, stats: BrokerStats) -> None:
        life.spawn(counted(Share.BACKGROUND, _sample(stats)), "statistics")
        life.spawn(begin_days(stats, self._clock), "days")

    async def _load_changes(self, life: Lifetime, tables: Tables) -> BrokerConfigHandlers:
        changes = BrokerConfigHandlers(tables)
        await changes.load()
        life.on_stop(changes.file.close)
        life.spawn(changes.file.run(), "settings")
        return changes

    async def _consume(self, life: Lifetime, tables: Tables) -> Consuming:
        consuming = Consuming(tables, self._machine.memory_bytes)
        await consuming.load()
        life.on_stop(consuming.close)
        life.spawn(consuming.run(), "consuming")
        return consuming

    def _write(
        self, life: Lifetime, tables: Tables, sends: SendHandlers, transactions: TransactionHandlers
    ) -> list[Registers]:
        """Start what appends to the log; a slave, whose log is a copy, starts none of it."""
        if not self._settings.value.replication.is_slave:
            transactions.open()
            life.spawn(transactions.run(), "transactions")
            life.spawn(sends.rows.windows.run(), "row windows")
        return [sends, transactions, RecallHandlers(tables)]

    def _operate(
        self,
        life: Lifetime,
        tables: Tables,
        watch: Watch,
        consuming: Consuming,
        ends: Ends,
        registration: Registration,
    ) -> list[Registers]:
        life.spawn(watch.run(), "watch")
        life.spawn(self._disk_watch().run(), "disk")
        return [
            TopicHandlers(tables, registration.announced),
            RuntimeHandlers(tables, watch, consuming.delays, consuming.timers, ends, instance=self._instance),
            TimerHandlers(consuming.timers),
            QueryHandlers(tables),
            UnservedHandlers(tables.identity.ip, timers=self._settings.value.timers.timer_wheel_enable),
        ]

    async def _may_serve(self, front: Front, consuming: Consuming) -> bool:
        """Wait until clients may be served; return False when the part of this broker is over before that.

        A master of an elected group tells its tables meanwhile: it may need a replica that has to copy them first.
        """
        part = self._part
        if part is None or not part.leads:
            return part is None or await part.serves()
        address = Address(self._settings.broker.bind_address, self._settings.broker.listen_port)
        async with Lifetime("tables for replicas") as life:
            await self._serve(life, address, front.to_replicas(), consuming, Turns(self._clock.cpu_ns))
            return await part.serves()

    async def _serve_clients(
        self, life: Lifetime, store: Store, front: Front, consuming: Consuming, registration: Registration
    ) -> None:
        await self._listen(life, front, consuming)
        self._leave_when_fenced(store, registration)
        await self._register(life, registration)

    async def _listen(self, life: Lifetime, front: Front, consuming: Consuming) -> None:
        bind, port = self._settings.broker.bind_address, self._settings.broker.listen_port
        turns = Turns(self._clock.cpu_ns)
        await self._serve(life, Address(bind, port), front, consuming, turns)
        if port > FAST_PORT_BELOW:
            fast = Address(bind, port - FAST_PORT_BELOW)
            await self._serve(life, fast, front.without(NOT_ON_FAST_PORT), consuming, turns)

    async def _serve(self, life: Lifetime, address: Address, front: Front, consuming: Consuming, turns: Turns) -> None:
        settings = self._settings.value
        server = Server(
            self._network,
            front.handlers,
            settings.limits,
            tls=self._certificates.server,
            tls_mode=settings.tls.mode,
            on_disconnect=consuming.disconnected,
            per_address=front.per_address,
            turns=turns,
        )
        self._certificates.on_change.append(lambda: server.renew(self._certificates.server))
        await server.start(address)
        self._servers.append(server)
        if self.metrics is not None:
            self.metrics.serves(server)
        life.on_stop(server.stop)

    def _leave_when_fenced(self, store: Store, registration: Registration) -> None:
        """Register without write permission once the store is fenced; consumers can still read stored messages."""

        def fenced() -> None:
            log.error("registered without write permission: %s", store.log.fenced)
            registration.forbid_writes()

        store.log.on_fenced = fenced
        if store.log.fenced is not None:
            fenced()

    async def _register(self, life: Lifetime, registration: Registration) -> None:
        self._registration = registration
        await registration.first()
        life.on_stop(lambda: None if self.stays_registered else registration.leave())
        life.spawn(registration.run(), "registration")

    def _disk_watch(self) -> DiskWatch:
        settings = self._settings
        return DiskWatch(self._disk, settings.broker.store_path_root_dir, lambda: settings.value.retention)


async def _port(network: Network, host: str, given: int) -> int:
    """Return the port that clients use, or raise ``ListenFailed`` before anything else is started beside it."""
    if given == 0:
        return await _free_port(network, host)
    for port in (given, given - FAST_PORT_BELOW):
        if port > 0:
            await _try_port(network, Address(host, port))
    return given


async def _free_port(network: Network, host: str) -> int:
    """Return a free port whose neighbour two below, the port for VIP channels, is free too."""
    # Records hold the port, so the port must be known before the store is opened.
    for _ in range(PORT_ATTEMPTS):
        port = await _try_port(network, Address(host, 0))
        with suppress(ListenFailed):
            await _try_port(network, Address(host, port - FAST_PORT_BELOW))
            return port
    raise ListenFailed(f"no port of {PORT_ATTEMPTS} tried has its neighbour two below free: choose one with listenPort")


async def _try_port(network: Network, address: Address) -> int:
    listener = await network.listen(asyncio.Protocol, address)
    listener.close()
    await listener.wait_closed()
    return listener.address.port


def _addresses(text: str) -> list[Address]:
    try:
        return [Address.parse(one) for one in text.split(";") if one.strip()]
    except SettingsError as error:
        raise SettingsError(f"namesrvAddr={text!r} is not a list of name servers: {error}") from error


async def _sample(stats: BrokerStats) -> None:
    while True:
        await asyncio.sleep(SAMPLE_MS / 1000)
        await stats.sample(elapsed_ms())
