"""Telling every name server which topics are here: at the start, every thirty seconds, and when a topic changes.

Each name server has a task of its own, so a slow one holds up nobody. A changed topic is sent by itself; when the name
server does not take that (it does not know the broker yet, or Apache's rule against first registrations of one topic
struck), the whole table follows at once. The answer says which topics are strictly ordered.

A table of more than `PART_TOPICS` topics goes in parts, as Apache's brokers send it with ``enableSplitRegistration``:
no frame is too large, and no turn of the loop too long. A name server overwrites what it knows only when a part says
another edition than it last heard, so all parts but the last say editions just before the table's own. When nothing has
changed, such a table is not sent again: the name server is asked whether it has this edition (QUERY_DATA_VERSION, which
keeps the lease alive), and gets a few parts in turn, so that what went missing there is back within `TURN_PERIODS`.

`leave` unregisters everywhere. `wipe_writes` takes the write permission away first, so that producers go elsewhere
while the broker still answers; `forbid_writes` does so for good, where the store takes no messages any more.
Java: ``BrokerController.registerBrokerAll``, ``BrokerOuterAPI``.

Invariants: what a name server last heard is never older than the change before it; the first registration is whole.
"""

import asyncio
import logging
from collections.abc import Sequence
from itertools import islice
from typing import Any, Final
from zlib import crc32

from msgspec.structs import replace

from firearrow import fastjson
from firearrow.broker.identity import Identity
from firearrow.broker.live import LiveSettings
from firearrow.broker.topicbook import Topics
from firearrow.errors import BadBody, FireArrowError
from firearrow.model.flags import PERM_READ, PERM_WRITE
from firearrow.protocol.bodies.body import encode_body
from firearrow.protocol.bodies.registration import RegisterBrokerBody, encode_registration
from firearrow.protocol.bodies.route import KVTable
from firearrow.protocol.bodies.topic import TopicConfig, TopicConfigAndMappingTable
from firearrow.protocol.bodies.version import DataVersion
from firearrow.protocol.conversation import Request
from firearrow.protocol.requests.registration import QueryDataVersion, RegisterBroker, UnregisterBroker
from firearrow.protocol.requests.route import WipeWritePermOfBroker
from firearrow.record.layout import CRC_MASK
from firearrow.remoting.caller import Caller
from firearrow.runtime.network import Address

SHORTEST_PERIOD_MS: Final = 10_000
LONGEST_PERIOD_MS: Final = 60_000
LEAVE_TIMEOUT_MS: Final = 3_000
ANNOUNCE_TIMEOUT_MS: Final = 3_000
"""How long whoever changed a topic waits for name servers to hear of it."""
PART_TOPICS: Final = 2_000
"""Topics in one registration at most: half a MiB, a millisecond to encode."""
TURN_PERIODS: Final = 20
"""Periods in which every part of a large table is sent once more."""
RETRY_AFTER_MS: Final = 1_000
"""A registration that failed is tried again after this long, and no later than the period says."""

log = logging.getLogger(__name__)


