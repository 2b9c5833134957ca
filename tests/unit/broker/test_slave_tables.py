"""The tables of a slave are copies: clients commit nothing there in an elected group, and make no group or topic."""

import asyncio
from typing import Any, cast

import pytest

from firearrow.broker.gate.promises import of_slave
from firearrow.errors import RequestRefused
from firearrow.fastjson import decode
from firearrow.protocol.bodies.admin.topic import TopicConfigAndMappingTable
from firearrow.protocol.bodies.body import encode_body
from firearrow.protocol.bodies.group.group import SubscriptionGroupConfig, SubscriptionGroupTable
from firearrow.protocol.bodies.group.heartbeat import ConsumerData, HeartbeatData
from firearrow.protocol.codes import RequestCode
from firearrow.protocol.refusal import Refused
from firearrow.protocol.requests.admin.topic import GetAllTopicConfig
from firearrow.protocol.requests.group.group import (
    GetAllSubscriptionGroupConfig,
    GetSubscriptionGroupConfig,
    UpdateAndCreateSubscriptionGroup,
)
from firearrow.protocol.requests.group.heartbeat import GetConsumerListByGroup, HeartBeat, UnregisterClient
from firearrow.protocol.requests.group.offset import QueryConsumerOffset, UpdateConsumerOffset
from firearrow.remoting.handlers import Handlers
from firearrow.runtime.network import Address
from firearrow.testing.sim.coordinator import CoordinatorFaults
from firearrow.testing.sim.world import World
from tests.unit.broker import test_replication
from tests.unit.broker.test_failover_group import Group
from tests.unit.broker.whole import PORT, Client, Names

COMMIT = UpdateConsumerOffset(consumer_group="g", topic="T", queue_id=0, commit_offset=3)
NEW = "first-used-at-the-slave"


async def _beat(client: Client) -> None:
    """Join a group that nobody knows, ask about it, and leave it."""
    data = HeartbeatData(client_id="c", consumer_data_set=[ConsumerData(group_name=NEW)])
    await client.ask(HeartBeat(), encode_body(data))
    members = await client.ask(GetConsumerListByGroup(consumer_group=NEW))
    assert b'"c"' in bytes(members.body)
    shown = await client.ask(GetSubscriptionGroupConfig(group=NEW))
    assert decode(shown.body, SubscriptionGroupConfig).group_name == NEW
    await client.ask(UnregisterClient(client_id="c", consumer_group=NEW))


async def _names(client: Client) -> set[str]:
    """The names of all topics and groups of a broker."""
    topics = decode((await client.ask(GetAllTopicConfig())).body, TopicConfigAndMappingTable)
    groups = decode((await client.ask(GetAllSubscriptionGroupConfig())).body, SubscriptionGroupTable)
    return {*topics.topic_config_table, *groups.subscription_group_table}


def use_slaves_of_an_elected_group() -> None:
    """Consumers commit and join at the slaves, then one of the slaves leads."""

    async def scenario(world: World) -> None:
        group = Group(world, await Names(world.node("names")).start(), CoordinatorFaults(), sync=True)
        group.start()
        state = await group.until_in_sync(3)
        await group.send_until(10)
        nodes = {number: member.node for number, member in group.members.items()}
        master = nodes.pop(state.master)
        client = Client(world.node("consumer"), Address(master.host, PORT))
        await client.ask(UpdateAndCreateSubscriptionGroup(), b'{"groupName":"g"}')
        await client.ask(COMMIT)
        await asyncio.sleep(5)
        asked = QueryConsumerOffset(consumer_group="g", topic="T", queue_id=0, set_zero_if_not_found=True)
        for node in nodes.values():
            client.broker = Address(node.host, PORT)
            before = await _names(client)
            with pytest.raises(RequestRefused, match="is a slave: UPDATE_CONSUMER_OFFSET"):
                await client.ask(UpdateConsumerOffset(consumer_group="g", topic="T", queue_id=0, commit_offset=9))
            with pytest.raises(RequestRefused, match="is a slave that serves no pulls"):
                await client.pull(commit=9)
            assert (await client.ask(asked)).answer.offset == 3, "a pull has committed an offset at a slave"
            await _beat(client)
            assert await _names(client) == before, "a slave has made a group or a topic"
        await master.crash()
        await group.send_until(1)
        assert group.state is not None
        client.broker = Address(group.members[group.state.master].node.host, PORT)
        assert (await client.ask(asked)).answer.offset == 3

    World(8).run(scenario)


def test_a_slave_of_an_elected_group_takes_no_commit_and_makes_no_group() -> None:
    use_slaves_of_an_elected_group()


def test_a_slave_of_a_static_group_takes_commits_and_makes_no_group() -> None:
    async def scenario(_world: World, group: test_replication.Group) -> None:
        await group.send(10)
        await group.client.ask(UpdateAndCreateSubscriptionGroup(), b'{"groupName":"g"}')
        await group.slave.start()
        await group.copied()

        async def known() -> int:
            return len({"T", "g"} & await _names(group.reader))

        await test_replication.eventually(known, 2)  # tables are taken once the log connection is heard of again
        before = await _names(group.reader)
        await _beat(group.reader)
        assert await _names(group.reader) == before, "a slave has made a group or a topic"
        await group.reader.ask(COMMIT)

    test_replication.run(scenario)


def test_the_role_table_fails_closed_for_both_kinds_of_slaves() -> None:
    handlers = Handlers()
    handlers.on(UpdateConsumerOffset, lambda _request, _call: None)
    taken = handlers.by_code[RequestCode.UPDATE_CONSUMER_OFFSET]
    assert of_slave(handlers, is_elected=False).by_code[RequestCode.UPDATE_CONSUMER_OFFSET] is taken
    with pytest.raises(Refused, match="is a slave: UPDATE_CONSUMER_OFFSET"):
        of_slave(handlers, is_elected=True).by_code[RequestCode.UPDATE_CONSUMER_OFFSET](None, cast("Any", None))
