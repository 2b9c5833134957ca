"""A replicated group under load: a SYNC_MASTER and its slaves with crashes, power losses, cut cables, frozen slaves.

A run ends in one of two ways. The master's machine is lost for good in the middle of the load, and under SYNC_FLUSH the
power of every slave with it: an operator starts the slave with the longest log as the next master, and every message
that was answered with 0 must be there (G1), those of a sender in order (G2). Or everything is mended: every slave gets
the whole log, and all log files are equal byte for byte (G3).
"""

import asyncio
import random
from collections import Counter
from dataclasses import dataclass, field
from typing import Final

from msgspec.structs import replace

from firearrow.errors import ConnectionLost, FireArrowError
from firearrow.protocol.codes import ResponseCode
from firearrow.testing.sim.disk import DiskProfile
from firearrow.testing.sim.world import Node, World
from tests.unit.broker.test_replication import end_of, files, grouped
from tests.unit.broker.whole import UNIQUE, Client, Names, Simulated, a_send

SENDERS: Final = 3
TIMEOUT_MS: Final = 7_000
STEP_S: Final = (0.2, 0.6, 2.0)
CATCH_UP_S: Final = 120.0
FAULTS: Final = ("crash slave", "crash master", "cut", "freeze")
POWER_FAULTS: Final = ("power of slave", "power of master")


@dataclass(frozen=True)
class GroupOptions:
    """The shape of a run."""

    sync_flush: bool
    slaves: int
    least: int
    steps: int
    sync_s: float
    loses_master: bool

    @classmethod
    def draw(cls, rng: random.Random) -> "GroupOptions":
        return cls(
            sync_flush=rng.random() < 0.7,
            slaves=rng.randint(1, 2),
            least=rng.randint(1, 2),
            steps=rng.randint(2, 5),
            sync_s=rng.choice((0.002, 0.02, 0.1)),
            loses_master=rng.random() < 0.7,
        )


