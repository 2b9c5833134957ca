"""A group of three with the modelled coordinator under load: six shapes of partitions, pauses, clock steps, losses.

Producers, delayed messages and a consumer group go on while faults come and go. At the end everything is mended. Then
the group must take a message and be in sync again in time (F7), and:

* F1 every message that was acknowledged is there, F2 in the order of its sender;
* F3 what a consumer has seen stays where it was seen: nothing unconfirmed was visible;
* F4 the group's offset is never above what was committed, and the consumers have read every message;
* F5 the logs of all replicas are equal byte for byte;
* F6 every delayed message that was acknowledged is delivered;
* F8 an epoch has one master.

Beside these, `acts` has clients that ask for everything else that a broker answers, with promises of their own. When
all is mended, the master dies a last time, so that everything that was answered is looked for at another one.
"""

import asyncio
import random
from collections import Counter
from dataclasses import dataclass, field
from typing import Final

from msgspec.structs import replace

from firearrow.broker.settings.config import BrokerSettings
from firearrow.errors import FireArrowError, RequestRefused
from firearrow.protocol.codes import ResponseCode
from firearrow.protocol.requests.group.offset import QueryConsumerOffset, UpdateConsumerOffset
from firearrow.runtime.network import Address
from firearrow.testing.sim.coordinator import CoordinatorFaults
from firearrow.testing.sim.disk import DiskProfile
from firearrow.testing.sim.transport import LinkProfile
from firearrow.testing.sim.world import World
from tests.simulation.broker.acts import ACTS
from tests.simulation.broker.strikes import DESTRUCTIVE, MACHINES, Strikes
from tests.unit.broker.test_failover_group import LIES, Group
from tests.unit.broker.test_replication import files
from tests.unit.broker.whole import PORT, UNIQUE, Client, Names, a_send

QUEUES: Final = 2
DELAYED: Final = "D"
DELAYED_QUEUES: Final = 3
TIMEOUT_MS: Final = 1_000
RECOVERY_S: Final = 180.0
CHECK_S: Final = 1_800.0
"""Longer than everything that is delivered later needs."""
GROUP: Final = "g"
LOSES_POWER: Final = ("power", "another address")
SHAPES: Final = (
    "master|coordinator", "master|slaves", "master|clients", "slave alone", "one way", "bridge", "master alone",
)  # fmt: skip


@dataclass(frozen=True)
class FailoverOptions:
    """The shape of a run. Printed when it fails."""

    sync_flush: bool
    lies: bool
    steps: int
    sync_s: float
    latency_s: float
    kinds: tuple[str, ...] = ()
    """Faults; all where none is named."""
    crashes: float = 0.3
    """The odds that a broker dies within a partition."""
    changes: bool = False
    """Whether members return with another flush mode now and then."""

    @classmethod
    def draw(cls, rng: random.Random) -> "FailoverOptions":
        return cls(
            sync_flush=rng.random() < 0.7,
            lies=rng.random() < 0.6,
            steps=rng.randint(2, 4),
            sync_s=rng.choice((0.001, 0.01, 0.05)),
            latency_s=rng.choice((0.0005, 0.005)),
            changes=rng.random() < 0.4,
        )


