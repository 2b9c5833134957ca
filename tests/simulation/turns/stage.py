"""A filled broker in a simulation whose steps are counted, with a name server and clients."""

import asyncio
from typing import Any, Final

from benchmarks.size.every_request import (
    Asked,
)
from benchmarks.size.filled import Filler, Shape
from benchmarks.size.probe import Line
from firearrow.broker.settings.config import BrokerConfig, BrokerSettings
from firearrow.errors import RequestRefused
from firearrow.nameserver.config import NameServerConfig
from firearrow.nameserver.server import NameServer
from firearrow.protocol.conversation import Request
from firearrow.remoting.caller import Caller
from firearrow.remoting.operation_port import MetricsExporter, OperationConfig
from firearrow.runtime.network import Address
from firearrow.runtime.turn import name_of
from firearrow.store.config import LogConfig
from firearrow.store.deletion import RetentionConfig
from firearrow.store.index.key_index import IndexConfig
from firearrow.store.queue.table import QueueConfig
from firearrow.store.recovery.scrub import ScrubConfig
from firearrow.testing.sim.disk import DiskProfile
from firearrow.testing.sim.transport import LinkProfile
from firearrow.testing.sim.world import World
from tests.simulation.turns.work import Work
from tests.unit.broker.whole import PORT, Simulated

NAMES_PORT: Final = 9876
METRICS_PORT: Final = 5557
WAITS_MS: Final = 30_000
"""The time for which the parked pulls wait."""
SETTLE_S: Final = 5.0
"""Longer than the first timers wait."""
JOBS_S: Final = 40.0
"""Longer than every period of a broker, from the offsets' 5 s to the registration's 30 s."""
CABLES: Final = LinkProfile(
    split_chance=0.0, drip_chance=0.0, coalesce_chance=0.0, window_bytes=1 << 24, trace_contents=False
)
DISKS: Final = DiskProfile(cold_chance=0.0, write_back_chance=0.0)


def _settings(names: Address) -> BrokerSettings:
    return BrokerSettings(
        broker=BrokerConfig(
            broker_name="broker", listen_port=PORT, namesrv_addr=str(names), recall_message_enable=True
        ),
        log=LogConfig(mapped_file_size_commit_log=1 << 15),
        queues=QueueConfig(mapped_file_size_consume_queue=2_000),
        index=IndexConfig(max_hash_slot_num=4096, max_index_num=16384),
        retention=RetentionConfig(file_reserved_time=0, delete_when="13"),
        scrub=ScrubConfig(scrub_bytes_per_second=1 << 15),
        operation=OperationConfig(metrics_exporter_type=MetricsExporter.PROM, metrics_prom_exporter_port=METRICS_PORT),
    )


class Stage:
    """A broker, a name server and clients in one world."""

    def __init__(self, world: World, shape: Shape) -> None:
        self.shape = shape
        names = world.node("names")
        names.start(lambda node: NameServer(NameServerConfig(), network=node.network, disk=node.disk).run())
        node, self._clients = world.node("broker"), world.node("clients")
        self.broker = Simulated(node, _settings(Address(names.host, NAMES_PORT)))
        self.caller = Caller(self._clients.network)
        self.filler = Filler(shape, self.connect)
        self.work = Work(world.loop, (node.process,))
        self.asked: set[int] = set()
        """The codes of the requests that were made."""
        self.version = 10
        """The version of the last subscription that changed."""
        self._loop = world.loop

    async def open(self) -> None:
        """Start and fill the broker."""
        await self.broker.start()
        await self.filler.fill()
        await asyncio.sleep(SETTLE_S)
        await self.filler.join()
        await self.filler.park(WAITS_MS)

    async def connect(self) -> Line:
        """Open a connection to the broker."""
        line = Line()
        await self._clients.network.connect(lambda: line, self.broker.address)
        return line

    async def ask(self, asked: Asked) -> None:
        """Make a request, and check that it is served or refused as it should be."""
        self.asked.add(asked.request.code)
        with self.work.act(asked.act):
            try:
                await self.caller.call(self.broker.address, asked.request, asked.body, timeout_ms=60_000)
                answer = ""
            except RequestRefused as refusal:
                answer = str(refusal)
        assert bool(answer) == asked.refused, f"{asked.act}: {answer or 'it was served'}"

    async def tell(self, request: Request[Any], body: bytes = b"") -> None:
        """Make a request under the name of the present act."""
        await self.caller.call(self.broker.address, request, body, timeout_ms=60_000)

    def walk(self) -> None:
        """Do ten lines of work for every connection of the broker: what a planted loop does."""
        sum(range(10 * self.shape.connections))

    async def jobs(self, seconds: float) -> None:
        """Let the jobs of the brokers run, and the metrics be scraped in the middle."""
        with self.work.act("jobs"):
            await asyncio.sleep(seconds / 2)
            line = _Page()
            await self._clients.network.connect(lambda: line, Address(self.broker.address.host, METRICS_PORT))
            await line.ended
            assert b"200 OK" in line.data
            await asyncio.sleep(seconds / 2)

    def idle_tasks(self) -> list[str]:
        """Return the names of tasks of the broker that have taken no step while work was counted."""
        names = {name for _, name in self.work.steps}
        tasks = self._loop.tasks_of(self.broker.node.process)
        return sorted({name for task in tasks if (name := name_of(task.get_coro())) not in names})


class _Page(asyncio.Protocol):
    """Asks for the metrics, and gathers the page until the connection ends."""

    def __init__(self) -> None:
        self.data = b""
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        transport.write(b"GET /metrics HTTP/1.1\r\nHost: broker\r\nConnection: close\r\n\r\n")

    def data_received(self, data: bytes) -> None:
        self.data += data

    def connection_lost(self, _error: Exception | None) -> None:
        self.ended.set_result(None)
