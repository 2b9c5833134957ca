"""One random cluster: drawn from a seed, disturbed under load, then left in peace, drained and judged.

A run has two phases. In the first anything may fail; in the second everything is mended, every broker must take a
message soon, producers stop, and the groups must consume all there is within a bounded virtual time. Then every queue
is read from end to end and the history is held to the invariants. A run in which too little happened is invalid, not
green.

Beside producers and consumers there are senders of first messages, owners of topics that are made and deleted again,
and hostile clients. What is disturbed stands in ``disturbances``.
"""

import asyncio
import random
from dataclasses import dataclass
from typing import Final

from firearrow.errors import DiskError
from firearrow.store.config import FlushMode
from firearrow.testing.sim.disk import DiskProfile
from firearrow.testing.sim.transport import LinkProfile
from firearrow.testing.sim.world import World
from tests.simulation.broker.cluster import GROUPS, LEVELS_MS, LIMITS, MAX_PENDING_BYTES, MOST_CHECKS, SimCluster
from tests.simulation.broker.disturbances import MENUS, Disturbances, Menu
from tests.simulation.invariants.history import History, Outcome, Sent
from tests.simulation.invariants.promise import Promise
from tests.simulation.invariants.violations import summary, violations
from tests.simulation.workload.consumer import Consumer
from tests.simulation.workload.firsts import FirstSender
from tests.simulation.workload.hostile import KINDS
from tests.simulation.workload.lives import TopicLives
from tests.simulation.workload.producer import Producer
from tests.simulation.workload.transactions import TransactionProducer

