"""Our client in a cluster whose machines and cables fail: what is acknowledged is handled, and nothing stops for good.

A run has two phases, like those of the brokers: in the first anything may fail, in the second everything is mended and
the group must handle whatever was acknowledged within a bounded virtual time.
"""

import asyncio
import random
from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC
from typing import Final

from firearrow.client import Consumer, Message, Producer, ReceivedMessage
from firearrow.client.doors import Doors
from firearrow.errors import FireArrowError
from firearrow.testing.sim.world import Node, World
from tests.simulation.broker.cluster import SimCluster

TOPIC: Final = "T"
GROUP: Final = "G"
STILL_S: Final = 60.0
"""Once everything is mended something is handled at least this often until nothing is missing."""


def doors_of(node: Node) -> Doors:
    """The doors of a simulated client."""
    return Doors(node.network, node.clock, node.rng, node.host, 1, UTC, lambda: node.disk)


@dataclass
class Story:
    """The events, as an omniscient observer saw them."""

    acknowledged: set[str] = field(default_factory=set)
    unknown: set[str] = field(default_factory=set)
    refused: set[str] = field(default_factory=set)
    handled: Counter[str] = field(default_factory=Counter)
    orders: dict[tuple[str, int], list[int]] = field(default_factory=dict)
    steps: Counter[str] = field(default_factory=Counter)
    ids: Counter[str] = field(default_factory=Counter)
    is_over: bool = False


class Sender:
    """A producer's process: sends until the story is over, and believes what it is told."""

    def __init__(self, name: str, names: str, story: Story, *, batches: bool) -> None:
        self.name = name
        self._names = names
        self._story = story
        self._batches = batches
        self._next = 0

    async def run(self, node: Node) -> None:
        async with Producer(self._names, group="P", doors=doors_of(node)) as producer:
            while not self._story.is_over:
                await self._send(producer, node.rng)
                await asyncio.sleep(node.rng.uniform(0.05, 0.4))

    async def _send(self, producer: Producer, rng: random.Random) -> None:
        story = self._story
        texts = [f"{self.name}-{self._next + n}" for n in range(rng.randint(2, 5) if self._batches else 1)]
        self._next += len(texts)
        messages = [Message.of(TOPIC, text.encode(), keys=[text]) for text in texts]
        try:
            results = await producer.send_batch(messages)
        except FireArrowError as error:
            (story.unknown if error.may_have_happened else story.refused).update(texts)
        else:
            story.acknowledged.update(texts)
            story.ids.update(result.message_id for result in results)


class Reader:
    """A consumer's process: handles, slowly, and fails now and then."""

    def __init__(self, name: str, names: str, story: Story, *, ordered: bool) -> None:
        self.name = name
        self._names = names
        self._story = story
        self._ordered = ordered
        self.consumer: Consumer | None = None

    async def run(self, node: Node) -> None:
        rng = node.rng

        async def handle(message: ReceivedMessage) -> None:
            await asyncio.sleep(rng.uniform(0, 0.2))
            if rng.random() < 0.05:
                raise ValueError("failed by lot")
            self._story.handled[message.body.decode()] += 1

        consumer = self.consumer = Consumer(
            self._names,
            group=GROUP,
            topics=TOPIC,
            start="first",
            ordered=self._ordered,
            workers=8,
            persist_ms=1000,
            rebalance_ms=5000,
            doors=doors_of(node),
        )
        async with consumer:
            await consumer.run(handle)


