"""One random cluster: drawn from a seed, disturbed under load, then left in peace, drained and judged.

A run has two phases. In the first anything may fail; in the second everything is mended, producers stop, and the groups
must consume all there is within a bounded virtual time. Then every queue is read from end to end and the history is
held to the invariants. A run in which too little happened is invalid, not green.
"""

import asyncio
import random
from dataclasses import dataclass, field
from typing import Final

from firearrow.store.config import FlushMode
from firearrow.testing.sim.disk import DiskProfile
from firearrow.testing.sim.history import History, Outcome
from firearrow.testing.sim.invariants import Promise, summary, violations
from firearrow.testing.sim.transport import LinkProfile
from firearrow.testing.sim.workload import Consumer, Producer
from firearrow.testing.sim.world import World
from tests.simulation.broker.cluster import LEVELS_MS, BrokerNode, SimCluster

DRAIN_S: Final = 240.0
ASYNC_WINDOW_S: Final = 10.5
"""Under ASYNC_FLUSH a write is synced within ten seconds at the latest; the rest is the sync itself."""
SETTLED_S: Final = 8.0
"""After so long every consumer has its share of the queues, and nothing moves any more."""
MOST_ATTEMPTS: Final = 2
LEAST_ACKNOWLEDGED: Final = 30
LEAST_READ: Final = 60


@dataclass(frozen=True)
class Options:
    """The shape of a run. Printed when it fails."""

    flush: FlushMode
    name_servers: int
    brokers: int
    producers: int
    consumers: int
    queues: int
    power: bool
    faultless: bool
    steps: int
    step_s: float
    latency_s: float
    sync_s: float

    @classmethod
    def draw(cls, rng: random.Random) -> "Options":
        return cls(
            flush=rng.choice(["SYNC_FLUSH", "SYNC_FLUSH", "ASYNC_FLUSH"]),
            name_servers=rng.randint(1, 2),
            brokers=rng.randint(1, 2),
            producers=rng.randint(1, 2),
            consumers=rng.randint(1, 3),
            queues=rng.randint(1, 3),
            power=rng.random() < 0.6,
            faultless=rng.random() < 0.1,
            steps=rng.randint(3, 8),
            step_s=rng.choice([1.0, 3.0, 6.0]),
            latency_s=rng.choice([0.0005, 0.005, 0.03]),
            sync_s=rng.choice([0.001, 0.01, 0.05]),
        )


def is_poison(key: str) -> bool:
    """Whether no consumer can handle a message: a few of every producer."""
    return int(key.rpartition(":")[2]) % 13 == 5


