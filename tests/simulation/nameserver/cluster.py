"""A simulated cluster: name servers, fake brokers, fake clients."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

from firearrow import fastjson
from firearrow.nameserver import pictures
from firearrow.nameserver.config import NameServerConfig
from firearrow.nameserver.server import NameServer
from firearrow.protocol.bodies.naming.route import TopicRouteData
from firearrow.runtime.network import Address
from firearrow.testing.sim.world import Node, World
from tests.simulation.nameserver.fakes import FakeBroker, FakeClient, Seen, Topics, sound

PORT = 9876

Picture = dict[str, tuple[int, dict[int, str]]]
"""A route: broker name to number of queues and members."""


@dataclass
class SimCluster:
    """Everything in one world. ``servers`` are the running name servers by node name."""

    world: World
    config: NameServerConfig = field(default_factory=NameServerConfig)
    seen: Seen = field(default_factory=Seen)
    names: list[Node] = field(default_factory=list)
    servers: dict[str, NameServer] = field(default_factory=dict)
    brokers: list[FakeBroker] = field(default_factory=list)
    clients: list[FakeClient] = field(default_factory=list)

    @property
    def name_servers(self) -> list[Address]:
        return [Address(node.host, PORT) for node in self.names]

    def add_name_server(self) -> Node:
        node = self.world.node(f"names{len(self.names)}")
        self.names.append(node)
        node.start(self.serve)
        return node

    async def serve(self, node: Node) -> None:
        """A name server's process."""
        server = NameServer(self.config, network=node.network, disk=node.disk)
        self.servers[node.name] = server
        try:
            await server.run()
        finally:
            if self.servers.get(node.name) is server:
                del self.servers[node.name]

    def add_broker(
        self,
        name: str,
        topics: Topics,
        *,
        broker_id: int = 0,
        period_s: float = 30.0,
        timeout_ms: int = 120_000,
        compressed: bool = False,
    ) -> FakeBroker:
        node = self.world.node(f"{name}{broker_id}")
        broker = FakeBroker(
            node, name, broker_id, self.name_servers, self.seen, topics, period_s, timeout_ms, compressed
        )
        self.brokers.append(broker)
        node.start(broker.run)
        return broker

    def add_client(self, topics: list[str], period_s: float = 30.0) -> FakeClient:
        node = self.world.node(f"client{len(self.clients)}")
        client = FakeClient(node, self.name_servers, topics, node.rng, self.seen, period_s)
        self.clients.append(client)
        node.start(client.run)
        return client

    def shown(self, server: NameServer, topic: str) -> Picture:
        """The answer that one name server would give now."""
        encoded = pictures.route(server.routes, topic, bare=False)
        return {} if encoded is None else picture(fastjson.decode(encoded, TopicRouteData))

    async def until(self, condition: Callable[[], bool], within_s: float, what: str) -> float:
        """Wait for a condition; return how long it took."""
        start = self.world.loop.time()
        while not condition():
            passed = self.world.loop.time() - start
            assert passed < within_s, f"not within {within_s} s: {what}"
            await asyncio.sleep(0.01)
        return self.world.loop.time() - start


def picture(route: TopicRouteData) -> Picture:
    """A route in short."""
    sound(route)
    members = {str(broker.broker_name): dict(broker.broker_addrs) for broker in route.broker_datas}
    return {str(q.broker_name): (q.read_queue_nums, members[str(q.broker_name)]) for q in route.queue_datas}
