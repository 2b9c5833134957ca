"""Orderly ends of brokers of a group on simulated machines: nobody waits for a lease, and nothing is lost or twice."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from firearrow.broker import group_broker
from firearrow.broker.failover.elections import OwnState, handed_over, left
from firearrow.errors import FireArrowError
from firearrow.model.group_state import GroupState, ReplicaPromise
from firearrow.runtime.network import Address
from firearrow.testing.sim.coordinator import CoordinatorFaults
from firearrow.testing.sim.world import World
from tests.unit.broker.test_failover_group import LEASE_S, Group
from tests.unit.broker.whole import PORT, Names, a_send

GROUP = GroupState(epoch=3, master=2, iss=(1, 2, 3), iss_seq=7, min_iss=2)
Story = Callable[[World, Group], Coroutine[Any, Any, set[bytes]]]
"""Returns messages whose sends nobody answered."""


def tell(seed: int, story: Story) -> None:
    async def scenario(world: World) -> None:
        group = Group(world, await Names(world.node("names")).start(), CoordinatorFaults(), sync=True)
        group.start()
        await group.until_in_sync(3)
        await group.send_until(20)
        unanswered = await story(world, group)
        await group.until_in_sync(3)
        found = await group.stored()
        assert [body for body in group.acked if body not in set(found)] == []
        assert len(found) == len(set(found))
        assert not unanswered & set(found), "a message was stored and its send not answered"

    World(seed).run(scenario)


class Crowd:
    """Many producers beside each other: at every moment some of their messages wait for slaves."""

    def __init__(self, group: Group) -> None:
        self._group = group
        self.unanswered: set[bytes] = set()

    async def run(self, producer: int, address: Address) -> None:
        """Send until the master is gone."""
        for number in range(1000):
            body = b"%d-%d" % (producer, number)
            try:
                reply = await self._group.caller.call(address, a_send(), body, timeout_ms=3_000)
            except FireArrowError:
                self.unanswered.add(body)
                return
            assert reply.code == 0, "the master answered for something that it does not know"
            self._group.acked.append(body)


async def the_master_is_stopped(world: World, group: Group) -> set[bytes]:
    state = group.state
    assert state is not None
    node, crowd = group.members[state.master].node, Crowd(group)
    async with asyncio.TaskGroup() as tasks:
        for producer in range(30):
            tasks.create_task(crowd.run(producer, Address(node.host, PORT)))
        await asyncio.sleep(0.2)
        began = world.loop.time()
        await node.stop()
    after = group.state
    assert after is not None
    assert after.epoch == state.epoch + 1
    assert after.master != state.master
    assert after.iss == tuple(sorted({1, 2, 3} - {state.master}))
    await group.send_until(1)
    assert world.loop.time() - began < LEASE_S / 2
    await node.restart()
    return crowd.unanswered


def test_a_master_that_is_stopped_hands_over() -> None:
    tell(1, the_master_is_stopped)


def _tell_several(story: Story) -> None:
    for seed in range(1, 9):
        tell(seed, story)


def test_a_master_that_only_ends_is_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    async def leaves_nothing(_self: object) -> None:
        """Leave the part to whoever notices."""

    monkeypatch.setattr(group_broker.GroupBroker, "_leave", leaves_nothing)
    with pytest.raises(AssertionError, match="was stored and its send not answered"):
        _tell_several(the_master_is_stopped)


async def a_slave_is_stopped(world: World, group: Group) -> set[bytes]:
    state = group.state
    assert state is not None
    slave = next(number for number in group.members if number != state.master)
    sending = asyncio.create_task(group.send_until(200))
    await asyncio.sleep(0.2)
    began = world.loop.time()
    await group.members[slave].node.stop()
    await group.send_until(1)
    assert world.loop.time() - began < LEASE_S / 2
    after = group.state
    assert after is not None
    assert (after.epoch, after.master, slave in after.iss) == (state.epoch, state.master, False)
    await sending
    await group.members[slave].node.restart()
    return set()


def test_a_slave_that_is_stopped_leaves_the_set() -> None:
    tell(2, a_slave_is_stopped)


async def all_are_stopped(_world: World, group: Group) -> set[bytes]:
    for member in group.members.values():
        await member.node.stop()
    for member in group.members.values():
        await member.node.restart()
    await group.send_until(1)
    return set()


def test_a_group_that_is_stopped_whole_comes_back() -> None:
    tell(3, all_are_stopped)


def test_only_the_master_of_the_epoch_hands_over_to_one_in_sync() -> None:
    own = OwnState(2, ReplicaPromise(3, 2), leads=3)
    new = handed_over(own, GROUP, 1)
    assert new is not None
    assert (new.epoch, new.master, new.iss, new.iss_seq) == (4, 1, (1, 3), 8)
    assert handed_over(own, GROUP, 4) is None
    assert handed_over(OwnState(2, ReplicaPromise(2, 2), leads=2), GROUP, 1) is None
    assert handed_over(OwnState(1, ReplicaPromise(3, 2)), GROUP, 3) is None


def test_a_slave_leaves_unless_too_few_would_stay() -> None:
    own = OwnState(1, ReplicaPromise(3, 2))
    new = left(own, GROUP)
    assert new is not None
    assert (new.epoch, new.master, new.iss, new.iss_seq) == (3, 2, (2, 3), 8)
    assert left(OwnState(2, ReplicaPromise(3, 2), leads=3), GROUP) is None
    assert left(OwnState(4, ReplicaPromise(3, 2)), GROUP) is None
    assert left(own, GroupState(epoch=3, master=2, iss=(1, 2), iss_seq=7, min_iss=2)) is None
