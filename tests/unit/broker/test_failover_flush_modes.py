"""Groups whose members are started again with another flush mode: the mode of the lost run counts."""

import asyncio

from msgspec.structs import replace

from firearrow.errors import RequestRefused
from firearrow.testing.sim.coordinator import CoordinatorFaults
from firearrow.testing.sim.disk import DiskProfile
from firearrow.testing.sim.world import World
from tests.unit.broker.test_failover_group import Group, Member
from tests.unit.broker.whole import Names

SETTLED_S = 30.0
"""Longer than an election takes."""


def with_flush_mode(member: Member, mode: str) -> None:
    """Start a member with another flush mode from now on."""
    member.settings = replace(member.settings, log=replace(member.settings.log, flush_disk_type=mode))


def sync_after_a_power_loss_without() -> None:
    """All lose power under ASYNC_FLUSH, two of them their last records; they start first, with SYNC_FLUSH."""

    async def scenario(world: World) -> None:
        group = Group(world, await Names(world.node("names")).start(), CoordinatorFaults(), sync=False)
        group.start()
        state = await group.until_in_sync(3)
        await group.send_until(20)
        keeper = group.members[state.master]
        losers = [member for member in group.members.values() if member is not keeper]
        for loser in losers:
            await loser.node.power_loss()
        await keeper.node.crash()
        for member in group.members.values():
            with_flush_mode(member, "SYNC_FLUSH")
        for loser in losers:
            loser.node.start(loser.run)
        await asyncio.sleep(SETTLED_S)
        keeper.node.start(keeper.run)
        try:
            found = await group.stored()
        except (TimeoutError, RequestRefused):  # even the topic may be gone
            found = []
        lost = [body for body in group.acked if body not in found]
        assert not lost, "acknowledged messages are lost"

    World(1, disks=DiskProfile(write_back_chance=0.0)).run(scenario)


def test_members_that_sync_now_do_not_elect_themselves_after_a_run_that_did_not() -> None:
    sync_after_a_power_loss_without()


def test_members_that_synced_elect_themselves_whatever_they_do_now() -> None:
    async def scenario(world: World) -> None:
        group = Group(world, await Names(world.node("names")).start(), CoordinatorFaults(), sync=True)
        group.start()
        await group.until_in_sync(3)
        await group.send_until(20)
        for member in group.members.values():
            await member.node.power_loss()
            with_flush_mode(member, "ASYNC_FLUSH")
        group.start()
        await group.send_until(5)
        found = await group.stored()
        assert [body for body in group.acked if body not in found] == []

    World(1, disks=DiskProfile(write_back_chance=0.0)).run(scenario)
