"""A simulated cluster: name servers, brokers, producers, consumers; the whole of it one process each."""

import asyncio
import logging
import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, cast

from msgspec.structs import replace

from firearrow import fastjson
from firearrow.broker.broker import Broker
from firearrow.broker.consumer_side import ConsumerSide
from firearrow.broker.settings.config import BrokerConfig, BrokerSettings
from firearrow.broker.settings.transaction_settings import TransactionConfig
from firearrow.errors import FireArrowError, RequestRefused
from firearrow.model.delays import parse_delay_levels
from firearrow.model.names import CHECK_MAX_TIME_TOPIC, LAKE_GROUP_PREFIX
from firearrow.nameserver.config import NameServerConfig
from firearrow.nameserver.server import NameServer
from firearrow.protocol.bodies.admin.stats import ConsumeStats
from firearrow.protocol.bodies.body import encode_body
from firearrow.protocol.bodies.group.group import SubscriptionGroupConfig
from firearrow.protocol.codes import ResponseCode
from firearrow.protocol.requests.admin.stats import GetConsumeStats
from firearrow.protocol.requests.group.group import UpdateAndCreateSubscriptionGroup
from firearrow.protocol.requests.group.offset import UpdateConsumerOffset
from firearrow.remoting.caller import Caller
from firearrow.remoting.handlers import Peer
from firearrow.remoting.limits import Limits
from firearrow.runtime.machine import Machine
from firearrow.runtime.network import Address
from firearrow.runtime.service import Lifetime
from firearrow.store.config import FlushMode, LogConfig
from firearrow.store.deletion import RetentionConfig
from firearrow.store.index.key_index import IndexConfig
from firearrow.store.queue.table import QueueConfig
from firearrow.store.read.queue_reader import ReadRequest, ReadResult
from firearrow.store.store import Store
from firearrow.store.timer.config import TimerConfig
from firearrow.testing.sim.loop import SimLoop
from firearrow.testing.sim.world import Node, World
from tests.simulation.invariants.history import History, Outcome, Read
from tests.simulation.workload.consumer import Consumer
from tests.simulation.workload.firsts import FirstSender
from tests.simulation.workload.hostile import Hostile
from tests.simulation.workload.lives import TopicLives, topic_of
from tests.simulation.workload.producer import Post, Producer, send
from tests.simulation.workload.queue_scan import read_queue
from tests.simulation.workload.transactions import TransactionProducer

NAMES_PORT = 9876
PORT = 10911
LEVELS = "1s 2s 3s 4s 5s 5s"
LEVELS_MS = parse_delay_levels(LEVELS)
STOP_S = 60.0
MOST_CHECKS = 3
MAX_PENDING_BYTES = 2_000
SEGMENT = 1 << 16
"""The size of a file of the log."""
SMALL_SEGMENT = 1 << 14
"""The size where old files are deleted, so that there are many."""
RECOVERY_S = 30.0
"""A broker whose disk, cables and neighbours are well again takes messages after so long at the latest."""
PROBED = "U"
LAKE_TOPIC = "T"
"""The topic that is kept for a lake where old files are deleted."""
LAKE_GROUP = f"{LAKE_GROUP_PREFIX}archive"
GROUPS = ("retrying", "ordered", "tagged")
"""The groups that consume."""
NOT_THERE = (ResponseCode.TOPIC_NOT_EXIST, ResponseCode.INVALID_PARAMETER)
"""A topic that was never made, or a queue that it never got."""
LIMITS = Limits(
    max_connection_bytes=1 << 18,
    max_in_flight_bytes=1 << 19,
    max_unsent_bytes=1 << 20,
    write_high_water_bytes=1 << 16,
)
"""Small, so that hostile clients reach them."""


TRANSACTIONS = TransactionConfig(
    transaction_time_out=2_000, transaction_check_max=MOST_CHECKS, transaction_check_interval=1_000
)
"""Producers are asked soon and not often, so that some transactions are given up."""
TIMERS = TimerConfig(
    timer_precision_ms=100,
    timer_roll_window_slot=60,
    timer_max_delay_sec=60,
    mapped_file_size_timer_log=4096,
)
"""A short window and small files: a message that waits for 20 s is stored again several times."""
KEEPING = RetentionConfig(clean_file_forcibly_enable=False)
"""A full disk takes nothing away."""
EXPIRING = RetentionConfig(
    clean_file_forcibly_enable=False, file_reserved_time=0, delete_file_batch_max=1,
    clean_resource_interval=3_600_000,
)  # fmt: skip
"""Every file is expired as soon as it is full; one is deleted at a time, and only when the operator asks for it."""


