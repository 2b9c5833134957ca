"""Whole brokers on simulated machines, with name servers beside them and a client that says what it is told to."""

import asyncio
import random
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import msgspec
from msgspec.structs import replace

from firearrow.broker.broker import Broker
from firearrow.broker.identity import Identity
from firearrow.broker.settings.config import BrokerConfig, BrokerSettings
from firearrow.model import StoredMessage
from firearrow.nameserver.config import NameServerConfig
from firearrow.nameserver.server import NameServer
from firearrow.protocol.bodies.naming.route import TopicRouteData
from firearrow.protocol.conversation import Request
from firearrow.protocol.requests.message.pull import PullMessage
from firearrow.protocol.requests.message.send import SendAnswer, SendMessageV2
from firearrow.protocol.requests.naming.route import GetRouteInfoByTopic
from firearrow.record.decode import decode_all
from firearrow.remoting.caller import Caller
from firearrow.remoting.reply import Reply
from firearrow.runtime.machine import Machine
from firearrow.runtime.network import Address
from firearrow.store.config import LogConfig
from firearrow.store.index.key_index import IndexConfig
from firearrow.store.queue.table import QueueConfig
from firearrow.testing.sim.world import Node, World

T = TypeVar("T")
PORT = 10911
PULL_CODES = frozenset({0, 19, 20, 21})
COMMIT_FLAG = 0x1
SUBSCRIPTION_FLAG = 0x4
UNIQUE = "UNIQ_KEY\x01AC11000100002A\x02"


class Simulated:
    """A broker that is made anew at every start of its node."""

    def __init__(self, node: Node, settings: BrokerSettings) -> None:
        self.node = node
        self.settings = settings
        self.ready = asyncio.Event()
        self.broker: Broker
        self.identity: Identity
        self.drains = False

    @property
    def address(self) -> Address:
        return Address(self.node.host, PORT)

    async def run(self, node: Node) -> None:
        machine = Machine(name=node.name, ip=node.host, memory_bytes=8 << 30, boot_id=node.boot_id)
        self.broker = Broker(
            self.settings,
            machine,
            network=node.network,
            disk=node.disk,
            clock=node.clock,
            chance=random.Random(node.rng.random()),
        )
        async with self.broker.serving() as self.identity:
            self.ready.set()
            try:
                await asyncio.get_running_loop().create_future()
            except asyncio.CancelledError:
                if self.drains:
                    await self.broker.drain()
                raise

    async def start(self) -> None:
        self.ready.clear()
        self.node.start(self.run)
        await self.ready.wait()


class Client:
    """Says what it is told to, over the wire."""

    def __init__(self, node: Node, broker: Address) -> None:
        self.caller = Caller(node.network)
        self.broker = broker

    async def ask(self, request: Request[Any], body: bytes = b"", **options: Any) -> Reply[Any]:
        return await self.caller.call(self.broker, request, body, **options)

    async def send(
        self, topic: str = "T", body: bytes = b"hello", *, properties: str = UNIQUE, **fields: Any
    ) -> Reply[SendAnswer]:
        return await self.ask(a_send(topic, properties=properties, **fields), body)

    async def stored(self, topic: str = "T", queue_id: int = 0, offset: int = 0) -> list[StoredMessage]:
        """The messages that a consumer sees."""
        return list(decode_all((await self.pull(topic, queue_id, offset)).body))

    async def pull(self, topic: str = "T", queue_id: int = 0, offset: int = 0, commit: int | None = None) -> Reply[Any]:
        """Ask for messages as a consumer of group g does, which may commit an offset beside."""
        request = PullMessage(
            consumer_group="g",
            topic=topic,
            queue_id=queue_id,
            queue_offset=offset,
            max_msg_nums=32,
            sys_flag=SUBSCRIPTION_FLAG | (COMMIT_FLAG if commit is not None else 0),
            commit_offset=commit or 0,
            suspend_timeout_millis=0,
            sub_version=0,
            subscription="*",
        )
        return await self.ask(request, accept=PULL_CODES)


def a_send(topic: str = "T", *, properties: str | None = UNIQUE, kind: Any = SendMessageV2, **fields: Any) -> Any:
    values: dict[str, Any] = {
        "producer_group": "P",
        "topic": topic,
        "default_topic": "TBW102",
        "default_topic_queue_nums": 4,
        "queue_id": 0,
        "sys_flag": 0,
        "born_timestamp": 1_700_000_000_000,
        "flag": 0,
        "properties": properties,
        "reconsume_times": 0,
        "unit_mode": False,
    }
    return kind(**{**values, **fields})


def settings_of(broker: BrokerConfig | None = None, *, sync: bool = False, **log: Any) -> BrokerSettings:
    """Settings with small files."""
    return BrokerSettings(
        broker=broker or BrokerConfig(broker_name="broker-a"),
        log=LogConfig(
            mapped_file_size_commit_log=16 << 20, flush_disk_type="SYNC_FLUSH" if sync else "ASYNC_FLUSH", **log
        ),
        queues=QueueConfig(mapped_file_size_consume_queue=20_000),
        index=IndexConfig(max_hash_slot_num=16, max_index_num=64),
    )


def simulate(
    scenario: Callable[[World, Simulated, Client], Coroutine[Any, Any, T]],
    settings: BrokerSettings | None = None,
    *,
    seed: int = 1,
) -> T:
    """Run a scenario with one broker and one client."""
    world = World(seed)

    async def run(world: World) -> T:
        broker = Simulated(world.node("broker"), settings or settings_of())
        await broker.start()
        result = await scenario(world, broker, Client(world.node("client"), broker.address))
        if broker.node.running:
            await broker.node.stop()
        return result

    return world.run(run)


class Names:
    """A name server on a node of its own."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self.ready = asyncio.Event()
        self.server: NameServer

    async def run(self, node: Node) -> None:
        config = NameServerConfig(bind_address=node.host, order_message_enable=True)
        self.server = NameServer(config, network=node.network, disk=node.disk)
        async with self.server.serving():
            self.ready.set()
            await asyncio.get_running_loop().create_future()

    async def start(self) -> Address:
        self.ready.clear()
        self.node.start(self.run)
        await self.ready.wait()
        return Address(self.node.host, 9876)


async def route(caller: Caller, names: Address, topic: str) -> TopicRouteData:
    """The route of a topic at a name server."""
    reply = await caller.call(names, GetRouteInfoByTopic(topic=topic, accept_standard_json_only=True))
    return msgspec.json.decode(reply.body, type=TopicRouteData, strict=False)


def at(settings: BrokerSettings, *names: Address) -> BrokerSettings:
    """Settings of a broker that registers at some name servers."""
    return replace(settings, broker=replace(settings.broker, namesrv_addr=";".join(map(str, names))))
