"""The consuming side of a broker on a simulated machine, with a client on another. Virtual time, simulated disk."""

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from typing import Any, TypeVar

from firearrow.broker.assembly import Assembly
from firearrow.broker.consumer_side import ConsumerSide
from firearrow.broker.identity import Identity
from firearrow.broker.settings.config import BrokerSettings
from firearrow.broker.settings.consumer_settings import ConsumingConfig
from firearrow.broker.settings.live import LiveSettings
from firearrow.broker.settings.pull_settings import PullConfig
from firearrow.broker.tables.topic_book import TopicBook
from firearrow.errors import ConnectionLost
from firearrow.model import EpochMs, Host
from firearrow.model.delays import DEFAULT_DELAY_LEVELS, parse_delay_levels
from firearrow.protocol.bodies.admin.topic import TopicConfig
from firearrow.protocol.bodies.body import Body, encode_body
from firearrow.protocol.bodies.group.heartbeat import ConsumerData, HeartbeatData, ProducerData, SubscriptionData
from firearrow.protocol.conversation import Request
from firearrow.protocol.requests.group.heartbeat import HeartBeat
from firearrow.protocol.requests.message.pull import PullAnswer, PullMessage
from firearrow.record.encode import Draft
from firearrow.record.hosts import host_bytes
from firearrow.record.properties import encode_properties
from firearrow.remoting.caller import Caller
from firearrow.remoting.handlers import Handlers
from firearrow.remoting.reply import Reply
from firearrow.remoting.server import Server
from firearrow.runtime.network import Address
from firearrow.store.config import LogConfig
from firearrow.store.index.key_index import IndexConfig
from firearrow.store.placement import AppendPosition
from firearrow.store.queue.table import QueueConfig
from firearrow.store.store import Store, StoreConfig
from firearrow.store.timer.config import TimerConfig
from firearrow.store.views.views import ViewsConfig
from firearrow.testing.sim.world import Node, World

T = TypeVar("T")

PORT = 10911
LEVELS = parse_delay_levels(DEFAULT_DELAY_LEVELS)
SUSPEND = 0x2
SUBSCRIPTION = 0x4
COMMIT = 0x1
PULL_CODES = frozenset({0, 19, 20, 21})
HOST = host_bytes(Host("10.0.0.9", PORT))


class SimBroker:
    """One process of the consuming side; made anew at every start of its node."""

    def __init__(self, node: Node, settings: BrokerSettings) -> None:
        self.node = node
        self.settings = settings
        self.ready = asyncio.Event()
        self.store: Store
        self.assembly: Assembly
        self.consuming: ConsumerSide
        self.topics: TopicBook

    def config(self) -> StoreConfig:
        settings = self.settings
        views = ViewsConfig(queues=settings.queues, index=settings.index, delays_ms=settings.broker.delays_ms)
        return StoreConfig(log=settings.log, views=views)

    async def run(self, node: Node) -> None:
        async with self.serving(node):
            self.ready.set()
            await asyncio.get_running_loop().create_future()

    @asynccontextmanager
    async def serving(self, node: Node) -> AsyncIterator[None]:
        store = self.store = await Store.open(node.disk, node.clock, self.config(), node.boot_id)
        topics = self.topics = TopicBook(node.disk, node.clock, [TopicConfig(topic_name="T")])
        assembly = self.assembly = Assembly(
            Identity(name="b", cluster="DefaultCluster", ip=node.host, port=PORT),
            LiveSettings(self.settings),
            store,
            topics,
            disk=node.disk,
            clock=node.clock,
            chance=random.Random(node.rng.random()),
        )
        consuming = self.consuming = ConsumerSide(assembly, 8 << 30)
        await topics.load()
        await consuming.load()
        handlers = Handlers()
        consuming.add_to(handlers)
        server = Server(node.network, handlers, on_disconnect=consuming.disconnected)
        storing = asyncio.create_task(store.run())
        serving = asyncio.create_task(consuming.run())
        saving = asyncio.create_task(topics.file.run())
        await server.start(Address(node.host, PORT))
        try:
            yield
        finally:
            await server.stop()
            for task in (serving, saving):
                task.cancel()
            await asyncio.gather(serving, saving, return_exceptions=True)
            if not node.process.dead:
                await consuming.close()
                await store.close()
            storing.cancel()
            await asyncio.gather(storing, return_exceptions=True)

    async def restart(self, *, power: bool = False) -> None:
        """Kill the process, or cut the power, and start again."""
        await (self.node.power_loss() if power else self.node.crash())
        self.ready.clear()
        self.node.start(self.run)
        await self.ready.wait()

    def put(self, body: bytes = b"x", *, topic: str = "T", queue_id: int = 0, **properties: str) -> AppendPosition:
        """Append a message as the send path does."""
        stored = encode_properties(properties)
        draft = Draft(topic, queue_id, body, stored, EpochMs(self.node.clock.now_ms()), HOST, HOST)
        return self.store.append(draft)