@dataclass
class Chaos:
    """One run."""

    world: World
    cluster: SimCluster
    story: Story
    senders: list[Sender]
    readers: list[Reader]
    rng: random.Random

    async def disturb(self, steps: int) -> None:
        for _ in range(steps):
            await asyncio.sleep(self.rng.uniform(0.5, 6))
            step = self.rng.choice(
                [
                    self.crash_broker,
                    self.slow_broker,
                    self.hang_broker,
                    self.cut,
                    self.cut_one_way,
                    self.reset,
                    self.crash_reader,
                    self.restart_names,
                ]
            )
            self.story.steps[step.__name__] += 1
            await step()
        self.world.network.heal()

    def _somebody(self) -> str:
        names = [each.name for each in self.senders] + [each.name for each in self.readers]
        return self.rng.choice(names + [each.name for each in self.cluster.brokers])

    async def crash_broker(self) -> None:
        broker = self.rng.choice(self.cluster.brokers)
        await broker.crash(power=self.rng.random() < 0.5)
        await asyncio.sleep(self.rng.uniform(0.1, 8))
        await broker.start()

    async def slow_broker(self) -> None:
        broker = self.rng.choice(self.cluster.brokers)
        self.world.network.throttle(broker.name, self.rng.choice([200, 2_000, 20_000]))
        await asyncio.sleep(self.rng.uniform(1, 15))
        self.world.network.throttle(broker.name, None)

    async def hang_broker(self) -> None:
        node = self.world.nodes[self.rng.choice(self.cluster.brokers).name]
        node.freeze()
        await asyncio.sleep(self.rng.uniform(0.5, 12))
        node.thaw()

    async def cut(self) -> None:
        self.world.network.isolate(self._somebody())
        await asyncio.sleep(self.rng.uniform(0.1, 20))
        self.world.network.heal()

    async def cut_one_way(self) -> None:
        left, right = self.rng.choice(self.readers).name, self.rng.choice(self.cluster.brokers).name
        self.world.network.partition([left], [right], one_way=True)
        await asyncio.sleep(self.rng.uniform(0.1, 10))
        self.world.network.heal()

    async def reset(self) -> None:
        client = self.rng.choice([each.name for each in self.senders] + [each.name for each in self.readers])
        self.world.network.reset(client, self.rng.choice(self.cluster.brokers).name)

    async def crash_reader(self) -> None:
        reader = self.rng.choice(self.readers)
        await self.world.nodes[reader.name].crash()
        await asyncio.sleep(self.rng.uniform(0.1, 5))
        self.world.nodes[reader.name].start(reader.run)

    async def restart_names(self) -> None:
        node = self.rng.choice(self.cluster.names)
        await node.crash()
        await asyncio.sleep(self.rng.uniform(0.1, 10))
        node.start(self.cluster.serve_names)


async def scenario(world: World) -> Story:
    """Set up, disturb, mend, drain."""
    rng, story = world.split_rng("chaos"), Story()
    cluster = SimCluster(world, "SYNC_FLUSH", {TOPIC: rng.randint(1, 5)})
    for _ in range(rng.randint(1, 2)):
        cluster.add_name_server()
    await asyncio.sleep(0.1)
    for number in range(rng.randint(1, 2)):
        await cluster.add_broker(f"broker{number}")
    names, ordered = ";".join(map(str, cluster.name_servers)), rng.random() < 0.3
    senders = [Sender(f"p{n}", names, story, batches=rng.random() < 0.5) for n in range(rng.randint(1, 2))]
    readers = [Reader(f"c{n}", names, story, ordered=ordered) for n in range(rng.randint(1, 3))]
    for sender in senders:
        world.node(sender.name).start(sender.run)
    for reader in readers:
        world.node(reader.name).start(reader.run)
    await Chaos(world, cluster, story, senders, readers, rng).disturb(rng.randint(2, 6))
    await asyncio.sleep(10)
    story.is_over = True
    await _drained(story, readers)
    for reader in readers:
        await world.nodes[reader.name].stop()
    return story


async def _drained(story: Story, readers: list[Reader]) -> None:
    loop = asyncio.get_running_loop()
    moved_at, left = loop.time(), len(story.acknowledged) + 1
    while missing := {text for text in story.acknowledged if not story.handled[text]}:
        if len(missing) < left:  # one ordered queue with a slow handler may take long, but not stand still
            moved_at, left = loop.time(), len(missing)
        if loop.time() - moved_at > STILL_S:
            stalls = [f"{r.name}: {s.reason}" for r in readers if r.consumer for s in r.consumer.stalls()]
            raise AssertionError(
                f"{len(missing)} acknowledged messages are not handled: {sorted(missing)[:10]} {stalls}"
            )
        await asyncio.sleep(0.5)


def run(seed: int) -> Story:
    """One seed."""
    story = World(seed).run(scenario)
    phantoms = set(story.handled) - story.acknowledged - story.unknown
    assert not phantoms, f"handled although no broker may have them: {sorted(phantoms)[:10]}"
    assert max(story.ids.values(), default=1) == 1, "a unique key was given twice"
    return story
