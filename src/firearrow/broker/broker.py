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
from firearrow.broker.assembly import Assembly, HandlerOwner
from firearrow.broker.consumer_side import ConsumerSide
from firearrow.broker.failover.group_part import GroupPart
from firearrow.broker.gate.promises import check_promises, of_slave
from firearrow.broker.guarded import Front, guarded
from firearrow.broker.handlers.admin.broker_config import BrokerConfigHandlers
from firearrow.broker.handlers.admin.runtime import begin_days
from firearrow.broker.handlers.message.send import SendHandlers
from firearrow.broker.identity import Identity
from firearrow.broker.metrics.load import LoadMetrics
from firearrow.broker.metrics.metrics import DRAINING, BrokerMetrics
from firearrow.broker.operator_side import operator_handlers, show
from firearrow.broker.registration import Registration
from firearrow.broker.replication.mending import RecordMender
from firearrow.broker.self_check import warn
from firearrow.broker.settings.config import FAST_PORT_BELOW, BrokerSettings
from firearrow.broker.settings.live import LiveSettings
from firearrow.broker.statistics.counters import BrokerStats
from firearrow.broker.statistics.disk_watch import DiskWatch
from firearrow.broker.statistics.meters import SAMPLE_MS
from firearrow.broker.statistics.watch import Watch
from firearrow.broker.tables.topic_attributes import lake_topics
from firearrow.broker.tables.topic_book import TopicBook
from firearrow.broker.tables.topics import system_topics
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
        self._assembly: Assembly | None = None
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
            assembly = await self._open_tables(life, identity)
            metrics.watch_store(assembly.store)
            self._count(life, assembly.stats)
            changes = await self._load_changes(life, assembly)
            consuming = await self._consume(life, ConsumerSide(assembly, self._machine.memory_bytes))
            replication = assembly.replication(self._part, self._between, self._caller, consuming.delays)
            transactions = assembly.transactions()
            registration = Registration(
                self._caller,
                self._name_servers,
                topics=assembly.topics,
                settings=self._settings,
                identity=identity,
                replica=assembly.store.replica,
            )
            registration.on_registered = replication.registered
            sends = assembly.sends(consuming.timers)
            assembly.gate.wait_for(replication.confirmation)
            writers = assembly.writers(sends, transactions)
            self._write(life, sends, transactions)
            watch = Watch(sends.admission, sends.replies, assembly.gate.lines)
            life.spawn(watch.run(), "watch")
            life.spawn(self._disk_watch().run(), "disk")
            operating = operator_handlers(
                assembly, watch, consuming, transactions, registration, instance=self._instance
            )
            load = LoadMetrics(assembly.lanes, watch, sends, consuming.pulls, registration)
            show(assembly, life, metrics, load, consuming, transactions, replication)
            copies = assembly.copies(replication, consuming.delays)
            parts: tuple[HandlerOwner, ...] = (consuming, *writers, *operating, copies, changes)
            handlers = Handlers()
            for part in parts:
                part.add_to(handlers)
            if self._settings.value.replication.is_slave:
                handlers = of_slave(handlers, is_elected=self._part is not None)
            pulls, producers = consuming.pulls, transactions.producers
            front = await guarded(life, handlers, assembly, metrics.registry, producers, pulls, replication)
            check_promises(front.handlers.by_code)
            await replication.start(life)
            turns = Turns(assembly.budgets)
            if await self._may_serve(front, consuming, turns):
                await self._listen(life, front, consuming, turns)
                self._leave_when_fenced(assembly.store, registration)
                await self._register(life, registration)
            mending = RecordMender(assembly.store, self._caller, self._name_servers, identity)
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
        return () if self._assembly is None else self._assembly.offsets.table.rows()

    def _lake_topics(self) -> dict[str, LakeTopic] | None:
        """Return the topics that are kept for a lake; None before they are loaded."""
        made = self._assembly
        return None if made is None else lake_topics(made.topics.table.for_lakes, made.offsets.table)

    async def _open_tables(self, life: Lifetime, identity: Identity) -> Assembly:
        store = await self._open_store(life)
        topics = TopicBook(self._disk, self._clock, system_topics(self._settings.broker, identity.name))
        await topics.load()
        if store.replica.history.epochs.entries and not self._settings.value.replication.is_slave:
            unknown = [queue for queue in store.queues if queue.topic not in topics.table]
            topics.restore((queue.topic, queue.queue_id) for queue in unknown)
        life.on_stop(topics.file.close)
        life.spawn(topics.file.run(), "topics")
        self._assembly = Assembly(
            identity, self._settings, store, topics, disk=self._disk, clock=self._clock, chance=self._chance
        )
        return self._assembly

    def _count(self, life: Lifetime, stats: BrokerStats) -> None:
        life.spawn(counted(Share.BACKGROUND, _sample(stats)), "statistics")
        life.spawn(begin_days(stats, self._clock), "days")

    async def _load_changes(self, life: Lifetime, assembly: Assembly) -> BrokerConfigHandlers:
        changes = BrokerConfigHandlers(
            disk=self._disk, clock=self._clock, settings=self._settings, topics=assembly.topics, gate=assembly.gate
        )
        await changes.load()
        life.on_stop(changes.file.close)
        life.spawn(changes.file.run(), "settings")
        return changes

    async def _consume(self, life: Lifetime, consuming: ConsumerSide) -> ConsumerSide:
        await consuming.load()
        life.on_stop(consuming.close)
        life.spawn(consuming.run(), "consuming")
        return consuming

    def _write(self, life: Lifetime, sends: SendHandlers, transactions: Transactions) -> None:
        """Start what appends to the log; a slave, whose log is a copy, starts none of it."""
        if not self._settings.value.replication.is_slave:
            transactions.open()
            life.spawn(transactions.run(), "transactions")
            life.spawn(sends.rows.windows.run(), "row windows")

    async def _may_serve(self, front: Front, consuming: ConsumerSide, turns: Turns) -> bool:
        """Wait until clients may be served; return False when the part of this broker is over before that.

        A master of an elected group tells its tables meanwhile: it may need a replica that has to copy them first.
        """
        part = self._part
        if part is None or not part.leads:
            return part is None or await part.serves()
        address = Address(self._settings.broker.bind_address, self._settings.broker.listen_port)
        async with Lifetime("tables for replicas") as life:
            await self._serve(life, address, front.to_replicas(), consuming, turns)
            return await part.serves()

    async def _listen(self, life: Lifetime, front: Front, consuming: ConsumerSide, turns: Turns) -> None:
        bind, port = self._settings.broker.bind_address, self._settings.broker.listen_port
        await self._serve(life, Address(bind, port), front, consuming, turns)
        if port > FAST_PORT_BELOW:
            fast = Address(bind, port - FAST_PORT_BELOW)
            await self._serve(life, fast, front.without(NOT_ON_FAST_PORT), consuming, turns)

    async def _serve(
        self, life: Lifetime, address: Address, front: Front, consuming: ConsumerSide, turns: Turns
    ) -> None:
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
