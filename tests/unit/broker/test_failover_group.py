"""Groups of three on simulated machines: masters die, the coordinator lies, and nothing acknowledged is lost."""

import asyncio
import random
from collections.abc import Mapping
from contextlib import suppress

import pytest
from msgspec.structs import replace

from firearrow.broker.failover import group_master
from firearrow.broker.failover.group_values import decode
from firearrow.broker.group_broker import GroupBroker
from firearrow.broker.settings.config import BrokerConfig, BrokerSettings
from firearrow.broker.settings.failover_settings import FailoverConfig
from firearrow.errors import DiskError, FireArrowError, StoreFenced, SyncFailed
from firearrow.model.group_state import GroupState
from firearrow.remoting.caller import Caller
from firearrow.runtime.coordinator.door import GroupSnapshot
from firearrow.runtime.machine import Machine
from firearrow.runtime.network import Address
from firearrow.testing.sim.coordinator import CoordinatorFaults, SimCoordinator
from firearrow.testing.sim.disk import DiskProfile
from firearrow.testing.sim.world import Node, World
from tests.unit.broker.test_replication import files
from tests.unit.broker.whole import PORT, Client, Names, a_send, route, settings_of

LEASE_S = 3
REGISTRATION_S = 31
"""Longer than the time between two registrations."""
LIES = CoordinatorFaults(old_read=0.2, lying_renewal=0.5, lost_wake=0.3, needless_wake=0.05, failure=0.05)
FAULTS = (
    "crash",
    "power_loss",
    "freeze",
    "cut off from the coordinator",
    "cut off from the slaves",
    "isolate",
    "full disk",
    "failed sync",
)


def settings(number: int, names: Address, *, sync: bool, min_in_sync: int | None = None) -> BrokerSettings:
    broker = BrokerConfig(broker_name="broker-a", broker_id=number, namesrv_addr=str(names))
    made = settings_of(broker, sync=sync)
    log = replace(made.log, mapped_file_size_commit_log=64 << 10)
    if min_in_sync is not None:
        made = replace(made, replication=replace(made.replication, min_in_sync_replicas=min_in_sync))
    return replace(
        made, log=log, failover=FailoverConfig(coordinator_address="http://modelled", coordinator_lease_seconds=LEASE_S)
    )


class Member:
    """One replica of the group."""

    def __init__(self, node: Node, made: BrokerSettings, coordinator: SimCoordinator) -> None:
        self.node = node
        self.settings = made
        self.coordinator = coordinator

    async def run(self, node: Node) -> None:
        machine = Machine(name=node.name, ip=node.host, memory_bytes=8 << 30, boot_id=node.boot_id)
        broker = GroupBroker(
            self.settings,
            machine,
            self.coordinator.member(self.settings.broker.broker_id, LEASE_S),
            network=node.network,
            disk=node.disk,
            clock=node.clock,
            chance=random.Random(node.rng.random()),
        )
        try:
            async with broker.serving():
                await asyncio.get_running_loop().create_future()
        except* (SyncFailed, StoreFenced):
            pass