class _Alarms(logging.Handler):
    def __init__(self, heard: list[str]) -> None:
        super().__init__(logging.ERROR)
        self._heard = heard

    def emit(self, record: logging.LogRecord) -> None:
        self._heard.append(record.getMessage())


@contextmanager
def listening(heard: list[str]) -> Iterator[None]:
    """Gather what the store says at ERROR within the block."""
    logger, handler = logging.getLogger("firearrow.store"), _Alarms(heard)
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)


class WatchedBroker(Broker):
    """A broker whose parts can be looked at."""

    consuming: ConsumerSide
    store: Store

    async def _open_store(self, life: Lifetime) -> Store:
        store = self.store = await super()._open_store(life)
        read_hot = store.read_hot

        def measured(topic: str, queue_id: int, request: ReadRequest) -> ReadResult | None:
            pulled = read_hot(topic, queue_id, request)
            if pulled is not None:
                self._answers_grew(pulled.size)
            return pulled

        store.read_hot = measured  # type: ignore[method-assign]
        return store

    def _answers_grew(self, size: int) -> None:
        loop = asyncio.get_running_loop()
        turn = loop.turns if isinstance(loop, SimLoop) else 0
        self._made = size + (self._made if turn == self._turn else 0)
        self._turn = turn
        self.most_made = max(self.most_made, self._made)

    async def _consume(self, *parts: Any) -> ConsumerSide:
        self.consuming = await super()._consume(*parts)
        return self.consuming

    most_pending: int = 0
    most_made: int = 0
    """Bytes of answers made in one turn of the loop, at most."""
    _made: int = 0
    _turn: int = -1

    def look(self) -> None:
        """Remember how much waited in memory for the queues at most."""
        if hasattr(self, "store"):
            self.most_pending = max(self.most_pending, self.store.views.queues.writer.pending_bytes)

    @property
    def forgotten_pulls(self) -> int:
        """Parked pulls whose connections have ended."""
        lines = self.consuming.pulls.parked.queues.values()
        return sum(not cast("Peer", waiting.owner).is_open for line in lines for waiting in line)


