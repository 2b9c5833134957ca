"""A broker: the store, the tables, the answers and the clock, put together. Wiring only, no decisions.

Started in this order, ended in the reverse: store, tables and their files, answers, ports, registration. So a broker
takes requests only when everything behind it is there, name servers hear of it last, and what it has acknowledged is
durable when it has ended in order. Java: ``BrokerController``.
"""

import asyncio
import logging
import random
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager, suppress
from datetime import UTC
from typing import Final

from msgspec.structs import replace

from firearrow.broker.admission import Admission
from firearrow.broker.config import FAST_PORT_BELOW, BrokerSettings
from firearrow.broker.consuming import Consuming, Permissions, Place
from firearrow.broker.diskwatch import DiskWatch
from firearrow.broker.handlers.brokerconfig import BrokerConfigHandlers
from firearrow.broker.handlers.query import QueryHandlers
from firearrow.broker.handlers.runtime import RuntimeHandlers, begin_days
from firearrow.broker.handlers.send import SendHandlers
from firearrow.broker.handlers.topic import TopicHandlers
from firearrow.broker.handlers.unserved import UnservedHandlers
from firearrow.broker.identity import Identity
from firearrow.broker.live import LiveSettings
from firearrow.broker.meters import SAMPLE_MS
from firearrow.broker.offsets import OffsetTable
from firearrow.broker.pending import refuse_pending
from firearrow.broker.registration import Registration
from firearrow.broker.selfcheck import warn
from firearrow.broker.stats import BrokerStats
from firearrow.broker.topicbook import Topics
from firearrow.broker.topics import system_topics
from firearrow.broker.watch import Watch
from firearrow.errors import ListenFailed, SettingsError
from firearrow.model import Address as Host
from firearrow.protocol.codes import RequestCode
from firearrow.record.message_id import UniqueKeys
from firearrow.remoting.caller import Caller
from firearrow.remoting.handlers import Handlers
from firearrow.remoting.server import Server
from firearrow.runtime.clock import Clock
from firearrow.runtime.disk import Disk
from firearrow.runtime.machine import Machine
from firearrow.runtime.network import Address, Network
from firearrow.runtime.service import Lifetime
from firearrow.runtime.tlssettings import server_context
from firearrow.store.placement import FLUSHED, WRITTEN
from firearrow.store.store import Store, StoreConfig
from firearrow.store.views import ViewsConfig

PORT_ATTEMPTS: Final = 50
NOT_ON_FAST_PORT: Final = frozenset({RequestCode.PULL_MESSAGE, RequestCode.LITE_PULL_MESSAGE})

log = logging.getLogger(__name__)


