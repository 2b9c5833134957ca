"""A cluster under virtual time: hours of retries pass in seconds, and a seed repeats a run bit for bit.

    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("orders")
        async with Producer(cluster.address, doors=cluster.doors("shop")) as producer:
            ...
        await asyncio.sleep(3600)                         # an hour of the cluster's time, none of yours
        await cluster.kill_broker("broker-a")

    simulate(scenario, seed=7)

The brokers are the real ones; clock, disk and network are the simulator's. So a client needs ``doors``, its place in
the simulated network, and code under test must wait with ``asyncio.sleep``: code that reads the machine's clock, or
opens files or sockets, fails the run. Threads are refused.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import UTC
from typing import Final, TypeVar

from msgspec.structs import replace

from firearrow.admin import Admin
from firearrow.broker.broker import Broker
from firearrow.broker.settings.config import BrokerSettings
from firearrow.client.doors import Doors
from firearrow.errors import NoSuchName
from firearrow.nameserver.config import NameServerConfig
from firearrow.nameserver.server import NameServer
from firearrow.runtime.machine import Machine
from firearrow.runtime.network import Address
from firearrow.testing.cluster import QUEUES, broker_settings, names_of
from firearrow.testing.sim.world import Node, World

T = TypeVar("T")

NAMES_PORT: Final = 9876
BROKER_PORT: Final = 10911
MEMORY_BYTES: Final = 1 << 30


class SimulatedCluster:
    """One name server and some brokers, each a machine of a simulated world."""

    def __init__(self, world: World, brokers: int | Sequence[str], settings: Mapping[str, str]) -> None:
        self.world: Final = world
        self._names = world.node("names")
        self._settings = broker_settings(settings)
        self._brokers = {name: world.node(name) for name in names_of(brokers)}
        self._serving = {name: asyncio.Event() for name in self._brokers}

    @property
    def address(self) -> str:
        """The name server: the first argument of every producer and consumer."""
        return str(Address(self._names.host, NAMES_PORT))

    @property
    def broker_names(self) -> list[str]:
        """The brokers, running or not."""
        return list(self._brokers)

    def doors(self, machine: str) -> Doors:
        """Return the ``doors`` of a client on that machine; a new machine is added if needed."""
        node = self.world.nodes.get(machine) or self.world.node(machine)
        return Doors(node.network, node.clock, node.rng, node.host, 1, UTC, lambda: node.disk)

    async def open(self) -> None:
        """Start every server."""
        self._names.start(self._serve_names)
        for name in self._brokers:
            await self.start_broker(name)

    async def create_topic(self, topic: str, *, queues: int = QUEUES, order: bool = False) -> str:
        """Create a topic on every broker, with ``queues`` queues each; return its name."""
        async with Admin(self.address, doors=self.doors("operator")) as admin:
            await admin.topics.create(topic, queues=queues, order=order)
        return topic

    async def start_broker(self, name: str | None = None) -> None:
        """Start a broker with its existing disk."""
        node = self._node(name)
        node.start(self._serve_broker)
        await self._serving[node.name].wait()

    async def stop_broker(self, name: str | None = None) -> None:
        """Shut a broker down in order."""
        await self._node(name).stop()

    async def kill_broker(self, name: str | None = None) -> None:
        """Kill a broker's process; all written bytes stay."""
        await self._node(name).crash()

    async def cut_power(self, name: str | None = None) -> None:
        """Cut the power of a broker's machine: unsynced data may be lost."""
        await self._node(name).power_loss()

    def _node(self, name: str | None) -> Node:
        if name is None:
            name = next(iter(self._brokers))
        if name not in self._brokers:
            raise NoSuchName(f"there is no broker {name!r} in this cluster; there are {', '.join(self._brokers)}")
        return self._brokers[name]

    async def _serve_names(self, node: Node) -> None:
        await NameServer(NameServerConfig(listen_port=NAMES_PORT), network=node.network, disk=node.disk).run()

    async def _serve_broker(self, node: Node) -> None:
        machine = Machine(node.name, node.host, MEMORY_BYTES, node.boot_id)
        chance = random.Random(node.rng.random())
        broker = Broker(
            self._of(node.name), machine, network=node.network, disk=node.disk, clock=node.clock, chance=chance
        )
        try:
            async with broker.serving():
                self._serving[node.name].set()
                await asyncio.get_running_loop().create_future()
        finally:
            self._serving[node.name].clear()

    def _of(self, name: str) -> BrokerSettings:
        own = replace(self._settings.broker, broker_name=name, listen_port=BROKER_PORT, namesrv_addr=self.address)
        return replace(self._settings, broker=own)


def simulate(
    scenario: Callable[[SimulatedCluster], Awaitable[T]],
    *,
    seed: int = 0,
    brokers: int | Sequence[str] = 1,
    settings: Mapping[str, str] | None = None,
) -> T:
    """Run a scenario against a simulated cluster and return its result; an error carries the trace of the run."""

    async def main(world: World) -> T:
        cluster = SimulatedCluster(world, brokers, settings or {})
        await cluster.open()
        return await scenario(cluster)

    return World(seed).run(main)
