"""A member of a group that was killed while its disk was full: it starts, waits for space, and joins again."""

import asyncio

import pytest

from firearrow.testing.sim.coordinator import CoordinatorFaults
from firearrow.testing.sim.world import World
from tests.unit.broker.test_failover_group import LEASE_S, Group
from tests.unit.broker.whole import Names


def start_on_a_full_disk() -> None:
    """A slave is killed on a full disk and started before there is space."""

    async def scenario(world: World) -> None:
        group = Group(world, await Names(world.node("names")).start(), CoordinatorFaults(), sync=True)
        group.start()
        state = await group.until_in_sync(3)
        await group.send_until(5)
        slave = next(member for number, member in group.members.items() if number != state.master)
        slave.node.image.leave_free(0)
        await slave.node.crash()
        slave.node.start(slave.run)
        await asyncio.sleep(3 * LEASE_S)
        assert slave.node.running, "the member ended because of a full disk"
        await group.send_until(5)
        slave.node.image.mend()
        found = await group.stored()
        assert [body for body in group.acked if body not in found] == []

    World(1).run(scenario)


@pytest.mark.complaints("takes no part for now")
def test_a_member_killed_on_a_full_disk_starts_and_joins_when_there_is_space() -> None:
    start_on_a_full_disk()


def fill_the_disk_of_a_slave() -> None:
    """The disk of a slave is full while it copies the log, and has space again later; nobody starts it anew."""

    async def scenario(world: World) -> None:
        group = Group(world, await Names(world.node("names")).start(), CoordinatorFaults(), sync=False)
        group.start()
        state = await group.until_in_sync(3)
        await group.send_until(5)
        slave = next(member for number, member in group.members.items() if number != state.master)
        slave.node.image.leave_free(0)
        async with asyncio.timeout(180):
            while group.state is not None and len(group.state.iss) == 3:
                await group.send()
        slave.node.image.mend()
        try:
            await group.until_in_sync(3, 60)
        except TimeoutError:
            raise AssertionError(f"the slave does not join again: {group.state}") from None

    World(1).run(scenario)


@pytest.mark.complaints("takes no part for now")
def test_a_slave_whose_disk_was_full_joins_again_by_itself() -> None:
    fill_the_disk_of_a_slave()
