"""Disturbances of a simulated cluster while it works, and their mending.

A ``Menu`` says what a run may suffer: machines (crashes, power, ends in order, frozen processes, moves to another
address), cables, disks (full, out of descriptors, failing reads, files of state that cannot be written or have rotted,
queues and index that stall or whose sync fails), topics that grow, wall clocks that step, old files that are deleted.
Clients are hostile by their own nature, not by a disturbance.
"""

import asyncio
import errno
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Final, Literal

from firearrow.testing.sim.disk_image import STANDING
from firearrow.testing.sim.world import World
from tests.simulation.broker.cluster import GROUPS, PORT, BrokerNode, SimCluster

Menu = Literal["all", "machines", "disks", "clients"]
CONFIG: Final = "config/"
OFFSETS: Final = "config/consumerOffset.json"
VIEWS: Final = ("consumequeue/", "index/")
MAKING: Final = ("open", "create", "make", "rename", "allocate", "truncate", "write")
"""Calls that need space or a descriptor. A sync that fails is no shortage: it loses pages, and the broker is fenced
until it is started again."""


@dataclass(frozen=True)
class Course:
    """One menu: the names of its disturbances, some of them often."""

    kinds: tuple[str, ...]
    breaks_disks: bool = False
    answers: bool = False
    """Whether every pull is answered for as long as its connection lives."""


MACHINES: Final = (
    "crash", "crash", "crash", "crash", "stop", "bounce", "freeze", "thaw", "restart", "move", "crash_names",
    "crash_consumer", "another_consumer", "grow", "crash_transactions", "step_clock", "expire", "expire",
)  # fmt: skip
CABLES: Final = ("cut", "heal", "reset")
DISKS: Final = (
    "fill", "refuse_log_write", "refuse_log_write", "refuse_config", "exhaust_descriptors", "stall_views", "fail_reads",
    "fail_view_syncs", "rot_offsets", "slow_down",
)  # fmt: skip
MENUS: Final[dict[Menu, Course]] = {
    "all": Course((*MACHINES, *CABLES, *DISKS), breaks_disks=True),
    "machines": Course((*MACHINES, *CABLES)),
    "disks": Course(("kill", "stop", "bounce", "restart", "grow", *DISKS, *DISKS), breaks_disks=True, answers=True),
    "clients": Course(
        (
            "kill",
            "stop",
            "bounce",
            "restart",
            "crash_consumer",
            "another_consumer",
            "grow",
            "move",
            "expire",
            "expire",
        )
    ),
}


