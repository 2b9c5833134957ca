"""Settings that an operator changes at the members of an elected group, whichever part they have."""

import asyncio

import pytest

from firearrow.errors import FireArrowError, RequestRefused
from firearrow.protocol.requests.admin.config import GetBrokerConfig, UpdateBrokerConfig
from firearrow.runtime.network import Address
from firearrow.testing.sim.coordinator import CoordinatorFaults
from firearrow.testing.sim.world import World
from tests.unit.broker.test_failover_group import Group
from tests.unit.broker.whole import PORT, Client, Names

CHANGE = b"fileReservedTime=7"


def change_settings_of_all_members() -> None:
    """An operator changes a setting at every member; the master dies, and the next one has the change, too."""

    async def scenario(world: World) -> None:
        group = Group(world, await Names(world.node("names")).start(), CoordinatorFaults(), sync=True)
        group.start()
        state = await group.until_in_sync(3)
        client = Client(world.node("operator"), Address(group.members[state.master].node.host, PORT))
        with pytest.raises(RequestRefused, match="slaveReadEnable"):
            await client.ask(UpdateBrokerConfig(), b"slaveReadEnable=true")
        for member in group.members.values():
            client.broker = Address(member.node.host, PORT)
            await client.ask(UpdateBrokerConfig(), CHANGE)
        await group.send_until(5)
        await group.members[state.master].node.crash()
        await group.send_until(5)
        assert group.state is not None
        client.broker = Address(group.members[group.state.master].node.host, PORT)
        async with asyncio.timeout(60):
            while CHANGE not in await _settings(client):  # noqa: ASYNC110 - the master may not serve yet
                await asyncio.sleep(0.5)
        await client.ask(UpdateBrokerConfig(), b"fileReservedTime=8")

    World(1).run(scenario)


async def _settings(client: Client) -> bytes:
    try:
        return bytes((await client.ask(GetBrokerConfig())).body)
    except FireArrowError:
        return b""


def test_settings_are_changed_at_the_master_of_a_group_and_at_the_next_one() -> None:
    change_settings_of_all_members()
