"""Brokers and clients that speak the real protocol and do nothing else.

A ``FakeBroker`` registers its whole table with every name server at once and then once a period, as Apache's broker
does, each name server by itself so that a dead one does not delay the others. A ``FakeClient`` asks one name server for
routes once a period, the next one when that fails. Both are programs of a node: a crash ends them anywhere.
"""

import asyncio
import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from firearrow import fastjson
from firearrow.errors import FireArrowError, RequestRefused
from firearrow.protocol.bodies.admin.topic import TopicConfig, TopicConfigAndMappingTable
from firearrow.protocol.bodies.naming.registration import RegisterBrokerBody, encode_registration
from firearrow.protocol.bodies.naming.route import TopicRouteData
from firearrow.protocol.bodies.version import DataVersion
from firearrow.protocol.codes import ResponseCode
from firearrow.protocol.requests.naming.registration import RegisterBroker, UnregisterBroker
from firearrow.protocol.requests.naming.route import GetRouteInfoByTopic
from firearrow.remoting.caller import Caller
from firearrow.runtime.network import Address
from firearrow.testing.sim.world import Node

REGISTER_TIMEOUT_MS: Final = 6_000
CLUSTER: Final = "SimCluster"


@dataclass
class Seen:
    """The events of a run, to be held against its floors."""

    registrations: int = 0
    refused: int = 0
    failed: int = 0
    lookups: int = 0
    routes: int = 0
    faults: dict[str, int] = field(default_factory=dict)

    def fault(self, kind: str) -> None:
        self.faults[kind] = self.faults.get(kind, 0) + 1


@dataclass
class Topics:
    """The topics of a broker name, shared by its members: name to number of queues, and the edition."""

    queues: dict[str, int]
    edition: int = 1


@dataclass
class FakeBroker:
    """One member of a broker name."""

    node: Node
    name: str
    broker_id: int
    name_servers: Sequence[Address]
    seen: Seen
    topics: Topics
    period_s: float = 30.0
    timeout_ms: int = 120_000
    compressed: bool = False
    says_goodbye: bool = False

    @property
    def address(self) -> str:
        return f"{self.node.host}:10911"

    async def run(self, node: Node) -> None:
        """Register for ever."""
        caller = Caller(node.network)
        news = [asyncio.Event() for _ in self.name_servers]
        self._news = news
        try:
            async with asyncio.TaskGroup() as group:
                for address, event in zip(self.name_servers, news, strict=True):
                    group.create_task(self._keep_registered(caller, address, event))
        finally:
            if self.says_goodbye:
                await self._say_goodbye(caller)
            await caller.close()

    def change(self, topic: str, queues: int) -> None:
        """Create a topic or change it, and register at once."""
        self.topics.queues[topic] = queues
        self.topics.edition += 1
        if self.node.running:
            for event in self._news:
                event.set()

    def body(self) -> bytes:
        """The registration's body, as this broker is now."""
        table = TopicConfigAndMappingTable(
            data_version=DataVersion(counter=self.topics.edition, timestamp=1_700_000_000_000),
            topic_config_table={
                topic: TopicConfig(topic_name=topic, read_queue_nums=queues, write_queue_nums=queues)
                for topic, queues in self.topics.queues.items()
            },
        )
        return encode_registration(RegisterBrokerBody(topic_config_serialize_wrapper=table), compressed=self.compressed)

    async def _keep_registered(self, caller: Caller, address: Address, news: asyncio.Event) -> None:
        while True:
            news.clear()
            await self._register(caller, address)
            try:
                async with asyncio.timeout(self.period_s):
                    await news.wait()
            except TimeoutError:
                continue

    async def _register(self, caller: Caller, address: Address) -> None:
        request = RegisterBroker(
            broker_name=self.name,
            broker_addr=self.address,
            cluster_name=CLUSTER,
            ha_server_addr=f"{self.node.host}:10912",
            broker_id=self.broker_id,
            heartbeat_timeout_millis=self.timeout_ms,
            enable_acting_master=False,
            compressed=self.compressed,
        )
        try:
            await caller.call(address, request, self.body(), timeout_ms=REGISTER_TIMEOUT_MS)
        except RequestRefused:
            self.seen.refused += 1
        except FireArrowError:
            self.seen.failed += 1
        else:
            self.seen.registrations += 1

    async def _say_goodbye(self, caller: Caller) -> None:
        request = UnregisterBroker(
            broker_name=self.name, broker_addr=self.address, cluster_name=CLUSTER, broker_id=self.broker_id
        )
        for address in self.name_servers:
            try:
                await caller.call(address, request, timeout_ms=1_000)
            except FireArrowError:
                self.seen.failed += 1


@dataclass
class FakeClient:
    """Asks for routes, and keeps what it was told last."""

    node: Node
    name_servers: Sequence[Address]
    topics: Sequence[str]
    rng: random.Random
    seen: Seen
    period_s: float = 30.0
    routes: dict[str, TopicRouteData | None] = field(default_factory=dict)

    async def run(self, node: Node) -> None:
        """Poll for ever."""
        caller = Caller(node.network)
        chosen = self.rng.randrange(len(self.name_servers))
        try:
            while True:
                for topic in self.topics:
                    if not await self._look_up(caller, self.name_servers[chosen], topic):
                        chosen = (chosen + 1) % len(self.name_servers)
                await asyncio.sleep(self.period_s)
        finally:
            await caller.close()

    async def _look_up(self, caller: Caller, address: Address, topic: str) -> bool:
        self.seen.lookups += 1
        try:
            reply = await caller.call(address, GetRouteInfoByTopic(topic=topic))
        except RequestRefused as refusal:
            if refusal.code != ResponseCode.TOPIC_NOT_EXIST:
                raise
            self.routes[topic] = None
        except FireArrowError:
            self.seen.failed += 1
            return False
        else:
            self.routes[topic] = sound(fastjson.decode(reply.body, TopicRouteData))
            self.seen.routes += 1
        return True


def sound(route: TopicRouteData) -> TopicRouteData:
    """Return a route that makes sense by itself, whoever is dead or alive; complain about any other."""
    queues = [queue.broker_name for queue in route.queue_datas]
    brokers = [broker.broker_name for broker in route.broker_datas]
    assert len(set(queues)) == len(queues), f"a broker's queues are listed twice: {queues}"
    assert sorted(map(str, queues)) == sorted(map(str, brokers)), f"queues of {queues}, addresses of {brokers}"
    assert all(broker.broker_addrs for broker in route.broker_datas), f"a broker without an address: {route}"
    return route