@dataclass
class BrokerNode:
    """One broker's machine; its process is made anew at every start."""

    node: Node
    name: str
    settings: BrokerSettings
    port: int = PORT
    stopped_in_order: bool = False
    serving: asyncio.Event = field(default_factory=asyncio.Event)
    broker: WatchedBroker | None = None

    @property
    def address(self) -> Address:
        return Address(self.node.host, self.port)

    @property
    def is_fenced(self) -> bool:
        """Whether it takes nothing more until it is started again."""
        return self.broker is not None and hasattr(self.broker, "store") and self.broker.store.log.fenced is not None

    async def run(self, node: Node) -> None:
        machine = Machine(self.name, node.host, 8 << 30, node.boot_id)
        settings = replace(self.settings, broker=replace(self.settings.broker, listen_port=self.port))
        self.broker = WatchedBroker(
            settings,
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

    async def stop(self) -> None:
        """End it in order."""
        async with asyncio.timeout(STOP_S):
            await self.node.stop()
        self.stopped_in_order = True

    async def crash(self, *, power: bool) -> None:
        self.stopped_in_order = False
        if power:
            await self.node.power_loss()
        else:
            await self.node.crash()

    async def start(self) -> None:
        """Start it; after an end in order nothing has to be made anew, and the store says nothing."""
        alarms: list[str] = []
        with listening(alarms if self.stopped_in_order else []):
            self.node.start(self.run)
            await self.serving.wait()
        self.stopped_in_order = False
        assert not alarms, f"I15: {self.name} ended in order, and at the next start its store said: {alarms}"


@dataclass
class SimCluster:
    """Everything in one world."""

    world: World
    flush: FlushMode
    topics: dict[str, int]
    flush_views_ms: int = 1_000
    index_slots: int = 16
    """16 make many files, each of one page; 16,384 one of many pages."""
    makes_topics: bool = False
    """Whether brokers make a topic for its first message."""
    history: History = field(default_factory=History)
    names: list[Node] = field(default_factory=list)
    brokers: list[BrokerNode] = field(default_factory=list)
    producers: list[Producer] = field(default_factory=list)
    consumers: list[Consumer] = field(default_factory=list)
    firsts: list[FirstSender] = field(default_factory=list)
    lives: list[TopicLives] = field(default_factory=list)
    hostile: list[Hostile] = field(default_factory=list)
    transactions: list[TransactionProducer] = field(default_factory=list)
    expires: bool = False
    """Whether the operator deletes the oldest files of the log now and then."""

    @property
    def segment(self) -> int:
        return SMALL_SEGMENT if self.expires else SEGMENT

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
                auto_create_topic_enable=self.makes_topics,
                register_broker_timeout_mills=1_000,
                register_name_server_period=10_000,
            ),
            log=LogConfig(mapped_file_size_commit_log=self.segment, flush_disk_type=self.flush),
            queues=QueueConfig(
                mapped_file_size_consume_queue=2_000,
                max_pending_queue_bytes=MAX_PENDING_BYTES,
                dispatch_flush_interval=self.flush_views_ms,
            ),
            index=IndexConfig(max_hash_slot_num=self.index_slots, max_index_num=max(64, self.index_slots // 8)),
            transactions=TRANSACTIONS,
            timers=TIMERS,
            retention=EXPIRING if self.expires else KEEPING,
            limits=LIMITS,
        )
        broker = BrokerNode(node, name, settings)
        self.brokers.append(broker)
        await broker.start()
        await self._make_topics(broker)
        return broker

    async def _make_topics(self, broker: BrokerNode) -> None:
        caller = Caller(broker.node.network)
        for topic, queues in self.topics.items():
            await caller.call(broker.address, topic_of(topic, queues))
        if self.expires:
            kept = replace(topic_of(LAKE_TOPIC, self.topics[LAKE_TOPIC]), attributes="+lake.retention=KEEP")
            await caller.call(broker.address, kept)
            group = encode_body(SubscriptionGroupConfig(group_name=LAKE_GROUP))
            await caller.call(broker.address, UpdateAndCreateSubscriptionGroup(), group)
        await caller.close()

    async def grow(self, topic: str) -> None:
        """Give a topic one more queue on every broker that answers."""
        queues = self.topics[topic] + 1
        caller = Caller(self.world.nodes["watcher"].network)
        for broker in self.brokers:
            try:
                await caller.call(broker.address, topic_of(topic, queues))
            except FireArrowError:
                continue
            self.topics[topic] = queues
        await caller.close()

    async def fill(self, broker: BrokerNode, topic: str, count: int, size: int) -> None:
        """Send some messages of a size to the first queue of a topic."""
        node = self.world.nodes["watcher"]
        caller = Caller(node.network)
        for _ in range(count):
            post = Post(f"filler:{len(self.history.sends)}", topic, broker.name, 0, size)
            self.history.sends.append(await send(node, caller, broker.address, post, self.history))
        await caller.close()

    async def probe(self, number: int) -> list[str]:
        """Send to every broker until it takes a message; what is wrong where none is taken in time."""
        wrong, node = [], self.world.nodes["watcher"]
        for broker in self.brokers:
            deadline, caller, told = self.world.loop.time() + RECOVERY_S, Caller(node.network), "nothing"
            while self.world.loop.time() < deadline:
                number += 1
                post = Post(f"probe:{number}", PROBED, broker.name, 0)
                sent = await send(node, caller, broker.address, post, self.history)
                self.history.sends.append(sent)
                told = sent.outcome.value
                if sent.outcome is Outcome.OK:
                    break
                await asyncio.sleep(1.0)
            else:
                wrong.append(f"I16: {broker.name} takes no message {RECOVERY_S:.0f} s after all is mended: {told}")
            await caller.close()
        return wrong

    def add_producer(self, producer: Producer) -> None:
        self.producers.append(producer)
        self.world.node(producer.name).start(producer.run)

    def add_first_sender(self, sender: FirstSender) -> None:
        self.firsts.append(sender)
        self.world.node(sender.name).start(sender.run)

    def add_lives(self, lives: TopicLives) -> None:
        self.lives.append(lives)
        self.world.node(f"owner-{lives.name}").start(lives.run)

    def add_hostile(self, hostile: Hostile) -> None:
        self.hostile.append(hostile)
        self.world.node(hostile.name).start(hostile.run)

    def add_transactions(self, producer: TransactionProducer) -> None:
        self.transactions.append(producer)
        self.world.node(producer.name).start(producer.run)

    def end_sending(self) -> None:
        """Let nobody send any more."""
        for transactions in self.transactions:
            transactions.stopped = True
        for producer in self.producers:
            producer.stopped = True
        for sender in self.firsts:
            sender.stopped = True
        for lives in self.lives:
            lives.stopped = True

    def add_consumer(self, consumer: Consumer) -> None:
        self.consumers.append(consumer)
        self.world.node(consumer.client_id).start(consumer.run)

    async def inspect(self, groups: Sequence[str]) -> None:
        """Read everything that the brokers hold for clients into the history."""
        caller = Caller(self.world.node("inspector").network)
        for broker in self.brokers:
            self.history.final += await self.scan(caller, broker, groups)
            self.history.given_up += await self.read(caller, broker, CHECK_MAX_TIME_TOPIC, 0)
        await caller.close()

    async def scan(self, caller: Caller, broker: BrokerNode, groups: Sequence[str]) -> list[Read]:
        """Read every queue of a broker that clients use."""
        queues = dict(self.topics)
        for group in groups:
            queues |= {f"%RETRY%{group}": 1, f"%DLQ%{group}": 1}
        places = {(topic, queue_id): None for topic, count in queues.items() for queue_id in range(count)}
        sent = [sent for sent in self.history.attempts() if sent.broker == broker.name]
        places |= {(sent.topic, sent.queue_id): None for sent in sent}
        return [read for place in places for read in await self.read(caller, broker, *place)]

    async def read(self, caller: Caller, broker: BrokerNode, topic: str, queue_id: int) -> list[Read]:
        """Read one queue; nothing where it was never made."""
        try:
            return await read_queue(caller, broker.name, broker.address, topic, queue_id)
        except RequestRefused as refused:
            if refused.code not in NOT_THERE:
                raise
            return []

    async def expire(self, broker: BrokerNode, groups: Sequence[str], lake_lag: int) -> int:
        """Delete the files of a broker's log that are full by now; what clients could read there is noted before.

        An archive marks all but the last ``lake_lag`` messages of each queue of the topic that is kept for a lake.
        Return how many were deleted: files that hold pending half messages or timers must stay, and what lakes lack.
        """
        if broker.broker is None:
            return 0
        log, retention = broker.broker.store.log, broker.broker.store.retention
        before, full = log.min_offset, log.flushed // self.segment * self.segment
        caller = Caller(self.world.nodes["watcher"].network)
        try:
            found = await self.scan(caller, broker, groups)
            given_up = await self.read(caller, broker, CHECK_MAX_TIME_TOPIC, 0)
            marks = await self._mark(caller, broker, found, lake_lag)
        except FireArrowError:
            return 0  # a cable is cut
        finally:
            await caller.close()
        for _ in range(before, full, self.segment):
            retention.delete_expired_now(1)
            await retention.round()
        gone = [read for read in found if read.physical < log.min_offset]
        for read in gone:
            if read.place.topic == LAKE_TOPIC and read.place.offset >= marks.get(read.place.queue_id, 0):
                self.history.broken.append(f"I22: {read.key} at {read.place} was deleted before the lake had it")
        self.history.final += gone
        self.history.deleted |= {read.place for read in gone}
        self.history.given_up += [read for read in given_up if read.physical < log.min_offset]
        return (log.min_offset - before) // self.segment

    async def _mark(self, caller: Caller, broker: BrokerNode, found: list[Read], lag: int) -> dict[int, int]:
        """Mark at a broker what a lake has; return the marks by queue."""
        marks: dict[int, int] = {}
        for read in found:
            if read.place.topic == LAKE_TOPIC:
                queue_id = read.place.queue_id
                marks[queue_id] = max(marks.get(queue_id, 0), read.place.offset + 1 - lag)
        for queue_id, offset in marks.items():
            await caller.call(
                broker.address,
                UpdateConsumerOffset(
                    consumer_group=LAKE_GROUP, topic=LAKE_TOPIC, queue_id=queue_id, commit_offset=max(offset, 0)
                ),
            )
        return marks

    async def behind(self, groups: Sequence[str], consumed: Sequence[str]) -> int:
        """The number of messages of these topics that the groups have still to consume; -1 when a broker does not
        answer."""
        caller = Caller(self.world.nodes["watcher"].network)
        behind = 0
        try:
            for broker in self.brokers:
                for group in groups:
                    topics = ";".join([*consumed, f"%RETRY%{group}"])
                    request = GetConsumeStats(consumer_group=group, topic_list=topics)
                    reply = await caller.call(broker.address, request)
                    for queue in fastjson.decode(reply.body, ConsumeStats).offset_table.values():
                        behind += queue.broker_offset - queue.consumer_offset
        except FireArrowError:
            return -1
        finally:
            await caller.close()
        return behind