@dataclass
class Disturbances:
    """Everything that can be done to one cluster."""

    world: World
    cluster: SimCluster
    rng: random.Random
    menu: Menu
    power: bool
    add_consumers: Callable[[int], None]
    down: dict[str, BrokerNode] = field(default_factory=dict)
    frozen: dict[str, BrokerNode] = field(default_factory=dict)

    async def disturb(self, kinds: tuple[str, ...] = ()) -> None:
        """Do something: one of these, or of the menu."""
        kind = self.rng.choice(kinds or self.possible)
        disturbance: Callable[[], Awaitable[None]] = getattr(self, kind)
        await disturbance()

    @property
    def possible(self) -> list[str]:
        """The disturbances of the menu that this cluster can suffer."""
        without = {"expire": not self.cluster.expires, "crash_transactions": not self.cluster.transactions}
        return [kind for kind in MENUS[self.menu].kinds if not without.get(kind)]

    async def repair(self) -> None:
        """Mend everything."""
        for broker in self.cluster.brokers:
            broker.node.image.mend()
        await self.thaw()
        await self.heal()
        await self.restart()
        self.set_clocks()
        self.start_transactions()

    async def stop_all(self) -> None:
        """End every broker in order and start it again: an end in order leaves nothing to mend."""
        for broker in self.cluster.brokers:
            await broker.stop()
            await broker.start()

    def noted(self, kind: str) -> None:
        """Count it."""
        self.cluster.history.counts[kind] += 1

    def one_that_stands(self) -> list[BrokerNode]:
        """A broker that serves, if there is one."""
        brokers = self.cluster.brokers
        standing = [one for one in brokers if one.name not in self.down and one.name not in self.frozen]
        return self.rng.sample(standing, min(1, len(standing)))

    # ---- machines

    async def crash(self) -> None:
        """Kill a broker, or cut its power."""
        await self._crash(power=self.power and self.rng.random() < 0.6)

    async def kill(self) -> None:
        """Kill a broker."""
        await self._crash(power=False)

    async def _crash(self, *, power: bool) -> None:
        for broker in self.one_that_stands():
            self.noted("power loss" if power else "crash")
            if power:
                self.cluster.history.power_losses.append((self.world.loop.time(), broker.name))
            await broker.crash(power=power)
            self.down[broker.name] = broker
            if self.rng.random() < 0.6:
                await asyncio.sleep(self.rng.uniform(0.0, 2.0))
                await self.restart()

    async def stop(self) -> None:
        """End a broker in order."""
        for broker in self.one_that_stands():
            self.noted("stop")
            await broker.stop()
            self.down[broker.name] = broker

    async def bounce(self) -> None:
        """End a broker in order and start it again at once."""
        await self.stop()
        await self.restart()

    async def restart(self) -> None:
        """Start what is down."""
        for name, broker in list(self.down.items()):
            self.noted("restart")
            broker.node.image.mend()
            await broker.start()
            del self.down[name]

    async def move(self) -> None:
        """Start a broker again at another address."""
        for broker in self.one_that_stands():
            self.noted("move")
            if self.rng.random() < 0.5:
                await broker.stop()
            else:
                await broker.crash(power=False)
            broker.port = PORT + self.rng.randint(10, 99)
            await broker.start()

    async def freeze(self) -> None:
        """Let a broker hang."""
        for broker in self.one_that_stands():
            self.noted("freeze")
            broker.node.freeze()
            self.frozen[broker.name] = broker

    async def thaw(self) -> None:
        """Let what hangs go on."""
        for name, broker in list(self.frozen.items()):
            self.noted("thaw")
            broker.node.thaw()
            del self.frozen[name]

    async def crash_names(self) -> None:
        """Kill a name server and start it again."""
        self.noted("name server crash")
        node = self.rng.choice(self.cluster.names)
        await node.crash()
        await asyncio.sleep(self.rng.uniform(0.0, 2.0))
        node.start(self.cluster.serve_names)

    async def crash_consumer(self) -> None:
        """Kill a consumer and start it again."""
        self.noted("consumer crash")
        consumer = self.rng.choice(self.cluster.consumers)
        node = self.world.nodes[consumer.client_id]
        await node.crash()
        node.start(consumer.run)

    async def another_consumer(self) -> None:
        """One more of each group."""
        self.noted("another consumer")
        self.add_consumers(len(self.cluster.consumers))

    async def crash_transactions(self) -> None:
        """Kill a producer of half messages; those it left open are a matter of its group until it is started again."""
        up = [one for one in self.cluster.transactions if self.world.nodes[one.name].running]
        if len(up) > 1:
            self.noted("transaction producer crash")
            await self.world.nodes[self.rng.choice(up).name].crash()
        else:
            self.start_transactions()

    def start_transactions(self) -> None:
        """Start the producers of half messages that are down."""
        for producer in self.cluster.transactions:
            if not self.world.nodes[producer.name].running:
                self.world.nodes[producer.name].start(producer.run)

    async def step_clock(self) -> None:
        """Set the wall clock of a broker forward or back, now and then both, one after the other."""
        for broker in self.one_that_stands():
            for _ in range(self.rng.randint(1, 2)):
                self.step(broker, self.rng.choice((-1, 1)) * self.rng.randint(500, 15_000))
                await asyncio.sleep(self.rng.uniform(0.1, 3.0))

    def step(self, broker: BrokerNode, by_ms: int) -> None:
        self.noted("clock step")
        broker.node.clock.jump(by_ms)
        self.cluster.history.clock_steps.append((self.world.loop.time(), broker.name, by_ms))

    def set_clocks(self) -> None:
        """Set every wall clock right again."""
        for broker in self.cluster.brokers:
            wrong = sum(by_ms for _, name, by_ms in self.cluster.history.clock_steps if name == broker.name)
            if wrong:
                self.step(broker, -wrong)

    async def expire(self) -> None:
        """Delete the old files of a broker's log."""
        for broker in self.one_that_stands():
            lag = self.rng.choice((0, 0, 3, 20))
            self.cluster.history.counts["expired files"] += await self.cluster.expire(broker, GROUPS, lag)

    async def grow(self) -> None:
        """One more queue."""
        self.noted("grow")
        await self.cluster.grow("T")

    # ---- cables

    async def cut(self) -> None:
        """Cut a server off from some others."""
        servers = [node.name for node in self.cluster.names] + [broker.name for broker in self.cluster.brokers]
        others = [name for name in self.world.nodes if name not in servers]
        self.noted("cut")
        left, right = self.rng.sample(servers, 1), self.rng.sample(others, self.rng.randint(1, len(others)))
        if self.rng.random() < 0.5:
            left, right = right, left
        self.world.network.partition(left, right, one_way=self.rng.random() < 0.4)

    async def heal(self) -> None:
        """Mend every cable."""
        self.noted("heal")
        self.world.network.heal()

    async def reset(self) -> None:
        """Break connections of a broker."""
        self.noted("reset")
        broker = self.rng.choice(self.cluster.brokers)
        for name in list(self.world.nodes):
            if self.rng.random() < 0.5:
                self.world.network.reset(broker.name, name)

    # ---- disks

    async def _for_a_while(self, broker: BrokerNode, seconds: float) -> None:
        await asyncio.sleep(self.rng.uniform(0.1, seconds))
        broker.node.image.mend()

    async def fill(self) -> None:
        """Leave a broker's disk no space for a while."""
        for broker in self.one_that_stands():
            self.noted("full disk")
            broker.node.image.leave_free(self.rng.choice((0, 4096, 20_000)))
            await self._for_a_while(broker, 4.0)

    async def refuse_log_write(self) -> None:
        """Refuse a few writes of the log, as a disk does that is full for a moment; all else goes on."""
        for broker in self.one_that_stands():
            self.noted("log write refused")
            number = self.rng.choice((errno.ENOSPC, errno.EDQUOT))
            broker.node.image.fail("write", number=number, times=self.rng.randint(1, 3), below="commitlog/")
            await self._for_a_while(broker, 2.0)

    async def refuse_config(self) -> None:
        """Refuse the files of state for a while."""
        for broker in self.one_that_stands():
            self.noted("state refused")
            operation = self.rng.choice(("write", "create", "sync_directory", "rename"))
            number = self.rng.choice((errno.ENOSPC, errno.EDQUOT, errno.EIO))
            times = self.rng.choice((1, STANDING))
            broker.node.image.fail(operation, number=number, times=times, below=CONFIG)
            await self._for_a_while(broker, 3.0)

    async def exhaust_descriptors(self) -> None:
        """Open no file for a while."""
        for broker in self.one_that_stands():
            self.noted("no descriptors")
            for operation in ("open", "create"):
                broker.node.image.fail(operation, number=errno.EMFILE, times=STANDING)
            await self._for_a_while(broker, 12.0)

    async def stall_views(self) -> None:
        """Write neither queues nor index for a while."""
        for broker in self.one_that_stands():
            self.noted("views stalled")
            number = self.rng.choice((errno.ENOSPC, errno.EDQUOT, errno.EMFILE))
            for below in VIEWS:
                for operation in MAKING:
                    broker.node.image.fail(operation, number=number, times=STANDING, below=below)
            await self._for_a_while(broker, 30.0)

    async def fail_view_syncs(self) -> None:
        """Fail a sync of queues or index; the operator sees that the broker takes nothing more and starts it again."""
        for broker in self.one_that_stands():
            self.noted("view syncs failed")
            operation = self.rng.choice(("sync", "sync", "sync_directory"))
            broker.node.image.fail(
                operation, after=self.rng.randrange(6), times=self.rng.randint(1, 3), below=self.rng.choice(VIEWS)
            )
            await self._for_a_while(broker, 6.0)
            await self._start_again(broker)

    async def _start_again(self, broker: BrokerNode) -> None:
        """End a broker that may be fenced, by force or in order as far as that goes, and start it, as operators do."""
        is_fenced = broker.is_fenced
        if self.rng.random() < 0.3:
            await broker.crash(power=False)
        else:
            await broker.stop()
        if is_fenced:
            self.noted("fenced")
            broker.stopped_in_order = False  # what was lost is made again from the log
        await broker.start()

    async def fail_reads(self) -> None:
        """Let some reads fail."""
        for broker in self.one_that_stands():
            self.noted("reads failed")
            below = self.rng.choice(("commitlog/", "consumequeue/", ""))
            broker.node.image.fail("read", after=self.rng.randrange(10), times=self.rng.randint(1, 20), below=below)
            await self._for_a_while(broker, 4.0)

    async def slow_down(self) -> None:
        """Let syncs of some files take long for a while; now and then the broker is told to end meanwhile."""
        for broker in self.one_that_stands():
            self.noted("slow syncs")
            below = self.rng.choice(("index/", "consumequeue/", "commitlog/", CONFIG))
            broker.node.image.slow(below, self.rng.uniform(0.2, 1.5))
            await asyncio.sleep(self.rng.uniform(0.5, 4.0))
            if self.rng.random() < 0.7:
                await broker.stop()
                broker.node.image.mend()
                await broker.start()
            broker.node.image.mend()

    async def rot_offsets(self) -> None:
        """Turn a digit of the offsets into another while the broker is down and the groups are behind."""
        for broker in self.one_that_stands():
            nodes = [self.world.nodes[consumer.client_id] for consumer in self.cluster.consumers]
            for node in nodes:
                await node.crash()
            await asyncio.sleep(self.rng.uniform(1.0, 3.0))
            await broker.stop()
            image = broker.node.image
            if image.find(OFFSETS) is not None and image.rot_digit(OFFSETS):
                self.noted("offsets rotted")
                broker.stopped_in_order = False
            await broker.start()
            for consumer, node in zip(self.cluster.consumers, nodes, strict=True):
                node.start(consumer.run)
