"""Rot in the log of a master is mended with the bytes of a slave. On simulated machines."""

import asyncio

import pytest

from firearrow.broker.replication.mending import RecordMender
from firearrow.errors import FireArrowError
from firearrow.runtime.network import Address
from firearrow.testing.sim.coordinator import CoordinatorFaults
from firearrow.testing.sim.world import World
from tests.unit.broker.test_failover_group import Group
from tests.unit.broker.test_replication import files
from tests.unit.broker.whole import PORT, Client, Names

LOG = "commitlog/00000000000000000000"


def rot_a_record_of_the_master() -> None:
    """One bit of a body changes on the master's disk; a consumer asks for the message until it is whole again."""

    async def scenario(world: World) -> None:
        group = Group(world, await Names(world.node("names")).start(), CoordinatorFaults(), sync=True)
        group.start()
        state = await group.until_in_sync(3)
        await group.send_until(30)
        node = group.members[state.master].node
        wanted = group.acked[12]
        node.image.rot(LOG, (await files(node))["00000000000000000000"].index(wanted), 0)
        client, found = Client(world.node("reader"), Address(node.host, PORT)), list[bytes]()
        async with asyncio.timeout(120):
            while wanted not in found:
                try:
                    found = [message.body for message in await client.stored(offset=0)]
                except FireArrowError:
                    found = []
                await asyncio.sleep(1)
        assert found == group.acked
        assert (await files(node))["00000000000000000000"].count(wanted) == 1

    World(3).run(scenario)


def test_a_record_that_rots_on_a_master_is_fetched_from_a_slave() -> None:
    rot_a_record_of_the_master()


def test_rot_stays_where_nobody_mends(monkeypatch: pytest.MonkeyPatch) -> None:
    async def nothing(_self: RecordMender) -> None:
        await asyncio.get_running_loop().create_future()

    monkeypatch.setattr(RecordMender, "run", nothing)
    with pytest.raises(TimeoutError):
        rot_a_record_of_the_master()