class Broker:
    """Takes messages, keeps them, hands them out. ``disk`` is the directory of its store."""

    def __init__(
        self,
        settings: BrokerSettings,
        machine: Machine,
        *,
        network: Network,
        disk: Disk,
        clock: Clock,
        chance: random.Random,
    ) -> None:
        self._settings = LiveSettings(settings)
        self._name_servers = _addresses(settings.broker.namesrv_addr)
        self._machine = machine
        self._network = network
        self._disk = disk
        self._clock = clock
        self._chance = chance
        self._caller = Caller(network)
        self._registration: Registration | None = None
        self._offsets: OffsetTable | None = None
        self._changes: BrokerConfigHandlers | None = None
        self._instance = f"{chance.getrandbits(64):016x}"

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[Identity]:
        """Serve within the block; raise what keeps it from serving."""
        identity = await self._identify()
        async with Lifetime("broker") as life:
            life.on_stop(self._caller.close)
            store = await self._open_store(life)
            topics = await self._load_topics(life, identity)
            stats = self._count(life, identity)
            await self._load_changes(life, topics)
            consuming = await self._consume(life, identity, store, topics, stats)
            self._offsets = consuming.offsets
            registration = Registration(self._caller, self._name_servers, topics, self._settings, identity)
            handlers = Handlers()
            consuming.add_to(handlers)
            sends = self._produce(identity, store, topics, consuming, stats)
            sends.add_to(handlers)
            watch = Watch(sends.pacing, sends, sends.answers)
            life.spawn(watch.run(), "watch")
            life.spawn(self._disk_watch().run(), "disk")
            self._operate(identity, store, topics, consuming, stats, watch, registration, handlers)
            await self._listen(life, identity, handlers, consuming)
            self._leave_when_fenced(store, registration)
            await self._register(life, registration)
            life.spawn(warn(self._caller, identity, self._instance), "self-check")
            log.info("broker serves", extra={"broker": identity.name, "address": identity.address})
            yield identity

    async def drain(self) -> None:
        """Let producers go elsewhere while everything is still answered, for as long as their routes live."""
        if self._registration is not None:
            await self._registration.wipe_writes()
            await asyncio.sleep(self._settings.broker.drain_wait_seconds)

    # ---- parts, in the order of their start

    async def _identify(self) -> Identity:
        value = self._settings.value
        given = value.broker
        broker = replace(
            given,
            broker_name=given.broker_name or self._machine.name,
            broker_ip1=given.broker_ip1 or self._machine.ip,
            listen_port=given.listen_port or await self._free_port(),
        )
        self._settings.replace(replace(value, broker=broker))
        return Identity(
            name=broker.broker_name, cluster=broker.broker_cluster_name, ip=broker.broker_ip1, port=broker.listen_port
        )

    async def _free_port(self) -> int:
        """A port that is free together with the one two below it."""
        # Records hold the port, so it must be known before anything else is there.
        for _ in range(PORT_ATTEMPTS):
            port = await self._try_port(0)
            with suppress(ListenFailed):
                await self._try_port(port - FAST_PORT_BELOW)
                return port
        raise ListenFailed(
            f"no port of {PORT_ATTEMPTS} tried has its neighbour two below free: choose one with listenPort"
        )

    async def _try_port(self, port: int) -> int:
        listener = await self._network.listen(asyncio.Protocol, Address(self._settings.broker.bind_address, port))
        listener.close()
        await listener.wait_closed()
        return listener.address.port

    async def _open_store(self, life: Lifetime) -> Store:
        settings = self._settings.value
        views = ViewsConfig(queues=settings.queues, index=settings.index, delays_ms=settings.broker.delays_ms)
        config = StoreConfig(log=settings.log, views=views, retention=settings.retention, scrub=settings.scrub)
        machine = self._machine
        store = await Store.open(
            self._disk, self._clock, config, machine.boot_id, zone=machine.zone, offsets=self._read_by_groups
        )
        try:
            await self._refuse_pending(store)
        except BaseException:
            await store.close()
            raise
        life.spawn(store.run(), "store")
        life.on_stop(store.close)
        return store

    async def _refuse_pending(self, store: Store) -> None:
        broker = self._settings.broker
        await refuse_pending(self._disk, store, broker.store_path_root_dir, opens=broker.open_with_pending_state)

    def _read_by_groups(self) -> Iterable[tuple[str, str, dict[int, int]]]:
        """What groups have read, for warnings about what they lose; nothing before the offsets are loaded."""
        return () if self._offsets is None else self._offsets.rows()

    async def _load_topics(self, life: Lifetime, identity: Identity) -> Topics:
        topics = Topics(self._disk, self._clock, system_topics(self._settings.broker, identity.name))
        await topics.load()
        life.on_stop(topics.file.close)
        life.spawn(topics.file.run(), "topics")
        return topics

    def _count(self, life: Lifetime, identity: Identity) -> BrokerStats:
        stats = BrokerStats(identity.cluster, _elapsed_ms())
        life.spawn(_sample(stats), "statistics")
        life.spawn(begin_days(stats, self._clock), "days")
        return stats

    async def _load_changes(self, life: Lifetime, topics: Topics) -> None:
        changes = self._changes = BrokerConfigHandlers(self._disk, self._clock, self._settings, topics)
        await changes.load()
        life.on_stop(changes.file.close)
        life.spawn(changes.file.run(), "settings")

    async def _consume(
        self, life: Lifetime, identity: Identity, store: Store, topics: Topics, stats: BrokerStats
    ) -> Consuming:
        live = self._settings
        consuming = Consuming(
            store,
            topics,
            self._disk,
            self._clock,
            self._chance,
            Place(broker_name=identity.name, address=identity.address, ip=identity.ip, store_host=identity.store_host),
            levels=live.broker.delays_ms,
            memory_bytes=self._machine.memory_bytes,
            kept_at=FLUSHED if live.value.log.syncs_first else WRITTEN,
            config=live.value.consuming,
            pulls=live.value.pull,
            permissions=Permissions(
                is_readable=lambda: live.broker.is_readable,
                is_writable=lambda: live.broker.is_writable,
                makes_groups=lambda: live.broker.auto_create_subscription_group,
            ),
            counts=stats,
            rate=lambda group, topic: stats.consume_tps(group, topic, _elapsed_ms()),
        )
        live.on_change.append(lambda: consuming.pulls.configure(live.value.pull))
        await consuming.load()
        life.on_stop(consuming.close)
        life.spawn(consuming.run(), "consuming")
        return consuming

    def _produce(
        self, identity: Identity, store: Store, topics: Topics, consuming: Consuming, stats: BrokerStats
    ) -> SendHandlers:
        ip = identity.ip
        return SendHandlers(
            store,
            topics,
            consuming.groups,
            settings=self._settings,
            store_host=Host(ip, identity.port),
            clock=self._clock,
            chance=self._chance,
            unique_keys=UniqueKeys(ip, self._chance.getrandbits(16), self._chance.getrandbits(32), UTC),
            counts=stats,
            admission=Admission(self._settings),
            is_consumed_in_order=lambda group: consuming.locks.is_any_held(group, _elapsed_ms()),
            disk_text=self._disk_text,
        )

    def _operate(
        self,
        identity: Identity,
        store: Store,
        topics: Topics,
        consuming: Consuming,
        stats: BrokerStats,
        watch: Watch,
        registration: Registration,
        handlers: Handlers,
    ) -> None:
        errands = consuming.errands
        TopicHandlers(
            topics,
            store,
            errands,
            self._settings,
            broker_name=identity.name,
            announced=registration.announced,
            keepers=(consuming.offsets, stats),
            offsets_changed=consuming.offset_file.changed,
            put_tps=lambda topic: stats.topic_put_tps(topic, _elapsed_ms()),
        ).add_to(handlers)
        RuntimeHandlers(
            store,
            self._disk,
            self._clock,
            self._settings,
            stats,
            watch,
            consuming.delays,
            errands,
            elapsed_ms=_elapsed_ms,
            instance=self._instance,
        ).add_to(handlers)
        QueryHandlers(store, consuming.clients, errands).add_to(handlers)
        UnservedHandlers(identity.ip, self._settings.broker.region_id).add_to(handlers)
        if self._changes is not None:
            self._changes.add_to(handlers)

    async def _listen(self, life: Lifetime, identity: Identity, handlers: Handlers, consuming: Consuming) -> None:
        bind = self._settings.broker.bind_address
        await self._serve(life, Address(bind, identity.port), handlers, consuming)
        if identity.port > FAST_PORT_BELOW:
            fast = _without(handlers, NOT_ON_FAST_PORT)
            await self._serve(life, Address(bind, identity.port - FAST_PORT_BELOW), fast, consuming)

    async def _serve(self, life: Lifetime, address: Address, handlers: Handlers, consuming: Consuming) -> None:
        settings = self._settings.value
        server = Server(
            self._network,
            handlers,
            settings.limits,
            tls=server_context(settings.tls) if settings.tls.certificate_path else None,
            tls_mode=settings.tls.mode,
            on_disconnect=consuming.disconnected,
        )
        await server.start(address)
        life.on_stop(server.stop)

    def _leave_when_fenced(self, store: Store, registration: Registration) -> None:
        """Send producers elsewhere once the store takes no messages; consumers still read what is there."""

        def fenced() -> None:
            log.error("registered without write permission: %s", store.log.fenced)
            registration.forbid_writes()

        store.log.on_fenced = fenced
        if store.log.fenced is not None:
            fenced()

    async def _register(self, life: Lifetime, registration: Registration) -> None:
        self._registration = registration
        await registration.first()
        life.on_stop(registration.leave)
        life.spawn(registration.run(), "registration")

    def _disk_watch(self) -> DiskWatch:
        settings = self._settings.value
        return DiskWatch(self._disk, settings.broker.store_path_root_dir, settings.retention)

    def _disk_text(self) -> str:
        usage = self._disk.usage()
        used = 100 * (usage.total - usage.free) / usage.total if usage.total else 0.0
        return f"CL: {used:5.2f} CQ: {used:5.2f} INDEX: {used:5.2f}"


def _addresses(text: str) -> list[Address]:
    try:
        return [Address.parse(one) for one in text.split(";") if one.strip()]
    except SettingsError as error:
        raise SettingsError(f"namesrvAddr={text!r} is not a list of name servers: {error}") from error


def _without(handlers: Handlers, codes: frozenset[RequestCode]) -> Handlers:
    some = Handlers()
    some.by_code.update({code: handler for code, handler in handlers.by_code.items() if code not in codes})
    some.urgent.update(handlers.urgent)
    some.gate = handlers.gate
    some.failures = handlers.failures
    return some


async def _sample(stats: BrokerStats) -> None:
    while True:
        await asyncio.sleep(SAMPLE_MS / 1000)
        await stats.sample(_elapsed_ms())


def _elapsed_ms() -> int:
    return int(asyncio.get_running_loop().time() * 1000)