class SimClient:
    """A client over the wire."""

    def __init__(self, node: Node, broker: Address, client_id: str = "c1", handlers: Handlers | None = None) -> None:
        self.caller = Caller(node.network, handlers=handlers)
        self.broker = broker
        self.client_id = client_id

    async def ask(self, request: Request[Any], body: Body | bytes = b"", **options: Any) -> Reply[Any]:
        data = body if isinstance(body, bytes) else encode_body(body)
        return await self.caller.call(self.broker, request, data, **options)

    async def reconnect(self) -> None:
        """Notice that the broker was away, and heartbeat anew."""
        with suppress(ConnectionLost):
            await self.heartbeat()
        await self.heartbeat()

    async def heartbeat(
        self,
        group: str = "g",
        *,
        tags: str = "*",
        topic: str = "T",
        version: int = 1,
        model: str = "CLUSTERING",
        expression_type: str = "TAG",
    ) -> Reply[Any]:
        wanted = SubscriptionData(topic=topic, sub_string=tags, sub_version=version, expression_type=expression_type)
        consumer = ConsumerData(
            group_name=group,
            consume_type="CONSUME_PASSIVELY",
            message_model=model,
            consume_from_where="CONSUME_FROM_LAST_OFFSET",
            subscription_data_set=[wanted],
        )
        data = HeartbeatData(
            client_id=self.client_id, consumer_data_set=[consumer], producer_data_set=[ProducerData(group_name="p")]
        )
        return await self.ask(HeartBeat(), data)

    async def pull(
        self,
        offset: int = 0,
        *,
        group: str = "g",
        topic: str = "T",
        queue_id: int = 0,
        most: int = 32,
        flags: int = SUSPEND,
        commit: int = 0,
        suspend_ms: int = 15_000,
        version: int = 1,
        **more: Any,
    ) -> Reply[PullAnswer]:
        request = PullMessage(
            consumer_group=group,
            topic=topic,
            queue_id=queue_id,
            queue_offset=offset,
            max_msg_nums=most,
            sys_flag=flags,
            commit_offset=commit,
            suspend_timeout_millis=suspend_ms,
            sub_version=version,
            **more,
        )
        return await self.caller.call(self.broker, request, timeout_ms=30_000, accept=PULL_CODES)


def simulate(
    scenario: Callable[[World, SimBroker, SimClient], Coroutine[Any, Any, T]],
    *,
    seed: int = 1,
    sync: bool = False,
    pulls: PullConfig | None = None,
    consuming: ConsumingConfig | None = None,
    timers: TimerConfig | None = None,
) -> T:
    """Run a scenario with one broker and one client, and end the broker in order."""
    world = World(seed)
    settings = BrokerSettings(
        consuming=consuming or ConsumingConfig(),
        pull=pulls or PullConfig(),
        log=LogConfig(mapped_file_size_commit_log=1 << 20, flush_disk_type="SYNC_FLUSH" if sync else "ASYNC_FLUSH"),
        queues=QueueConfig(mapped_file_size_consume_queue=20_000),
        index=IndexConfig(max_hash_slot_num=16, max_index_num=64),
        timers=timers or TimerConfig(),
    )

    async def run(world: World) -> T:
        node = world.node("broker")
        broker = SimBroker(node, settings)
        node.start(broker.run)
        await broker.ready.wait()
        client = SimClient(world.node("client"), Address(node.host, PORT))
        result = await scenario(world, broker, client)
        if node.running:
            await node.stop()
        return result

    return world.run(run)


async def until(
    condition: Callable[[], bool | Awaitable[bool]], within_s: float = 60.0, what: str = "", every_s: float = 0.01
) -> None:
    """Wait for a condition in virtual time."""
    loop = asyncio.get_running_loop()
    end = loop.time() + within_s
    while True:
        held = condition()
        if not isinstance(held, bool):
            held = await held
        if held:
            return
        assert loop.time() < end, f"not within {within_s} s: {what}"
        await asyncio.sleep(every_s)