@dataclass
class FailoverRun:
    """A run in progress."""

    world: World
    options: FailoverOptions
    rng: random.Random
    acked: dict[int, list[bytes]] = field(default_factory=lambda: {queue: [] for queue in range(QUEUES)})
    delayed: list[bytes] = field(default_factory=list)
    seen: dict[tuple[int, int], bytes] = field(default_factory=dict)
    """The messages that the consumer group has read, by queue and offset."""
    committed: dict[int, int] = field(default_factory=Counter)
    """The highest offset that the group has tried to commit, by queue."""
    counts: Counter[str] = field(default_factory=Counter)
    is_over: bool = False

    async def run(self) -> None:
        names = await Names(self.world.node("names")).start()
        faults = LIES if self.options.lies else CoordinatorFaults()
        self.group = group = Group(self.world, names, faults, sync=self.options.sync_flush)
        for member in group.members.values():
            member.settings = _with_everything(member.settings)
        self.strikes = Strikes(self.world, group, self.rng, self.counts, changes=self.options.changes)
        self.acts = [act(self) for act in ACTS]
        group.start()
        await group.until_in_sync(3, RECOVERY_S)
        async with asyncio.TaskGroup() as tasks:
            for queue in range(QUEUES):
                tasks.create_task(self._send(queue))
            tasks.create_task(self._send_delayed())
            tasks.create_task(self._consume())
            for act in self.acts:
                tasks.create_task(act.run())
            await asyncio.sleep(self.rng.uniform(0.5, 2.0))
            for _ in range(self.options.steps):
                await self._disturb()
                await asyncio.sleep(self.rng.choice((0.0, 0.5, 4.0)))
            await self._recovered()
            await self._fail_over_once_more()
            self.is_over = True
        await self._check()

    @property
    def addresses(self) -> list[Address]:
        """The addresses of the members now."""
        return [Address(member.node.host, PORT) for member in self.group.members.values()]

    async def _fail_over_once_more(self) -> None:
        state = self.group.state
        assert state is not None
        address = {number: Address(member.node.host, PORT) for number, member in self.group.members.items()}
        master = address.pop(state.master)
        for act in self.acts:
            await act.before_the_last_failover(master, list(address.values()))
        await self.group.members[state.master].node.crash()
        await asyncio.sleep(self.rng.choice((0.1, 6.0)))
        self.strikes.start_again()
        await self._recovered()

    # ---- load

    async def _send(self, queue: int) -> None:
        client, number, first = Client(self.world.node(f"producer{queue}"), self.addresses[0]), 0, 0
        while not self.is_over:
            for turn in range(len(self.group.members)):
                number += 1
                body = b"%d:%06d" % (queue, number)
                addresses = self.addresses
                client.broker = addresses[(first + turn) % len(addresses)]
                if await self._took(client, a_send(queue_id=queue), body):
                    self.acked[queue].append(body)
                    first += turn
                    break
            else:
                await asyncio.sleep(0.1)
            await asyncio.sleep(0.02)

    async def _send_delayed(self) -> None:
        client, number = Client(self.world.node("delaying"), self.addresses[0]), 0
        while not self.is_over:
            number += 1
            client.broker = self.rng.choice(self.addresses)
            body = b"delayed:%06d" % number
            queue = self.rng.randrange(DELAYED_QUEUES)
            if await self._took(client, a_send(DELAYED, queue_id=queue, properties=f"{UNIQUE}DELAY\x011\x02"), body):
                self.delayed.append(body)
            await asyncio.sleep(0.1)

    async def _took(self, client: Client, request: object, body: bytes) -> bool:
        try:
            reply = await client.ask(request, body, timeout_ms=TIMEOUT_MS)  # type: ignore[arg-type]
        except FireArrowError:
            self.counts["refused or lost"] += 1
            return False
        self.counts["acknowledged"] += reply.code == 0
        return reply.code == 0

    async def _consume(self) -> None:
        """Read as a group does: from its offset on, with commits; now and then a consumer starts anew."""
        client = Client(self.world.node("consumer"), self.addresses[0])
        while not self.is_over:
            client.broker = self.rng.choice(self.addresses)
            try:
                await self._consume_for_a_while(client, self.rng.randint(1, 20))
            except FireArrowError:
                await asyncio.sleep(0.05)

    async def _consume_for_a_while(self, client: Client, rounds: int) -> None:
        at = {queue: await self._offset(client, queue) for queue in range(QUEUES)}
        for _ in range(rounds):
            for queue in range(QUEUES):
                for message in await client.stored(queue_id=queue, offset=at[queue]):
                    self._saw(queue, message.queue_offset, message.body)
                    at[queue] = message.queue_offset + 1
                self.committed[queue] = max(self.committed[queue], at[queue])
                commit = UpdateConsumerOffset(consumer_group=GROUP, topic="T", queue_id=queue, commit_offset=at[queue])
                await client.ask(commit, timeout_ms=TIMEOUT_MS)
            await asyncio.sleep(0.1)

    async def _offset(self, client: Client, queue: int) -> int:
        asked = QueryConsumerOffset(consumer_group=GROUP, topic="T", queue_id=queue, set_zero_if_not_found=True)
        try:
            reply = await client.ask(asked, timeout_ms=TIMEOUT_MS)
        except RequestRefused as refusal:
            if refusal.code != ResponseCode.QUERY_NOT_FOUND:
                raise
            return 0
        offset = int(reply.answer.offset) if reply.answer.offset is not None else 0
        most = self.committed[queue]
        assert offset <= most, f"F4: the group is at {offset} of queue {queue}, and committed {most} at most"
        return max(offset, 0)

    def _saw(self, queue: int, offset: int, body: bytes) -> None:
        before = self.seen.setdefault((queue, offset), body)
        assert before == body, f"F3: offset {offset} of queue {queue} was {before!r} and is {body!r}"

    # ---- faults

    async def _disturb(self) -> None:
        kinds = self.options.kinds or (*SHAPES, *SHAPES, *MACHINES, *MACHINES, *DESTRUCTIVE)
        kind, all_sync = self.rng.choice(kinds), self.strikes.all_sync
        if kind == "power of all" and not all_sync:
            kind = "power"
        if kind in DESTRUCTIVE or (kind in LOSES_POWER and not all_sync):
            await self._recovered()
        self.counts[kind] += 1
        state = self.group.state
        assert state is not None
        slaves = [number for number in self.group.members if number != state.master]
        if kind in SHAPES:
            await self._cut(kind, state.master, slaves)
        else:
            await self.strikes.strike(kind, state.master, slaves)

    async def _cut(self, shape: str, master: int, slaves: list[int]) -> None:
        network, coordinator = self.world.network, self.group.coordinator
        name = {number: member.node.name for number, member in self.group.members.items()}
        left, right = self.rng.sample(sorted(name), 2)
        alone = self.rng.choice(slaves) if shape == "slave alone" else master
        if shape in ("master|coordinator", "slave alone", "master alone"):
            coordinator.cut(alone)
        if shape in ("slave alone", "master alone"):
            network.isolate(name[alone])
        elif shape == "master|slaves":
            network.partition([name[master]], [name[slave] for slave in slaves])
        elif shape == "master|clients":
            clients = ["producer0", "producer1", "delaying", "consumer", *(act.name for act in self.acts)]
            network.partition([name[master]], clients)
        elif shape in ("one way", "bridge"):
            network.partition([name[left]], [name[right]], one_way=shape == "one way")
        await asyncio.sleep(self.rng.choice((0.5, 2.0, 8.0)))
        if self.rng.random() < self.options.crashes:
            self.counts["crash in a partition"] += 1
            await self.group.members[self.rng.choice((alone, master))].node.crash()
        coordinator.heal()
        network.heal()
        self.strikes.start_again()

    async def _recovered(self) -> None:
        """Wait until all replicas are in sync and messages are taken again; a process that ended is started again."""
        before = {queue: len(acked) for queue, acked in self.acked.items()}
        try:
            async with asyncio.timeout(RECOVERY_S):
                while any(len(self.acked[queue]) <= before[queue] for queue in before):
                    self.strikes.start_again()
                    await asyncio.sleep(0.1)
                # Last, because a replica that lost its directory leaves the set before anything is acknowledged.
                while len(state.iss) < 3 if (state := self.group.state) else True:
                    self.strikes.start_again()
                    await asyncio.sleep(0.1)
        except TimeoutError:
            raise AssertionError(f"F7: not in sync after {RECOVERY_S:.0f} s: {self.group.state}") from None

    # ---- checks

    async def _check(self) -> None:
        masters: dict[int, int] = {}
        for past in self.group.states:
            assert masters.setdefault(past.epoch, past.master) == past.master, f"F8: epoch {past.epoch}"
        await self._compare_logs()
        node = self.world.node("reader")
        async with asyncio.timeout(CHECK_S):
            while True:
                state = self.group.state
                assert state is not None
                try:
                    client = Client(node, Address(self.group.members[state.master].node.host, PORT))
                    await self._check_messages(client)
                    await self._check_delayed(client)
                    for act in self.acts:
                        await act.check(client)
                except FireArrowError as error:  # an election was under way
                    if isinstance(error, RequestRefused) and error.code != ResponseCode.SYSTEM_BUSY:
                        raise
                    await asyncio.sleep(1.0)
                else:
                    break
        self.counts["epochs"] += state.epoch

    async def _check_messages(self, client: Client) -> None:
        for queue in range(QUEUES):
            found = await self._read(client, "T", queue)
            lost = [body for body in self.acked[queue] if body not in set(found)]
            assert not lost, f"F1: {len(lost)} of {len(self.acked[queue])} acknowledged messages are lost: {lost[:5]}"
            kept = set(self.acked[queue])
            assert [body for body in found if body in kept] == self.acked[queue], f"F2: queue {queue} is out of order"
            for offset in range(await self._offset(client, queue), len(found)):
                self._saw(queue, offset, found[offset])
            for (where, offset), body in self.seen.items():
                same = where != queue or (offset < len(found) and found[offset] == body)
                assert same, f"F3: offset {offset} of queue {queue} was {body!r} and is {found[offset : offset + 1]}"
            skipped = [offset for offset in range(len(found)) if (queue, offset) not in self.seen]
            assert not skipped, f"F4: the consumers of queue {queue} never got offsets {skipped[:5]}"

    async def _check_delayed(self, client: Client) -> None:
        if not self.delayed:
            return
        missing = self.delayed
        for _ in range(20):
            found = {body for queue in range(DELAYED_QUEUES) for body in await self._read_if_there(client, queue)}
            missing = [body for body in self.delayed if body not in found]
            if not missing:
                return
            await asyncio.sleep(3)
        raise AssertionError(f"F6: {len(missing)} delayed messages are never delivered: {missing[:5]}")

    async def _read_if_there(self, client: Client, queue: int) -> list[bytes]:
        """Read a queue of the delayed topic, which may have had no message yet and so not exist."""
        try:
            return await self._read(client, DELAYED, queue)
        except RequestRefused as refusal:
            if refusal.code == ResponseCode.SYSTEM_BUSY:
                raise
            return []

    async def _read(self, client: Client, topic: str, queue: int) -> list[bytes]:
        found: list[bytes] = []
        while page := await client.stored(topic, queue_id=queue, offset=len(found)):
            found += [message.body for message in page]
        return found

    async def _compare_logs(self) -> None:
        nodes = [member.node for member in self.group.members.values()]
        async with asyncio.timeout(60):
            while True:
                found = [await files(node) for node in nodes]
                if found[0] == found[1] == found[2]:
                    return
                await asyncio.sleep(1.0)