class Group:
    """Three replicas, a coordinator, a name server, and a producer that tries every replica."""

    def __init__(
        self,
        world: World,
        names: Address,
        faults: CoordinatorFaults,
        *,
        sync: bool,
        min_in_sync: int | None = None,
        disks: Mapping[int, DiskProfile] | None = None,
    ) -> None:
        self.world = world
        self.coordinator = SimCoordinator(world.split_rng("coordinator"), faults)
        nodes = {number: world.node(f"broker{number}", disk=(disks or {}).get(number)) for number in (1, 2, 3)}
        self.members = {
            number: Member(node, settings(number, names, sync=sync, min_in_sync=min_in_sync), self.coordinator)
            for number, node in nodes.items()
        }
        self.caller = Caller(world.node("client").network)
        self.acked: list[bytes] = []
        self.sent = 0

    def start(self) -> None:
        for member in self.members.values():
            member.node.start(member.run)

    @property
    def state(self) -> GroupState | None:
        return decode(self.coordinator.snapshot()).group

    @property
    def states(self) -> list[GroupState]:
        """Every state that the group has had."""
        found = [decode(GroupSnapshot(value, {})).group for value in self.coordinator.backups]
        return [state for state in found if state is not None]

    async def until_in_sync(self, count: int, seconds: float = 120.0) -> GroupState:
        async with asyncio.timeout(seconds):
            while (state := self.state) is None or len(state.iss) < count or not state.epoch:  # noqa: ASYNC110
                await asyncio.sleep(0.1)
        return state

    async def until_out(self, replica: int, seconds: float = 120.0) -> None:
        """Wait until a replica has left the in-sync set."""
        async with asyncio.timeout(seconds):
            while (state := self.state) is None or replica in state.iss:  # noqa: ASYNC110
                await asyncio.sleep(0.1)

    async def until_in(self, replica: int, seconds: float = 120.0) -> None:
        """Wait until a replica is in the in-sync set."""
        async with asyncio.timeout(seconds):
            while (state := self.state) is None or replica not in state.iss:  # noqa: ASYNC110
                await asyncio.sleep(0.1)

    async def send(self) -> bool:
        """Send one message to whoever takes it; return whether it was acknowledged."""
        body = b"%08d" % self.sent
        self.sent += 1
        for member in self.members.values():
            try:
                reply = await self.caller.call(Address(member.node.host, PORT), a_send(), body, timeout_ms=1_000)
            except FireArrowError:
                continue
            if reply.code == 0:
                self.acked.append(body)
                return True
        await asyncio.sleep(0.1)
        return False

    async def send_until(self, count: int, seconds: float = 180.0) -> None:
        wanted = len(self.acked) + count
        async with asyncio.timeout(seconds):
            while len(self.acked) < wanted:
                await self.send()

    async def stored(self) -> list[bytes]:
        """Everything that a consumer finds at the present master."""
        state = await self.until_in_sync(3)
        client = Client(self.world.node("reader"), Address(self.members[state.master].node.host, PORT))
        found: list[bytes] = []
        async with asyncio.timeout(60):
            while True:
                messages = await client.stored(offset=len(found))
                if not messages and len(found) >= len(self.acked):
                    return found
                found += [message.body for message in messages]


async def strike(group: Group, fault: str) -> None:
    """Let something happen to the master, send on, and mend it."""
    state = group.state
    assert state is not None
    node = group.members[state.master].node
    await happen(group, fault, state.master)
    await group.send_until(20)
    async with asyncio.timeout(60):
        while fault != "cut off from the coordinator" and (group.state or state).epoch == state.epoch:
            await group.send()
    group.coordinator.heal()
    group.world.network.heal()
    node.image.mend()
    if fault == "freeze":
        node.thaw()
    elif fault == "failed sync":
        await node.finished()
        await node.lose_disk()
        await node.restart()
    elif fault in ("crash", "power_loss"):
        await node.restart()


async def happen(group: Group, fault: str, master: int) -> None:
    node = group.members[master].node
    if fault == "crash":
        await node.crash()
    elif fault == "power_loss":
        await node.power_loss()
    elif fault == "freeze":
        node.freeze()
    elif fault == "isolate":
        group.world.network.isolate(node.name)
    elif fault == "cut off from the slaves":
        slaves = [member.node.name for number, member in group.members.items() if number != master]
        group.world.network.partition([node.name], slaves)
    elif fault == "full disk":
        node.image.leave_free(0)
    elif fault == "failed sync":
        node.image.fail("sync", below="commitlog")
    if fault in ("cut off from the coordinator", "isolate"):
        group.coordinator.cut(master)