@dataclass
class Chaos:
    """A run in progress."""

    world: World
    options: Options
    cluster: SimCluster
    rng: random.Random
    down: dict[str, BrokerNode] = field(default_factory=dict)
    frozen: dict[str, BrokerNode] = field(default_factory=dict)

    @property
    def history(self) -> History:
        return self.cluster.history

    async def run(self) -> None:
        await self.build()
        for _ in range(self.options.steps):
            await asyncio.sleep(self.rng.uniform(0.2, self.options.step_s))
            if not self.options.faultless:
                await self.disturb()
        await self.repair()
        for producer in self.cluster.producers:
            producer.stopped = True
        await self.drain()
        await self.cluster.inspect(self.groups)
        self.judge()

    async def build(self) -> None:
        options, cluster = self.options, self.cluster
        self.world.node("watcher")
        for _ in range(options.name_servers):
            cluster.add_name_server()
        for number in range(options.brokers):
            await cluster.add_broker(f"broker{number}")
        for number in range(options.consumers):
            self.add_consumers(number)
        if options.faultless:
            await asyncio.sleep(SETTLED_S)
        for number in range(options.producers):
            cluster.add_producer(Producer(f"p{number}", cluster.name_servers, list(cluster.topics), self.history))

    def add_consumers(self, number: int) -> None:
        names, topics, history = self.cluster.name_servers, list(self.cluster.topics), self.history
        retrying = Consumer(
            f"r{number}", "retrying", names, topics, history, fails=0.1, is_poison=is_poison,
            most_attempts=MOST_ATTEMPTS,
        )  # fmt: skip
        self.cluster.add_consumer(retrying)
        self.cluster.add_consumer(Consumer(f"o{number}", "ordered", names, topics, history, ordered=True))
        self.cluster.add_consumer(Consumer(f"t{number}", "tagged", names, topics, history, expression="A"))

    @property
    def groups(self) -> list[str]:
        return ["retrying", "ordered", "tagged"]

    # ---- disturbances

    async def disturb(self) -> None:
        kinds = (
            self.crash, self.crash, self.crash, self.stop, self.freeze, self.thaw, self.restart, self.cut, self.heal,
            self.reset, self.crash_names, self.crash_consumer, self.another_consumer,
        )  # fmt: skip
        await self.rng.choice(kinds)()

    def noted(self, kind: str) -> None:
        self.history.counts[kind] += 1

    def standing(self) -> list[BrokerNode]:
        return [one for one in self.cluster.brokers if one.name not in self.down and one.name not in self.frozen]

    async def crash(self) -> None:
        for broker in self.rng.sample(self.standing(), min(1, len(self.standing()))):
            power = self.options.power and self.rng.random() < 0.6
            self.noted("power loss" if power else "crash")
            if power:
                self.history.power_losses.append((self.world.loop.time(), broker.name))
            await broker.crash(power=power)
            self.down[broker.name] = broker
            if self.rng.random() < 0.6:
                await asyncio.sleep(self.rng.uniform(0.0, 2.0))
                await self.restart()

    async def stop(self) -> None:
        for broker in self.rng.sample(self.standing(), min(1, len(self.standing()))):
            self.noted("stop")
            await broker.node.stop()
            self.down[broker.name] = broker

    async def restart(self) -> None:
        for name, broker in list(self.down.items()):
            self.noted("restart")
            await broker.start()
            del self.down[name]

    async def freeze(self) -> None:
        for broker in self.rng.sample(self.standing(), min(1, len(self.standing()))):
            self.noted("freeze")
            broker.node.freeze()
            self.frozen[broker.name] = broker

    async def thaw(self) -> None:
        for name, broker in list(self.frozen.items()):
            self.noted("thaw")
            broker.node.thaw()
            del self.frozen[name]

    async def cut(self) -> None:
        servers = [node.name for node in self.cluster.names] + [broker.name for broker in self.cluster.brokers]
        others = [name for name in self.world.nodes if name not in servers]
        self.noted("cut")
        left, right = self.rng.sample(servers, 1), self.rng.sample(others, self.rng.randint(1, len(others)))
        if self.rng.random() < 0.5:
            left, right = right, left
        self.world.network.partition(left, right, one_way=self.rng.random() < 0.4)

    async def heal(self) -> None:
        self.noted("heal")
        self.world.network.heal()

    async def reset(self) -> None:
        self.noted("reset")
        broker = self.rng.choice(self.cluster.brokers)
        for name in list(self.world.nodes):
            if self.rng.random() < 0.5:
                self.world.network.reset(broker.name, name)

    async def crash_names(self) -> None:
        self.noted("name server crash")
        node = self.rng.choice(self.cluster.names)
        await node.crash()
        await asyncio.sleep(self.rng.uniform(0.0, 2.0))
        node.start(self.cluster.serve_names)

    async def crash_consumer(self) -> None:
        self.noted("consumer crash")
        consumer = self.rng.choice(self.cluster.consumers)
        node = self.world.nodes[consumer.client_id]
        await node.crash()
        node.start(consumer.run)

    async def another_consumer(self) -> None:
        self.noted("another consumer")
        self.add_consumers(len(self.cluster.consumers))

    async def repair(self) -> None:
        await self.thaw()
        await self.heal()
        await self.restart()

    # ---- the end

    async def drain(self) -> None:
        """Wait until every group has everything; delayed and retried messages come late, so look twice."""
        start, quiet = self.world.loop.time(), 0
        while quiet < 3:
            await asyncio.sleep(4.0)
            behind = await self.cluster.behind(self.groups)
            quiet = quiet + 1 if behind == 0 else 0
            passed = self.world.loop.time() - start
            assert passed < DRAIN_S, f"I18: {behind} messages are not consumed after {passed:.0f} s"

    def judge(self) -> None:
        options, history = self.options, self.history
        lossy = options.flush == "ASYNC_FLUSH" and bool(history.power_losses)
        promise = Promise(
            groups=tuple(self.groups),
            tags={"tagged": frozenset({"A"})},
            ordered=("ordered",),
            most_attempts=MOST_ATTEMPTS,
            poison=frozenset(sent.key for sent in history.sends if is_poison(sent.key)),
            retrying="retrying",
            window_s=ASYNC_WINDOW_S if lossy else 0.0,
            delays_ms=LEVELS_MS,
            faultless=options.faultless,
        )
        wrong = violations(history, promise)
        assert not wrong, "\n".join(wrong[:20])


def run_chaos(seed: int, options: Options | None = None) -> History:
    """Run one random cluster; what it saw comes back, what went wrong is raised with the options."""
    rng = random.Random(f"{seed}/chaos")
    drawn = Options.draw(rng)
    options = options or drawn
    links = LinkProfile(latency_mean_s=options.latency_s, latency_min_s=options.latency_s / 10)
    world = World(seed, links=links, disks=DiskProfile(sync_mean_s=options.sync_s))
    cluster = SimCluster(world, options.flush, {"T": options.queues, "U": 1})
    try:
        world.run(lambda world: Chaos(world, options, cluster, rng).run())
    except BaseException as error:
        error.add_note(f"seed {seed}: {options}\n{summary(cluster.history)}")
        raise
    return cluster.history


def is_valid(history: History) -> bool:
    """Whether enough happened for the run to count."""
    acknowledged = sum(sent.outcome is Outcome.OK for sent in history.sends)
    return acknowledged >= LEAST_ACKNOWLEDGED and sum(map(len, history.reads.values())) >= LEAST_READ
