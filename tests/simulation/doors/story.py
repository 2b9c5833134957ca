"""A run that uses every door and every fault, told as its trace hash: ``python -m
tests.simulation.doors.story SEED...``

A ledger server appends lines to a log and answers each when it is durable; clients write through a network
that is cut, reset and throttled, while the server crashes, loses power, freezes and is restarted.
"""

import asyncio
import sys

from firearrow.errors import ConnectionFailed, DiskError
from firearrow.runtime.network import Address
from firearrow.testing.sim.disk import DiskProfile
from firearrow.testing.sim.world import Node, World

PORT = 9876


class Ledger(asyncio.Protocol):
    """Appends what it is sent, a byte at a time for all it cares, and echoes it once it is durable."""

    def __init__(self, node: Node, group: asyncio.TaskGroup) -> None:
        self.file = node.disk.open("ledger", create=True)
        self._group = group

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.file.write_at(self.file.size, [data])
        self._group.create_task(self._answer(data))

    async def _answer(self, data: bytes) -> None:
        await self.file.sync()
        if not self.transport.is_closing():
            self.transport.write(data)  # type: ignore[attr-defined]


async def serve(node: Node) -> None:
    async with asyncio.TaskGroup() as group:
        await node.network.listen(lambda: Ledger(node, group), Address("0.0.0.0", PORT))
        await node.disk.replace("state", b"%d" % node.clock.now_ms())
        await asyncio.Event().wait()


class Client(asyncio.Protocol):
    def __init__(self) -> None:
        self.received = 0
        self.lost = asyncio.Event()

    def data_received(self, data: bytes) -> None:
        self.received += len(data)

    def connection_lost(self, exc: Exception | None) -> None:
        del exc
        self.lost.set()


async def write(node: Node) -> None:
    while True:
        client = Client()
        try:
            transport = await node.network.connect(lambda client=client: client, Address("ledger", PORT))  # type: ignore[misc]
        except ConnectionFailed:
            continue
        while not client.lost.is_set():
            transport.write(node.rng.randbytes(node.rng.randrange(1, 3000)))
            await asyncio.sleep(node.rng.uniform(0, 0.02))


async def torment(world: World, server: Node) -> None:
    for _ in range(12):
        await asyncio.sleep(world.rng.uniform(0.05, 0.4))
        fault = world.rng.randrange(7)
        names = [name for name in world.nodes if name != "ledger"]
        if fault == 0:
            world.network.partition(["ledger"], [world.rng.choice(names)], one_way=world.rng.random() < 0.5)
        elif fault == 1:
            world.network.heal()
        elif fault == 2:
            world.network.reset("ledger", world.rng.choice(names))
        elif fault == 3:
            server.freeze()
            await asyncio.sleep(world.rng.uniform(0, 0.2))
            server.thaw()
        elif fault == 4:
            world.network.throttle("ledger", world.rng.choice([None, 20_000.0]))
            server.clock.jump(world.rng.randrange(-5000, 5000))
        else:
            await (server.crash() if fault == 5 else server.power_loss())
            await asyncio.sleep(world.rng.uniform(0, 0.2))
            server.start(serve)


async def scenario(world: World) -> None:
    server = world.node("ledger", skew_ms=-300, drift_ppm=40)
    server.start(serve)
    for number in range(4):
        world.node(f"client-{number}").start(write)
    await torment(world, server)
    await server.power_loss()
    try:
        await server.disk.read_whole("ledger")
    except DiskError:
        world.trace.add("missing", "ledger")


def tell(seed: int) -> str:
    world = World(seed, disks=DiskProfile(late_writes=seed % 2 == 1))
    world.run(scenario)
    return world.trace.digest


if __name__ == "__main__":
    for seed in sys.argv[1:]:
        print(tell(int(seed)))
