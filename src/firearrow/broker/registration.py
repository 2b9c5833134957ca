"""Registers the broker's topics at every name server: at the start, every thirty seconds, and when a topic changes.

Every name server has a task of its own, so a slow name server does not delay the others. A changed topic is sent alone.
A name server may refuse that, because it does not know the broker yet or because Apache forbids a first registration
with one topic; then the whole table follows at once. The answer lists the topics that are strictly ordered.

A table of more than `PART_TOPICS` topics is sent in parts, as Apache's brokers do with ``enableSplitRegistration``, to
bound the size of a frame and the length of a turn. A name server updates its topics only when the data version of a
part differs from the last one, so every part but the last carries a data version just before the table's own. A large
table that has not changed is not sent again: the broker asks whether the name server has this data version
(QUERY_DATA_VERSION, which renews the lease) and sends a few parts in turn, so that topics that the name server has lost
are back within `TURN_PERIODS`.

`leave` unregisters everywhere. `wipe_writes` takes the write permission away before that, so that producers use other
brokers while this broker still answers; `forbid_writes` does the same for good when the store takes no messages.
Java: ``BrokerController.registerBrokerAll``, ``BrokerOuterAPI``. Invariants: a name server never gets an older state
after a newer one; the first registration sends the whole table.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from itertools import islice
from typing import Any, Final
from zlib import crc32

from msgspec.structs import replace

from firearrow import fastjson
from firearrow.broker.identity import Identity
from firearrow.broker.settings.live import LiveSettings
from firearrow.broker.tables.topic_book import TopicBook
from firearrow.errors import BadBody, FireArrowError
from firearrow.model.flags import PERM_READ, PERM_WRITE
from firearrow.protocol.bodies.admin.topic import TopicConfig, TopicConfigAndMappingTable
from firearrow.protocol.bodies.body import encode_body
from firearrow.protocol.bodies.naming.registration import RegisterBrokerBody, encode_registration
from firearrow.protocol.bodies.naming.route import KVTable
from firearrow.protocol.bodies.version import DataVersion
from firearrow.protocol.conversation import Request
from firearrow.protocol.requests.naming.registration import (
    QueryDataVersion,
    RegisterBroker,
    RegisterBrokerAnswer,
    UnregisterBroker,
)
from firearrow.protocol.requests.naming.route import WipeWritePermOfBroker
from firearrow.record.layout import CRC_MASK
from firearrow.remoting.caller import Caller
from firearrow.runtime.network import Address
from firearrow.store.epochs.replica_files import ReplicaFiles
from firearrow.telemetry.damped import DampedEvents

SHORTEST_PERIOD_MS: Final = 10_000
LONGEST_PERIOD_MS: Final = 60_000
LEAVE_TIMEOUT_MS: Final = 3_000
ANNOUNCE_TIMEOUT_MS: Final = 3_000
"""The time that the answer to a change of a topic waits for the name servers."""
PART_TOPICS: Final = 2_000
"""Most topics in one registration: half a MiB, a millisecond to encode."""
TURN_PERIODS: Final = 20
"""Number of periods within which every part of a large table is sent again."""
RETRY_AFTER_MS: Final = 1_000
"""Pause before a failed registration is retried, unless the next periodic one is due earlier."""

log = logging.getLogger(__name__)


class Registration:
    """Keeps this broker registered at its name servers."""

    def __init__(
        self,
        caller: Caller,
        name_servers: Sequence[Address],
        *,
        topics: TopicBook,
        settings: LiveSettings,
        identity: Identity,
        replica: ReplicaFiles,
    ) -> None:
        self._caller = caller
        self._topics = topics
        self._settings = settings
        self._identity = identity
        self._replica = replica
        self._left = False
        self._drains = False
        self._forbids = False
        self.at: Final = [_NameServer(self, address) for address in name_servers]
        self._topics.on_changed.append(self._changed)
        self._settings.on_change.append(self.whole)
        self.on_registered: Callable[[RegisterBrokerAnswer], None] = lambda _: None
        """Called with every answer of a name server; for a slave it holds the addresses of the master."""

    async def run(self) -> None:
        """Register until cancelled."""
        async with asyncio.TaskGroup() as group:
            for name_server in self.at:
                group.create_task(name_server.run())

    async def first(self) -> int:
        """Register everywhere for the first time; return how many name servers accepted."""
        outcomes = await asyncio.gather(*(name_server.register_all() for name_server in self.at))
        return sum(outcomes)

    @property
    def failing(self) -> int:
        """The number of name servers that did not take the last registration."""
        return sum(name_server.is_failing for name_server in self.at)

    def whole(self) -> None:
        """Register the whole table again, soon."""
        for name_server in self.at:
            name_server.whole()

    async def announced(self) -> None:
        """Wait until every pending registration was attempted, for at most `ANNOUNCE_TIMEOUT_MS`."""
        try:
            async with asyncio.timeout(ANNOUNCE_TIMEOUT_MS / 1000):
                await asyncio.gather(*(name_server.attempted() for name_server in self.at))
        except TimeoutError:
            log.warning("a name server takes its time: the change reaches it later")

    def _changed(self, topics: tuple[TopicConfig, ...]) -> None:
        for name_server in self.at:
            name_server.changed(topics)

    # ---- leaving

    async def leave(self) -> None:
        """Unregister this broker at every name server."""
        self._left = True
        broker = self._settings.broker
        request = UnregisterBroker(
            broker_name=self._identity.name,
            broker_addr=self._identity.address,
            cluster_name=broker.broker_cluster_name,
            broker_id=broker.broker_id,
        )
        await asyncio.gather(*(self._tell(name_server.address, request) for name_server in self.at))

    async def wipe_writes(self) -> None:
        """Take the write permission away, so that producers stop sending here after their next route update."""
        self._drains = True
        request = WipeWritePermOfBroker(broker_name=self._identity.name)
        told = await asyncio.gather(*(self._tell(name_server.address, request) for name_server in self.at))
        if not all(told):  # they hear of it by a registration, when they can be reached
            self._topics.renew_version()
            self.whole()

    def forbid_writes(self) -> None:
        """Register without write permission from now on, because the store takes no messages."""
        self._drains = self._forbids = True
        self._topics.renew_version()
        self.whole()

    async def _tell(self, address: Address, request: Request[Any]) -> bool:
        """Tell a name server something; return whether it has answered."""
        try:
            await self._caller.call(address, request, timeout_ms=LEAVE_TIMEOUT_MS)
        except FireArrowError as error:
            log.warning("a name server could not be told", extra={"name_server": str(address), "reason": str(error)})
            return False
        return True

    # ---- registering

    async def register(self, address: Address, topics: dict[str, TopicConfig]) -> None:
        """Register topics at one name server; raise when the name server refuses or does not answer."""
        version, parts = self._version, parts_of(topics)
        for number in range(parts):
            await self._register_part(address, part_of(topics, number), _before(version, parts - 1 - number))

    @property
    def _version(self) -> DataVersion:
        """The edition of the table. In a group it carries the epoch: name servers refuse the master of an older one."""
        version, last = self._topics.table.version, self._replica.history.epochs.last
        return version if last is None else replace(version, state_version=last.epoch)

    async def refresh(self, address: Address, period: int) -> None:
        """Renew the lease: send a few parts of a large table that the name server has, otherwise the whole table."""
        if self._forbids:  # an operator may have restored the permission at the name server
            self._topics.renew_version()
        topics = self.all_topics()
        if len(topics) <= PART_TOPICS or not await self._is_known(address):
            await self.register(address, topics)
            return
        for number in range(period % TURN_PERIODS, parts_of(topics), TURN_PERIODS):
            await self._register_part(address, part_of(topics, number), self._version)

    async def _is_known(self, address: Address) -> bool:
        """Whether a name server has this data version of the table; the question renews the lease."""
        broker = self._settings.broker
        request = QueryDataVersion(
            broker_name=self._identity.name,
            broker_addr=self._identity.address,
            cluster_name=broker.broker_cluster_name,
            broker_id=broker.broker_id,
        )
        body = encode_body(self._version)
        reply = await self._caller.call(address, request, body, timeout_ms=broker.register_broker_timeout_mills)
        return not reply.answer.changed

    async def _register_part(self, address: Address, topics: dict[str, TopicConfig], version: DataVersion) -> None:
        broker = self._settings.broker
        body = encode_registration(self._body(topics, version), compressed=broker.compressed_register)
        request = RegisterBroker(
            broker_name=self._identity.name,
            broker_addr=self._identity.address,
            cluster_name=broker.broker_cluster_name,
            ha_server_addr=self._identity.ha_address,
            broker_id=broker.broker_id,
            enable_acting_master=False,
            compressed=broker.compressed_register,
            body_crc32=crc32(body) & CRC_MASK,
        )
        reply = await self._caller.call(address, request, body, timeout_ms=broker.register_broker_timeout_mills)
        self.on_registered(reply.answer)
        if reply.body:
            self._topics.order(_ordered(reply.body))

    def _body(self, topics: dict[str, TopicConfig], version: DataVersion) -> RegisterBrokerBody:
        permission = self._settings.broker.broker_permission
        if self._drains:
            permission &= ~PERM_WRITE
        if permission & (PERM_READ | PERM_WRITE) != PERM_READ | PERM_WRITE:
            # A topic has no permission that the broker as a whole does not have.
            topics = {name: replace(topic, perm=topic.perm & permission) for name, topic in topics.items()}
        table = TopicConfigAndMappingTable(data_version=version, topic_config_table=topics)
        return RegisterBrokerBody(topic_config_serialize_wrapper=table)

    @property
    def has_left(self) -> bool:
        """Whether the broker has unregistered."""
        return self._left

    @property
    def period_s(self) -> float:
        """Seconds between two registrations."""
        asked = self._settings.broker.register_name_server_period
        return min(max(asked, SHORTEST_PERIOD_MS), LONGEST_PERIOD_MS) / 1000

    def all_topics(self) -> dict[str, TopicConfig]:
        """The whole table."""
        return dict(self._topics.table.topics)


class _NameServer:
    """One name server and the registrations that are pending for it."""

    def __init__(self, registration: Registration, address: Address) -> None:
        self.address = address
        self._registration = registration
        self._pending: dict[str, TopicConfig] = {}
        self._whole = True
        self._period = 0
        self._is_due = False
        self._wanted = asyncio.Event()
        self._one_at_a_time = asyncio.Lock()
        self._watching: list[asyncio.Future[None]] = []
        self._failures = DampedEvents()
        self.is_failing = False
        """Whether the last registration was refused or not answered."""

    def changed(self, topics: tuple[TopicConfig, ...]) -> None:
        self._pending.update({topic.topic_name or "": topic for topic in topics})
        self._wanted.set()

    def whole(self) -> None:
        self._whole = True
        self._wanted.set()

    async def run(self) -> None:
        loop = asyncio.get_running_loop()
        wait_s = self._registration.period_s
        due = loop.time() + wait_s
        while True:
            await self._pause(min(wait_s, max(due - loop.time(), 0)))
            if loop.time() >= due:
                self._is_due = True
                self._period += 1
                due = loop.time() + self._registration.period_s
            done = await self._register()
            wait_s = self._registration.period_s if done else RETRY_AFTER_MS / 1000

    async def _pause(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._wanted.wait()
        except TimeoutError:
            pass

    async def register_all(self) -> bool:
        """Register the whole table now; return whether the name server accepted."""
        self._whole = True
        return await self._register()

    async def attempted(self) -> None:
        """Wait until the next registration has succeeded or failed, if one is pending."""
        if self._pending or self._whole:
            future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._watching.append(future)
            await future

    async def _register(self) -> bool:
        done = await self._register_pending()
        watching, self._watching = self._watching, []
        for future in watching:
            if not future.done():
                future.set_result(None)
        return done

    async def _register_pending(self) -> bool:
        async with self._one_at_a_time:
            self._wanted.clear()
            registration, pending = self._registration, self._pending
            if registration.has_left or not (self._whole or self._is_due or pending):
                return True
            whole, self._pending, self._whole = self._whole, {}, False
            try:
                await self._say(whole, pending)
            except FireArrowError as error:
                # Topics that could not be registered alone are sent again with the whole table.
                self._whole = self.is_failing = True
                values = {"name_server": str(self.address), "reason": str(error), "topics": len(pending)}
                now, event = asyncio.get_running_loop().time(), f"registration at {self.address} failed: {error}"
                self._failures.warn(log, now, event, values)
                return False
            self.is_failing = False
            return True

    async def _say(self, whole: bool, pending: dict[str, TopicConfig]) -> None:
        registration = self._registration
        if whole:
            await registration.register(self.address, registration.all_topics())
        elif pending:
            await registration.register(self.address, pending)
        if self._is_due and not whole:
            await registration.refresh(self.address, self._period)
        self._is_due = False


def parts_of(topics: dict[str, TopicConfig]) -> int:
    """Return how many registrations a table takes."""
    return -(-len(topics) // PART_TOPICS)


def part_of(topics: dict[str, TopicConfig], number: int) -> dict[str, TopicConfig]:
    """Return the topics of one registration, by its number from 0 on."""
    return dict(islice(topics.items(), number * PART_TOPICS, (number + 1) * PART_TOPICS))


def _before(version: DataVersion, steps: int) -> DataVersion:
    """Return a data version that is ``steps`` before this one; 0 steps return this one."""
    return replace(version, timestamp=version.timestamp - steps)


def _ordered(body: bytes) -> list[str]:
    try:
        return list(fastjson.decode(body, KVTable).table)
    except BadBody as error:
        log.warning("the answer to a registration cannot be read", extra={"reason": str(error)})
        return []