class Registration:
    """This broker, as name servers know it."""

    def __init__(
        self,
        caller: Caller,
        name_servers: Sequence[Address],
        topics: Topics,
        settings: LiveSettings,
        identity: Identity,
    ) -> None:
        self._caller = caller
        self._topics = topics
        self._settings = settings
        self._identity = identity
        self._left = False
        self._drains = False
        self.at: Final = [_NameServer(self, address) for address in name_servers]
        topics.on_changed.append(self._changed)
        settings.on_change.append(self.whole)

    async def run(self) -> None:
        """Register until cancelled."""
        async with asyncio.TaskGroup() as group:
            for name_server in self.at:
                group.create_task(name_server.run())

    async def first(self) -> int:
        """Register everywhere for the first time; return how many name servers took it."""
        outcomes = await asyncio.gather(*(name_server.register_all() for name_server in self.at))
        return sum(outcomes)

    def whole(self) -> None:
        """Register the whole table again, soon."""
        for name_server in self.at:
            name_server.whole()

    async def announced(self) -> None:
        """Return when every name server has been told what it had to be told, or does not answer in time."""
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
        """Tell every name server that this broker is gone."""
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
        """Let producers see, at their next look at the route, that nothing is to be sent here any more."""
        self._drains = True
        request = WipeWritePermOfBroker(broker_name=self._identity.name)
        await asyncio.gather(*(self._tell(name_server.address, request) for name_server in self.at))

    def forbid_writes(self) -> None:
        """Register without the permission to write from here on: nothing sent here would be stored."""
        self._drains = True
        self._topics.renew_version()
        self.whole()

    async def _tell(self, address: Address, request: Request[Any]) -> None:
        try:
            await self._caller.call(address, request, timeout_ms=LEAVE_TIMEOUT_MS)
        except FireArrowError as error:
            log.warning("a name server could not be told", extra={"name_server": str(address), "reason": str(error)})

    # ---- registering

    async def register(self, address: Address, topics: dict[str, TopicConfig]) -> None:
        """Say at one name server that these topics are here; raise when it does not take it."""
        version, parts = self._topics.table.version, parts_of(topics)
        for number in range(parts):
            await self._register_part(address, part_of(topics, number), _before(version, parts - 1 - number))

    async def refresh(self, address: Address, period: int) -> None:
        """Keep the lease of a large table alive where it is known, and send some of it again; or send all of it."""
        topics = self.all_topics()
        if len(topics) <= PART_TOPICS or not await self._is_known(address):
            await self.register(address, topics)
            return
        for number in range(period % TURN_PERIODS, parts_of(topics), TURN_PERIODS):
            await self._register_part(address, part_of(topics, number), self._topics.table.version)

    async def _is_known(self, address: Address) -> bool:
        """Whether a name server has this edition of the table; asking keeps the lease alive."""
        broker = self._settings.broker
        request = QueryDataVersion(
            broker_name=self._identity.name,
            broker_addr=self._identity.address,
            cluster_name=broker.broker_cluster_name,
            broker_id=broker.broker_id,
        )
        body = encode_body(self._topics.table.version)
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
        if reply.body:
            self._topics.order(_ordered(reply.body))

    def _body(self, topics: dict[str, TopicConfig], version: DataVersion) -> RegisterBrokerBody:
        permission = self._settings.broker.broker_permission
        if self._drains:
            permission &= ~PERM_WRITE
        if permission & (PERM_READ | PERM_WRITE) != PERM_READ | PERM_WRITE:
            # What the whole broker forbids no topic allows.
            topics = {name: replace(topic, perm=topic.perm & permission) for name, topic in topics.items()}
        table = TopicConfigAndMappingTable(data_version=version, topic_config_table=topics)
        return RegisterBrokerBody(topic_config_serialize_wrapper=table)

    @property
    def has_left(self) -> bool:
        """Whether the broker has said good-bye."""
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
    """One name server: what it has to be told."""

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
        """Register the whole table now; whether it was taken."""
        self._whole = True
        return await self._register()

    async def attempted(self) -> None:
        """Wait for the next registration to come to its end, if there is anything to register."""
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
                # What a name server did not take by itself it gets with everything else.
                self._whole = True
                extra = {"name_server": str(self.address), "reason": str(error), "topics": len(pending)}
                log.warning("registration at %s failed: %s", self.address, error, extra=extra)
                return False
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
    """How many registrations a table takes."""
    return -(-len(topics) // PART_TOPICS)


def part_of(topics: dict[str, TopicConfig], number: int) -> dict[str, TopicConfig]:
    """The topics of one of them."""
    return dict(islice(topics.items(), number * PART_TOPICS, (number + 1) * PART_TOPICS))


def _before(version: DataVersion, steps: int) -> DataVersion:
    """An edition that is not this one, a different one for each number of steps; this one for none."""
    return replace(version, timestamp=version.timestamp - steps)


def _ordered(body: bytes) -> list[str]:
    try:
        return list(fastjson.decode(body, KVTable).table)
    except BadBody as error:
        log.warning("the answer to a registration cannot be read", extra={"reason": str(error)})
        return []
