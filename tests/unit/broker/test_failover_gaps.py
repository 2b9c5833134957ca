"""The gap in which a group on simulated machines takes no message after a fault; without a fault it keeps its
master."""

import asyncio

import pytest
from msgspec.structs import replace

from firearrow.broker.failover.group_part import GroupPart
from firearrow.broker.metrics.metrics import NO_PART
from firearrow.errors import DiskError
from firearrow.testing.sim.coordinator import CoordinatorFaults
from firearrow.testing.sim.world import World
from tests.unit.broker.test_failover_group import LEASE_S, Group, happen
from tests.unit.broker.test_metrics import SHOWN, get
from tests.unit.broker.whole import Names

MOST_S = LEASE_S + 2
CATCH_UP_S = 15
SLOW_S = 4.6
"""Seconds between two messages: longer than a lease, shorter than the slaves' own reports."""


async def running(world: World) -> Group:
    group = Group(world, await Names(world.node("names")).start(), CoordinatorFaults(), sync=True)
    group.start()
    await group.until_in_sync(3)
    await group.send_until(5)
    return group


async def gap_s(group: Group) -> float:
    """Send on; return the time until the group has taken a message and then ten more."""
    begin = asyncio.get_running_loop().time()
    await group.send_until(1)
    found = asyncio.get_running_loop().time() - begin
    await group.send_until(10)
    return found


@pytest.mark.parametrize("fault", ["crash", "freeze", "cut off from the slaves", "full disk"])
def test_the_second_of_two_faults_is_not_slower(fault: str) -> None:
    async def scenario(world: World) -> None:
        group = await running(world)
        first = await group.until_in_sync(3)
        await group.members[first.master].node.crash()
        await group.send_until(5)
        await group.members[first.master].node.restart()
        second = await group.until_in_sync(3)
        assert second.master != first.master
        await happen(group, fault, second.master)
        assert await gap_s(group) <= MOST_S

    world = World(4)
    if fault == "full disk":
        world.expected = (DiskError,)
    world.run(scenario)


@pytest.mark.parametrize(("apart_s", "most_s"), [(0.01, MOST_S), (1.0, MOST_S), (2.0, 12), (30.0, 12)])
def test_a_master_that_loses_its_slaves_one_after_the_other_hands_over(apart_s: float, most_s: float) -> None:
    async def scenario(world: World) -> None:
        group = await running(world)
        state = await group.until_in_sync(3)
        master, *slaves = sorted(group.members, key=lambda number: number != state.master)
        sending = asyncio.create_task(group.send_until(10_000_000))
        for slave in slaves:
            world.network.partition([group.members[master].node.name], [group.members[slave].node.name])
            await asyncio.sleep(apart_s if slave == slaves[0] else 0)
        sending.cancel()
        assert await gap_s(group) <= most_s
        assert group.state is not None
        assert group.state.master != master

    World(7).run(scenario)


def freeze_a_slave() -> None:
    async def scenario(world: World) -> None:
        group = await running(world)
        state = await group.until_in_sync(3)
        slave = next(number for number in group.members if number != state.master)
        group.members[slave].node.freeze()
        assert await gap_s(group) <= MOST_S, "sends wait too long"
        assert group.state is not None
        assert (group.state.epoch, slave in group.state.iss) == (state.epoch, False)
        group.members[slave].node.thaw()
        await group.until_in_sync(3)

    World(5).run(scenario)


def test_a_frozen_slave_leaves_the_in_sync_set_after_a_lease() -> None:
    freeze_a_slave()


@pytest.mark.parametrize("fault", ["full disk", "failed sync"])
def test_a_slave_whose_disk_fails_leaves_the_in_sync_set(fault: str) -> None:
    async def scenario(world: World) -> None:
        group = await running(world)
        state = await group.until_in_sync(3)
        slave = next(number for number in group.members if number != state.master)
        await happen(group, fault, slave)
        assert await gap_s(group) <= MOST_S
        for _ in range(100):
            assert await gap_s(group) <= MOST_S
        assert group.state is not None
        assert slave not in group.state.iss

    world = World(8)
    world.expected = (DiskError,)
    world.run(scenario)


def fail_the_disk_of_a_slave_that_does_not_tell() -> None:
    """It comes and goes: whenever it is sent something, its disk fails at once."""

    async def scenario(world: World) -> None:
        group = await running(world)
        state = await group.until_in_sync(3)
        await happen(group, "failed sync", next(number for number in group.members if number != state.master))
        assert await gap_s(group) <= CATCH_UP_S + 2, "sends wait too long"

    world = World(8)
    world.expected = (DiskError,)
    world.run(scenario)


def test_a_slave_that_comes_and_goes_is_not_in_sync_for_that(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(GroupPart, "_know_ailing", lambda _self, _master: None)
    fail_the_disk_of_a_slave_that_does_not_tell()


def test_a_group_with_few_messages_keeps_its_master_and_its_set() -> None:
    async def scenario(world: World) -> None:
        group = await running(world)
        state = await group.until_in_sync(3)
        assert state.epoch == 1
        for _ in range(60):
            await asyncio.sleep(SLOW_S)
            assert await group.send()
        assert group.state == state

    World(6).run(scenario)


def test_a_replica_without_a_part_is_live_and_not_ready() -> None:
    async def scenario(world: World) -> None:
        group = Group(world, await Names(world.node("names")).start(), CoordinatorFaults(), sync=True)
        for member in group.members.values():
            member.settings = replace(member.settings, operation=SHOWN)
        group.start()
        state = await group.until_in_sync(3)
        await group.send_until(5)
        visitor, node = world.node("prober"), group.members[state.master].node
        assert await get(visitor, node.host, "/health/ready") == (200, "ready\n")
        group.coordinator.cut(1, 2, 3)
        await node.restart()
        await asyncio.sleep(LEASE_S)
        assert await get(visitor, node.host, "/health/live") == (200, "live\n")
        assert await get(visitor, node.host, "/health/ready") == (503, f"not ready: {NO_PART}\n")
        group.coordinator.heal()
        await group.until_in_sync(3)
        await group.send_until(5)
        for member in group.members.values():
            assert await get(visitor, member.node.host, "/health/ready") == (200, "ready\n")

    World(11).run(scenario)