def run(seed: int, fault: str, *, sync: bool, faults: CoordinatorFaults) -> None:
    async def scenario(world: World) -> None:
        names = await Names(world.node("names")).start()
        group = Group(world, names, faults, sync=sync)
        group.start()
        await group.until_in_sync(3)
        await group.send_until(20)
        for _ in range(2):
            await group.until_in_sync(3)
            before = group.state
            await strike(group, fault)
            after = await group.until_in_sync(3)
            assert before is not None
            assert after.epoch > before.epoch or fault == "cut off from the coordinator"
        await group.send_until(10)
        found = await group.stored()
        assert [body for body in group.acked if body not in set(found)] == []
        assert [body for body in found if body in set(group.acked)] == group.acked

    world = World(seed)
    if fault in ("full disk", "failed sync"):
        world.expected = (DiskError,)
    world.run(scenario)


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("sync", [True, False])
def test_nothing_acknowledged_is_lost(fault: str, sync: bool) -> None:
    run(1, fault, sync=sync, faults=CoordinatorFaults())


@pytest.mark.parametrize("fault", FAULTS)
def test_nothing_acknowledged_is_lost_when_the_coordinator_lies(fault: str) -> None:
    run(2, fault, sync=True, faults=LIES)


def lose_a_master_without_slaves(seed: int) -> None:
    """The master takes messages that its slaves cannot get, and loses power."""

    async def scenario(world: World) -> None:
        group = Group(world, await Names(world.node("names")).start(), CoordinatorFaults(), sync=True)
        group.start()
        state = await group.until_in_sync(3)
        await group.send_until(5)
        nodes = {number: member.node for number, member in group.members.items()}
        master = nodes.pop(state.master)
        world.network.partition([master.name], [node.name for node in nodes.values()])
        for _ in range(5):
            await group.send()
        await master.power_loss()
        world.network.heal()
        await group.send_until(5)
        await master.restart()
        found = set(await group.stored())
        assert [body for body in group.acked if body not in found] == []

    World(seed).run(scenario)


def test_a_master_whose_slaves_get_nothing_acknowledges_nothing() -> None:
    lose_a_master_without_slaves(3)


def test_a_master_that_answers_for_itself_alone_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_master, "confirmed", lambda _in_sync, kept, _copies: kept)
    with pytest.raises((AssertionError, TimeoutError)):
        lose_a_master_without_slaves(3)


def read_at_a_new_master() -> None:
    """A message is on the master and on one slave; that slave leads next, and the other one lacks the message."""

    async def scenario(world: World) -> None:
        group = Group(world, await Names(world.node("names")).start(), CoordinatorFaults(), sync=True)
        group.start()
        state = await group.until_in_sync(3)
        await group.send_until(5)
        nodes = {number: member.node for number, member in group.members.items()}
        has, lacks = (number for number in nodes if number != state.master)
        world.network.isolate(nodes[lacks].name)
        group.coordinator.cut(lacks)
        await group.send()
        assert len(group.acked) == 5
        await nodes[state.master].crash()
        reader = Client(world.node("early reader"), Address(nodes[has].host, PORT))
        for _ in range(100):
            await asyncio.sleep(0.1)
            with suppress(FireArrowError):
                found = [message.body for message in await reader.stored()]
                assert found == group.acked, "a consumer has seen an unconfirmed message"
        after = group.state
        assert after is not None
        assert (after.master, lacks in after.iss) == (has, True)
        world.network.heal()
        group.coordinator.heal()
        await nodes[state.master].restart()
        await group.send_until(5)
        assert len(await group.stored()) == 11

    World(4).run(scenario)


def test_a_new_master_shows_nothing_that_another_in_sync_lacks() -> None:
    read_at_a_new_master()