def _with_everything(made: BrokerSettings) -> BrokerSettings:
    """Return settings with recalls, with questions about transactions that come soon, and with a slow scrub.

    A scrub at its usual rate reads these short logs every second, which costs more than everything else here. A full
    disk deletes no messages: a master deletes its oldest file then, acknowledged messages with it, and this run could
    not tell them from messages that a failover lost. That replicas keep what their master has while their disks are
    full is held by tests/unit/broker/test_failover_retention.py.
    """
    transactions = replace(made.transactions, transaction_time_out=3_000, transaction_check_interval=5_000)
    broker, scrub = replace(made.broker, recall_message_enable=True), replace(made.scrub, scrub_bytes_per_second=4096)
    retention = replace(made.retention, clean_file_forcibly_enable=False)
    return replace(made, broker=broker, transactions=transactions, scrub=scrub, retention=retention)


def run_failovers(seed: int, options: FailoverOptions | None = None) -> Counter[str]:
    """Run one group; raise when a promise is broken. Return what happened."""
    rng = random.Random(f"failovers {seed}")
    drawn = FailoverOptions.draw(rng)
    options = options or drawn
    links = LinkProfile(latency_mean_s=options.latency_s, latency_min_s=options.latency_s / 10)
    world = World(seed, links=links, disks=DiskProfile(sync_mean_s=options.sync_s))
    run = FailoverRun(world, options, rng)
    try:
        world.run(lambda _world: run.run())
    except BaseException as error:
        error.add_note(f"seed {seed}: {options}, {dict(run.counts)}")
        raise
    return run.counts
