"""The replicas that acknowledge: a slave that has synced, and a directory that the group knows. On simulated
machines."""

import asyncio

import pytest

from firearrow.errors import FireArrowError
from firearrow.runtime.network import Address
from firearrow.testing.sim.coordinator import CoordinatorFaults
from firearrow.testing.sim.world import World
from tests.unit.broker.test_failover_group import Group, Member, settings
from tests.unit.broker.whole import PORT, Client, Names, a_send

SLOW_SYNC_S = 0.8
FEW = 20
"""Changes of a group that needs about fifteen."""


def reset_connections_while_slaves_sync(seed: int) -> None:
    """Connections are reset while slaves sync; then the power of all fails, and the slaves come back first."""

    async def scenario(world: World) -> None:
        group = Group(world, await Names(world.node("names")).start(), CoordinatorFaults(), sync=True)
        group.start()
        state = await group.until_in_sync(3)
        await group.send_until(20)
        nodes = {number: member.node for number, member in group.members.items()}
        master = nodes.pop(state.master)
        for node in nodes.values():
            node.image.slow("commitlog", SLOW_SYNC_S)
        sending = asyncio.create_task(
            group.caller.call(Address(master.host, PORT), a_send(), b"precious", timeout_ms=5_000)
        )
        await asyncio.sleep(0.2)
        for node in nodes.values():
            world.network.reset(master.name, node.name)
        done, _ = await asyncio.wait([sending], timeout=0.45)
        is_acknowledged = bool(done) and sending.result().code == 0
        for node in (master, *nodes.values()):
            await node.power_loss()
        sending.cancel()
        for node in nodes.values():
            node.image.mend()
            await node.restart()
        await group.send_until(5)
        await master.restart()
        assert not is_acknowledged or b"precious" in await group.stored(), "an acknowledged message is lost"

    World(seed).run(scenario)


@pytest.mark.parametrize("seed", range(1, 9))
def test_a_slave_that_connects_again_acknowledges_nothing_that_is_not_synced(seed: int) -> None:
    reset_connections_while_slaves_sync(seed)


@pytest.mark.parametrize("seed", range(1, 7))
def test_a_replica_that_was_replaced_comes_back_as_a_new_one(seed: int) -> None:
    """A machine dies and another takes its id; the old one boots again with its old directory; then the master dies."""

    async def scenario(world: World) -> None:
        names = await Names(world.node("names")).start()
        group = Group(world, names, CoordinatorFaults(), sync=True)
        group.start()
        state = await group.until_in_sync(3)
        await group.send_until(10)
        replaced, other = (number for number in group.members if number != state.master)
        old = group.members[replaced]
        await old.node.crash()
        async with asyncio.timeout(60):
            while group.state is not None and replaced in group.state.iss:
                await group.send()
        new = Member(world.node("replacement"), settings(replaced, names, sync=True), group.coordinator)
        new.node.start(new.run)
        group.members[replaced] = new
        await group.until_in_sync(3)
        await group.send_until(10)
        await group.members[other].node.stop()
        await group.send_until(10)
        old.node.start(old.run)
        await asyncio.sleep((0.5, 2.0, 4.0, 0.2)[seed % 4])
        await group.members[state.master].node.crash()
        async with asyncio.timeout(120):
            while group.state is None or group.state.epoch == state.epoch:  # noqa: ASYNC110
                await asyncio.sleep(0.1)
        await asyncio.sleep(8)
        for number in (state.master, other):
            await group.members[number].node.restart()
        await group.send_until(3)
        await asyncio.sleep(15)
        nodes = [*(member.node for member in group.members.values()), old.node]
        read = {node.name: await _read(group, node.host) for node in nodes}
        serving = {name: found for name, found in read.items() if found is not None}
        assert len(serving) == 1, serving.keys()
        (found,) = serving.values()
        assert group.state is not None
        assert group.state.iss_seq < FEW, "two directories fight for one id"
        assert [body for body in group.acked if body not in set(found)] == []

    World(seed).run(scenario)


async def _read(group: Group, host: str) -> list[bytes] | None:
    """Return everything that a consumer finds at a broker; None where it does not serve as a master."""
    client, found = Client(group.world.node(f"reader of {host}"), Address(host, PORT)), list[bytes]()
    try:
        while page := await client.stored(offset=len(found)):
            found += [message.body for message in page]
    except FireArrowError:
        return None
    return found