def cut_after_a_switch() -> None:
    """The master has bytes that nobody else has, and another one leads next: the files are cut, not only the end."""

    async def scenario(world: World) -> None:
        group = Group(world, await Names(world.node("names")).start(), CoordinatorFaults(), sync=True)
        group.start()
        state = await group.until_in_sync(3)
        await group.send_until(5)
        nodes = {number: member.node for number, member in group.members.items()}
        master = nodes.pop(state.master)
        world.network.partition([master.name], [node.name for node in nodes.values()])
        group.coordinator.cut(state.master)
        for _ in range(3):
            await group.send()
        await master.crash()
        world.network.heal()
        group.coordinator.heal()
        await group.send_until(1)
        await master.restart()
        await group.until_in_sync(3)
        await asyncio.sleep(5)
        same = await files(next(iter(nodes.values())))
        assert await files(master) == same, "the log has stale bytes behind its cut"

    World(5).run(scenario)


def test_a_cut_leaves_no_stale_bytes() -> None:
    cut_after_a_switch()


def start_one_that_lacks_messages() -> None:
    """A slave has left the in-sync set and lacks messages, and the others die: it must wait for one of them."""

    async def scenario(world: World) -> None:
        group = Group(world, await Names(world.node("names")).start(), CoordinatorFaults(), sync=True)
        group.start()
        state = await group.until_in_sync(3)
        nodes = {number: member.node for number, member in group.members.items()}
        lacks = next(number for number in nodes if number != state.master)
        world.network.isolate(nodes[lacks].name)
        group.coordinator.cut(lacks)
        await group.send_until(5)
        for number, node in nodes.items():
            if number != lacks:
                await node.crash()
        world.network.heal()
        group.coordinator.heal()
        for _ in range(10):
            await asyncio.sleep(1)
            state = group.state or state
            assert state.master != lacks, "a replica that is not in sync leads"
        for number, node in nodes.items():
            if number != lacks:
                await node.restart()
        await group.send_until(1)
        found = set(await group.stored())
        assert [body for body in group.acked if body not in found] == []

    World(6).run(scenario)


def test_a_replica_that_lacks_messages_is_not_elected() -> None:
    start_one_that_lacks_messages()


def send_without_the_coordinator() -> None:
    """A master and one slave see neither the coordinator nor the other slave, which is elected meanwhile."""

    async def scenario(world: World) -> None:
        group = Group(world, await Names(world.node("names")).start(), CoordinatorFaults(), sync=True)
        group.start()
        state = await group.until_in_sync(3)
        await group.send_until(5)
        other, chosen = (number for number in group.members if number != state.master)
        pair = [group.members[number].node.name for number in (state.master, other)]
        world.network.partition(pair, [group.members[chosen].node.name])
        group.coordinator.cut(state.master, other)
        began = world.loop.time()
        while world.loop.time() < began + 10:  # the elected one gathers slaves for longer, and does not hand over
            await group.send()
        world.network.heal()
        group.coordinator.heal()
        await group.send_until(5)
        found = set(await group.stored())
        lost = [body for body in group.acked if body not in found]
        assert not lost, f"{len(lost)} acknowledged messages are lost"

    World(7).run(scenario)


def test_a_master_that_sees_no_coordinator_keeps_its_in_sync_set() -> None:
    send_without_the_coordinator()


def test_name_servers_refuse_a_master_that_was_replaced() -> None:
    """A frozen master goes on after it was replaced, and registers before it hears of that."""

    async def scenario(world: World) -> None:
        names = await Names(world.node("names")).start()
        group = Group(world, names, CoordinatorFaults(), sync=True)
        group.start()
        state = await group.until_in_sync(3)
        await group.send_until(5)
        group.members[state.master].node.freeze()
        group.coordinator.cut(state.master)
        await asyncio.sleep(REGISTRATION_S)
        await group.send_until(5)
        after = group.state
        assert after is not None
        address = f"{group.members[after.master].node.host}:{PORT}"
        group.members[state.master].node.thaw()
        for _ in range(100):
            brokers = (await route(group.caller, names, a_send().topic)).broker_datas
            assert [broker.broker_addrs.get(0) for broker in brokers] == [address], "clients go to the old master"
            await asyncio.sleep(0.1)

    World(8).run(scenario)
