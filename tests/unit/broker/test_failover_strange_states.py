"""A state out of range at the coordinator: nobody obeys it, nobody dies of it, and an operator replaces it."""

import asyncio

import pytest
from msgspec.structs import replace

from firearrow.broker.failover.elections import (
    LARGEST_CHOSEN,
    GroupNews,
    OwnState,
    WaitStep,
    elected_by_name,
    next_step,
)
from firearrow.broker.failover.group_values import encode
from firearrow.errors import SettingsError
from firearrow.model.epochs import LARGEST_EPOCH
from firearrow.model.group_state import GroupState, ReplicaPromise
from firearrow.testing.sim.coordinator import CoordinatorFaults
from firearrow.testing.sim.world import World
from tests.unit.broker.test_failover_group import LEASE_S, Group
from tests.unit.broker.whole import Names


def begin_an_epoch_that_is_too_large() -> None:
    """Somebody writes a state with an epoch that no file can hold."""

    async def scenario(world: World) -> None:
        group = Group(world, await Names(world.node("names")).start(), CoordinatorFaults(), sync=True)
        group.start()
        state = await group.until_in_sync(3)
        await group.send_until(5)
        raw = group.coordinator.snapshot().group
        wrong = replace(state, epoch=3_000_000_000, iss=(state.master,), iss_seq=state.iss_seq + 1, by_name=True)
        assert group.coordinator.swap(raw, encode(wrong))
        await asyncio.sleep(3 * LEASE_S)
        dead = [number for number, member in group.members.items() if not member.node.running]
        assert not dead, f"replicas {dead} died of a state out of range"
        await group.send_until(5)
        new = elected_by_name(state, state.master, state.epoch + 1)
        assert group.coordinator.swap(encode(wrong), encode(new))
        await group.send_until(5)
        found = await group.stored()
        assert [body for body in group.acked if body not in found] == []

    World(1).run(scenario)


@pytest.mark.complaints("out of range|does not answer")
def test_a_state_out_of_range_is_obeyed_by_nobody_and_kills_nobody() -> None:
    begin_an_epoch_that_is_too_large()


def test_an_operator_cannot_begin_an_epoch_that_leaves_none_for_elections() -> None:
    group = GroupState(epoch=4, master=1, iss=(1, 2, 3), iss_seq=9, min_iss=2)
    assert elected_by_name(group, 1, LARGEST_CHOSEN).is_sound
    with pytest.raises(SettingsError, match="leaves too few epochs"):
        elected_by_name(group, 1, LARGEST_CHOSEN + 1)


def test_the_last_epoch_of_all_is_followed_by_none() -> None:
    group = GroupState(epoch=LARGEST_EPOCH, master=1, iss=(1, 2, 3), iss_seq=9, min_iss=2, directories=((2, 5),))
    own = OwnState(2, ReplicaPromise(LARGEST_EPOCH, 1), directory=5)
    step = next_step(own, GroupNews(group, frozenset({2, 3})), 2)
    assert isinstance(step, WaitStep)
    assert step.is_trouble