@dataclass
class GroupRun:
    """A run in progress."""

    world: World
    options: GroupOptions
    rng: random.Random
    acknowledged: list[str] = field(default_factory=list)
    """Bodies of messages answered with 0."""
    counts: Counter[str] = field(default_factory=Counter)
    is_over: bool = False

    async def run(self) -> None:
        options, world = self.options, self.world
        names = await Names(world.node("names")).start()
        config = {"broker_role": "SYNC_MASTER", "min_in_sync_replicas": options.least}
        self.master = Simulated(world.node("master"), grouped(0, names, sync_flush=options.sync_flush, **config))
        self.slaves = [
            Simulated(world.node(f"slave{number}"), grouped(number, names, sync_flush=options.sync_flush))
            for number in range(1, options.slaves + 1)
        ]
        for broker in (self.master, *self.slaves):
            await broker.start()
        node = world.node("clients")
        senders = [asyncio.create_task(self._send(node, number)) for number in range(SENDERS)]
        await asyncio.sleep(1)
        for _ in range(options.steps):
            await self._disturb()
        if options.loses_master:
            await asyncio.sleep(self.rng.random())
            await self._lose_master()
        self.is_over = True
        await asyncio.gather(*senders)
        if options.loses_master:
            await self._check_next_master()
        else:
            await self._check_copies()
        for broker in (self.master, *self.slaves):
            if broker.node.running:
                await broker.node.stop()

    async def _send(self, node: Node, sender: int) -> None:
        client, number = Client(node, self.master.address), 0
        codes = frozenset({0, ResponseCode.FLUSH_DISK_TIMEOUT, 11, 12})
        while not self.is_over:
            number += 1
            body = f"{sender}:{number}"
            request = a_send(properties=f"{UNIQUE}WAIT\x01true\x02", queue_id=sender)
            try:
                reply = await client.ask(request, body.encode(), accept=codes, timeout_ms=TIMEOUT_MS)
            except FireArrowError:
                self.counts["refused or lost"] += 1
                await asyncio.sleep(0.1)
                continue
            self.counts[f"answered with {reply.code}"] += 1
            if reply.code == ResponseCode.SUCCESS:
                self.acknowledged.append(body)
            await asyncio.sleep(0.005)

    # ---- disturbances

    async def _disturb(self) -> None:
        fault = self.rng.choice(FAULTS + POWER_FAULTS if self.options.sync_flush else FAULTS)
        self.counts[fault] += 1
        slave, pause = self.rng.choice(self.slaves), self.rng.choice(STEP_S)
        if fault == "cut":
            self.world.network.partition(["master"], [slave.node.name])
            await asyncio.sleep(pause)
            self.world.network.heal()
        elif fault == "freeze":
            slave.node.freeze()
            await asyncio.sleep(pause)
            slave.node.thaw()
        else:
            broker = self.master if "master" in fault else slave
            await (broker.node.power_loss() if fault in POWER_FAULTS else broker.node.crash())
            await asyncio.sleep(pause)
            await broker.start()
        await asyncio.sleep(self.rng.choice(STEP_S) + 1)

    async def _lose_master(self) -> None:
        """Take the master away for good, and under SYNC_FLUSH the power of the slaves."""
        self.counts["lost masters"] += 1
        await self.master.node.power_loss()
        for slave in self.slaves:
            await (slave.node.power_loss() if self.options.sync_flush else slave.node.crash())

    # ---- checks

    async def _check_next_master(self) -> None:
        ends = {}
        for slave in self.slaves:
            await slave.start()
            ends[slave] = await end_of(Client(self.world.node(f"operator of {slave.node.name}"), slave.address))
            await slave.node.stop()
        chosen = max(self.slaves, key=lambda slave: ends[slave])
        chosen.settings = replace(
            chosen.settings,
            broker=replace(chosen.settings.broker, broker_id=0),
            replication=replace(chosen.settings.replication, broker_role="ASYNC_MASTER"),
        )
        await chosen.start()
        client = Client(self.world.node("reader"), chosen.address)
        found: set[str] = set()
        for sender in range(SENDERS):
            await client.send(body=f"{sender}:probe".encode(), queue_id=sender)
            bodies = await self._read(client, sender)
            numbers = [int(body.partition(":")[2]) for body in bodies if not body.endswith("probe")]
            assert numbers == sorted(set(numbers)), f"G2: messages of sender {sender} are out of order"
            found.update(bodies)
        lost = [body for body in self.acknowledged if body not in found]
        assert not lost, f"G1: {len(lost)} of {len(self.acknowledged)} messages answered with 0 are lost: {lost[:5]}"

    async def _read(self, client: Client, queue_id: int) -> list[str]:
        bodies: list[str] = []
        while page := await client.stored(queue_id=queue_id, offset=len(bodies)):
            bodies += [message.body.decode() for message in page]
        return bodies

    async def _check_copies(self) -> None:
        operator = self.world.node("operator")
        async with asyncio.timeout(CATCH_UP_S):
            for slave in self.slaves:
                while await _end(operator, slave) != await _end(operator, self.master):  # noqa: ASYNC110
                    await asyncio.sleep(0.2)
        original = await files(self.master.node)
        for slave in self.slaves:
            assert await files(slave.node) == original, f"G3: the log of {slave.node.name} differs"


async def _end(node: Node, broker: Simulated) -> int:
    try:
        return await end_of(Client(node, broker.address))
    except ConnectionLost:
        return -1


def run_group(seed: int, options: GroupOptions | None = None) -> Counter[str]:
    """Run one group; raise when a promise is broken. Return what happened."""
    rng = random.Random(f"group {seed}")
    options = options or GroupOptions.draw(rng)
    world = World(seed, disks=DiskProfile(sync_mean_s=options.sync_s, write_back_chance=0.0))
    run = GroupRun(world, options, rng)
    world.run(lambda _world: run.run())
    return run.counts
