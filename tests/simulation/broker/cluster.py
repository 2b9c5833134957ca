"""A simulated cluster: name servers, brokers, producers, consumers; the whole of it one process each."""

import asyncio
import random
from dataclasses import dataclass, field

from firearrow import fastjson
from firearrow.broker.broker import Broker
from firearrow.broker.config import BrokerConfig, BrokerSettings
from firearrow.errors import FireArrowError, RequestRefused
from firearrow.model.delays import parse_delay_levels
from firearrow.nameserver.config import NameServerConfig
from firearrow.nameserver.server import NameServer
from firearrow.protocol.bodies.stats import ConsumeStats
from firearrow.protocol.codes import ResponseCode
from firearrow.protocol.requests.stats import GetConsumeStats
from firearrow.protocol.requests.topic import UpdateAndCreateTopic
from firearrow.remoting.caller import Caller
from firearrow.runtime.machine import Machine
from firearrow.runtime.network import Address
from firearrow.store.config import FlushMode, LogConfig
from firearrow.store.index import IndexConfig
from firearrow.store.queues import QueueConfig
from firearrow.testing.sim.history import History
from firearrow.testing.sim.workload import Consumer, Producer, read_queue
from firearrow.testing.sim.world import Node, World

NAMES_PORT = 9876
PORT = 10911
LEVELS = "1s 2s 3s 4s 5s 5s"
LEVELS_MS = parse_delay_levels(LEVELS)


@dataclass
class BrokerNode:
    """One broker's machine; its process is made anew at every start."""

    node: Node
    name: str
    settings: BrokerSettings
    boots: int = 0
    serving: asyncio.Event = field(default_factory=asyncio.Event)
    broker: Broker | None = None

    @property
    def address(self) -> Address:
        return Address(self.node.host, PORT)

    async def run(self, node: Node) -> None:
        machine = Machine(self.name, node.host, 8 << 30, f"boot-{self.boots}")
        self.broker = Broker(
            self.settings,
            machine,
            network=node.network,
            disk=node.disk,
            clock=node.clock,
            chance=random.Random(node.rng.random()),
        )
        try:
            async with self.broker.serving():
                self.serving.set()
                await asyncio.get_running_loop().create_future()
        finally:
            self.serving.clear()

    async def crash(self, *, power: bool) -> None:
        if power:
            self.boots += 1
            await self.node.power_loss()
        else:
            await self.node.crash()

    async def start(self) -> None:
        self.node.start(self.run)
        await self.serving.wait()


@dataclass
class SimCluster:
    """Everything in one world."""

    world: World
    flush: FlushMode
    topics: dict[str, int]
    history: History = field(default_factory=History)
    names: list[Node] = field(default_factory=list)
    brokers: list[BrokerNode] = field(default_factory=list)
    producers: list[Producer] = field(default_factory=list)
    consumers: list[Consumer] = field(default_factory=list)

    @property
    def name_servers(self) -> list[Address]:
        return [Address(node.host, NAMES_PORT) for node in self.names]

    def add_name_server(self) -> Node:
        node = self.world.node(f"names{len(self.names)}")
        self.names.append(node)
        node.start(self.serve_names)
        return node

    async def serve_names(self, node: Node) -> None:
        await NameServer(NameServerConfig(), network=node.network, disk=node.disk).run()

    async def add_broker(self, name: str) -> BrokerNode:
        node = self.world.node(name)
        settings = BrokerSettings(
            broker=BrokerConfig(
                broker_name=name,
                namesrv_addr=";".join(map(str, self.name_servers)),
                listen_port=PORT,
                message_delay_level=LEVELS,
                auto_create_topic_enable=False,
                register_broker_timeout_mills=1_000,
                register_name_server_period=10_000,
            ),
            log=LogConfig(mapped_file_size_commit_log=1 << 16, flush_disk_type=self.flush),
            queues=QueueConfig(mapped_file_size_consume_queue=2_000),
            index=IndexConfig(max_hash_slot_num=16, max_index_num=64),
        )
        broker = BrokerNode(node, name, settings)
        self.brokers.append(broker)
        await broker.start()
        await self._make_topics(broker)
        return broker

    async def _make_topics(self, broker: BrokerNode) -> None:
        caller = Caller(broker.node.network)
        for topic, queues in self.topics.items():
            request = UpdateAndCreateTopic(
                topic=topic,
                default_topic="TBW102",
                read_queue_nums=queues,
                write_queue_nums=queues,
                perm=6,
                topic_filter_type="SINGLE_TAG",
                order=False,
            )
            await caller.call(broker.address, request)
        await caller.close()

    def add_producer(self, producer: Producer) -> None:
        self.producers.append(producer)
        self.world.node(producer.name).start(producer.run)

    def add_consumer(self, consumer: Consumer) -> None:
        self.consumers.append(consumer)
        self.world.node(consumer.client_id).start(consumer.run)

    async def inspect(self, groups: list[str]) -> None:
        """Read everything that the brokers hold for clients into the history."""
        caller = Caller(self.world.node("inspector").network)
        queues = dict(self.topics)
        for group in groups:
            queues |= {f"%RETRY%{group}": 1, f"%DLQ%{group}": 1}
        for broker in self.brokers:
            for topic, count in queues.items():
                for queue_id in range(count):
                    try:
                        self.history.final += await read_queue(caller, broker.name, broker.address, topic, queue_id)
                    except RequestRefused as refused:
                        if refused.code != ResponseCode.TOPIC_NOT_EXIST:
                            raise
        await caller.close()

    async def behind(self, groups: list[str]) -> int:
        """How many messages the groups have still to consume; -1 when a broker does not answer."""
        caller = Caller(self.world.nodes["watcher"].network)
        behind = 0
        try:
            for broker in self.brokers:
                for group in groups:
                    topics = ";".join([*self.topics, f"%RETRY%{group}"])
                    request = GetConsumeStats(consumer_group=group, topic_list=topics)
                    reply = await caller.call(broker.address, request)
                    for queue in fastjson.decode(reply.body, ConsumeStats).offset_table.values():
                        behind += queue.broker_offset - queue.consumer_offset
        except FireArrowError:
            return -1
        finally:
            await caller.close()
        return behind