DRAIN_S: Final = 240.0
ASYNC_WINDOW_S: Final = 10.5
"""Under ASYNC_FLUSH a write is synced within ten seconds at the latest; the rest is the sync itself."""
SETTLED_S: Final = 8.0
"""After so long every consumer has its share of the queues, and nothing moves any more."""
TIMERS_S: Final = 5.0
"""After so long a timed message that is due has been delivered."""
TRANSACTIONS_S: Final = 20.0
"""After so long the group of every open half message was asked as often as settings allow."""
MOST_ATTEMPTS: Final = 2
LEAST_ACKNOWLEDGED: Final = 30
LEAST_READ: Final = 60
MOST_MADE: Final = 3 * LIMITS.max_unsent_bytes
"""Three times what one peer may leave unread is more than a broker should make in one turn of its loop."""
MOST_PENDING: Final = 5 * MAX_PENDING_BYTES
"""The limit, and what came in until a flush that failed was noticed."""
WATCH_S: Final = 0.2
CONSUMED: Final = ("T", "U")
EMPTY: Final = "E"
"""A topic to which nobody sends."""
LARGE: Final = "B"
"""A topic of a few large messages: one answer holds them all."""


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
    views_ms: int = 1_000
    index_slots: int = 16
    cold: float = 0.05
    menu: Menu = "all"
    firsts: int = 0
    lives: int = 0
    transactions: int = 0
    """Members of the group that sends half messages."""
    timed: float = 0.0
    """The share of the producers' messages that have a time of their own."""
    expires: bool = False
    hostile: tuple[str, ...] = ()
    """Kinds of hostile clients; drawn by lot where none is named."""
    kinds: tuple[str, ...] = ()
    """Disturbances; those of the menu where none is named."""

    @classmethod
    def draw(cls, rng: random.Random) -> "Options":
        menu: Menu = rng.choice(["all", "all", "all", "machines", "machines", "machines", "disks", "disks", "clients"])
        expires = menu in ("machines", "clients") and rng.random() < 0.6
        return cls(
            flush=rng.choice(["SYNC_FLUSH", "SYNC_FLUSH", "ASYNC_FLUSH"]),
            name_servers=rng.randint(1, 2),
            brokers=rng.randint(1, 2),
            producers=rng.randint(1, 2),
            consumers=rng.randint(1, 3),
            queues=rng.randint(1, 3),
            power=menu in ("all", "machines") and rng.random() < 0.6,
            faultless=rng.random() < 0.1,
            steps=rng.randint(3, 8),
            step_s=rng.choice([1.0, 3.0, 6.0]),
            latency_s=rng.choice([0.0005, 0.005, 0.03]),
            sync_s=rng.choice([0.001, 0.01, 0.05]),
            views_ms=rng.choice([200, 1_000, 5_000]),
            index_slots=rng.choice([16, 16, 16_384]),
            cold=rng.choice([0.0, 0.05]),
            menu=menu,
            firsts=rng.randint(0, 1),
            lives=rng.randint(0, 2),
            transactions=rng.choice((0, 2, 2, 3)),
            timed=rng.choice((0.0, 0.1, 0.2)),
            expires=expires,
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
    most_pending: int = 0
    most_made: int = 0

    @property
    def history(self) -> History:
        return self.cluster.history

    async def run(self) -> None:
        options = self.options
        await self.build()
        watching = asyncio.create_task(self.watch())
        disturbances = Disturbances(
            self.world, self.cluster, self.rng, options.menu, power=options.power, add_consumers=self.add_consumers
        )
        for _ in range(options.steps):
            await asyncio.sleep(self.rng.uniform(0.2, options.step_s))
            if not options.faultless:
                await disturbances.disturb(options.kinds)
        await disturbances.repair()
        self.history.broken += await self.cluster.probe(0)
        self.cluster.end_sending()
        await self.send_hostile_away()
        await self.drain()
        watching.cancel()
        await self.cluster.inspect(GROUPS)
        self.look_into_brokers()
        await disturbances.stop_all()
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
            producer = Producer(f"p{number}", cluster.name_servers, list(CONSUMED), self.history)
            producer.timed_chance = options.timed
            cluster.add_producer(producer)
        for number in range(options.transactions):
            name, topics = f"x{number}", list(CONSUMED)
            cluster.add_transactions(TransactionProducer(name, "x", cluster.name_servers, topics, self.history))
        for number in range(options.firsts):
            cluster.add_first_sender(FirstSender(f"f{number}", cluster.name_servers, self.history))
        for number in range(options.lives):
            broker = self.rng.choice(cluster.brokers).name
            lives = TopicLives(f"L{number}", broker, cluster.name_servers, self.history, "U", lambda: self.is_lossy)
            cluster.add_lives(lives)
        if options.menu in ("all", "clients") and not options.faultless:
            await self.add_hostile()

    def add_consumers(self, number: int) -> None:
        names, topics, history = self.cluster.name_servers, list(CONSUMED), self.history
        retrying = Consumer(
            f"r{number}", "retrying", names, topics, history, fails=0.1, is_poison=is_poison,
            most_attempts=MOST_ATTEMPTS,
        )  # fmt: skip
        self.cluster.add_consumer(retrying)
        self.cluster.add_consumer(Consumer(f"o{number}", "ordered", names, topics, history, ordered=True))
        self.cluster.add_consumer(Consumer(f"t{number}", "tagged", names, topics, history, expression="A"))

    async def add_hostile(self) -> None:
        drawn = self.rng.sample(KINDS, self.rng.randint(0, len(KINDS)))
        if self.options.hostile:
            drawn = [kind for kind in KINDS if kind.__name__ in self.options.hostile]
        for number, kind in enumerate(drawn):
            broker = self.rng.choice(self.cluster.brokers)
            await self.cluster.fill(broker, LARGE, 10, 10_000)
            self.cluster.add_hostile(kind(f"hostile{number}", broker.address, LARGE, EMPTY))
            self.history.counts[kind.__name__] += 1

    @property
    def is_lossy(self) -> bool:
        """Whether what was not synced may be lost."""
        return self.options.flush == "ASYNC_FLUSH" and bool(self.history.power_losses)

    # ---- the end

    async def send_hostile_away(self) -> None:
        for hostile in self.cluster.hostile:
            await self.world.nodes[hostile.name].crash()

    async def drain(self) -> None:
        """Wait until every group has everything and nothing comes any more: delayed and retried messages come late."""
        start, quiet, come = self.world.loop.time(), 0, 0
        await asyncio.sleep(max(self.settled_s() - start, 0.0))
        while quiet < 3:
            await asyncio.sleep(4.0)
            behind, before, come = await self.cluster.behind(GROUPS, CONSUMED), come, self.history.come
            quiet = quiet + 1 if behind == 0 and come == before else 0
            passed = self.world.loop.time() - start
            assert passed < DRAIN_S, f"I18: {behind} messages are not consumed after {passed:.0f} s"

    def settled_s(self) -> float:
        """Return when every timed message is due and every half message is ended or given up, by I10 and I11."""
        asked_s = self.world.loop.time() + TRANSACTIONS_S if self.history.halves else 0.0
        return max(asked_s, *(self.due_s(sent) + TIMERS_S for sent in self.history.sends if sent.due_ms), 0.0)

    def due_s(self, sent: Sent) -> float:
        """Return when a timed message is due by clocks that are right again; a wrong one may have counted a delay."""
        errors_ms = [self.history.clock_error_ms(sent.broker, at_s) for at_s in (sent.began_s, sent.ended_s)]
        return sent.ended_s + (sent.due_ms - sent.born_ms + max(*errors_ms, 0)) / 1000

    async def watch(self) -> None:
        """Look now and then at what brokers keep in memory."""
        while True:
            await asyncio.sleep(WATCH_S)
            for broker in self.cluster.brokers:
                if broker.broker is not None:
                    broker.broker.look()
                    self.most_pending = max(self.most_pending, broker.broker.most_pending)
                    self.most_made = max(self.most_made, broker.broker.most_made)

    def look_into_brokers(self) -> None:
        """Check the costs of clients, now that they are gone."""
        if self.most_pending > MOST_PENDING:
            self.history.broken.append(f"I21: {self.most_pending} bytes of queues waited in memory")
        if self.most_made > MOST_MADE:
            self.history.broken.append(f"I19: {self.most_made} bytes of answers were made before any was taken")
        for broker in self.cluster.brokers:
            if broker.broker is not None and (forgotten := broker.broker.forgotten_pulls):
                self.history.broken.append(f"I20: {forgotten} pulls at {broker.name} outlive their connections")

    def judge(self) -> None:
        options, history = self.options, self.history
        promise = Promise(
            groups=GROUPS,
            topics=frozenset(CONSUMED),
            tags={"tagged": frozenset({"A"})},
            ordered=("ordered",),
            most_attempts=MOST_ATTEMPTS,
            poison=frozenset(sent.key for sent in history.attempts() if sent.topic in CONSUMED and is_poison(sent.key)),
            retrying="retrying",
            window_s=ASYNC_WINDOW_S if self.is_lossy else 0.0,
            delays_ms=LEVELS_MS,
            most_checks=MOST_CHECKS,
            faultless=options.faultless,
            answers=MENUS[options.menu].answers,
        )
        wrong = violations(history, promise)
        assert not wrong, "\n".join(wrong[:20])


def run_chaos(seed: int, options: Options | None = None) -> History:
    """Run one random cluster; what it saw comes back, what went wrong is raised with the options."""
    rng = random.Random(f"{seed}/chaos")
    drawn = Options.draw(rng)
    options = options or drawn
    links = LinkProfile(latency_mean_s=options.latency_s, latency_min_s=options.latency_s / 10)
    world = World(seed, links=links, disks=DiskProfile(sync_mean_s=options.sync_s, cold_chance=options.cold))
    if MENUS[options.menu].breaks_disks:
        world.expected = (DiskError,)
    topics = {"T": options.queues, "U": 1, EMPTY: 1, LARGE: 1}
    cluster = SimCluster(
        world,
        options.flush,
        topics,
        options.views_ms,
        options.index_slots,
        makes_topics=options.firsts > 0,
        expires=options.expires,
    )
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
