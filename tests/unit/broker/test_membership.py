"""Heartbeats, consumer lists, notices, groups and locks over the wire, against a broker on a simulated machine."""

import asyncio
from typing import Any, ClassVar, cast

import pytest
from msgspec.structs import replace

from firearrow import fastjson
from firearrow.broker.delivery.notices import GATHER_S, PAUSE_S, Notices
from firearrow.broker.settings.config import BrokerConfig
from firearrow.broker.settings.consumer_settings import ConsumingConfig
from firearrow.broker.tables.clients import ClientTable
from firearrow.errors import RequestRefused
from firearrow.model import PhysicalOffset
from firearrow.model.message import MessageQueue
from firearrow.protocol.bodies.group.group import GroupForbidden, SubscriptionGroupConfig, SubscriptionGroupTable
from firearrow.protocol.bodies.group.heartbeat import (
    ConsumerConnection,
    ConsumerIdList,
    ProducerConnection,
    ProducerTable,
)
from firearrow.protocol.bodies.group.lock import LockBatchBody, LockedQueues
from firearrow.protocol.bodies.group.running_info import ConsumerRunningInfo
from firearrow.protocol.codes import ResponseCode
from firearrow.protocol.requests.group.group import (
    DeleteSubscriptionGroup,
    GetAllProducerInfo,
    GetAllSubscriptionGroupConfig,
    GetConsumerConnectionList,
    GetProducerConnectionList,
    GetSubscriptionGroupConfig,
    UpdateAndCreateSubscriptionGroup,
    UpdateAndGetGroupForbidden,
)
from firearrow.protocol.requests.group.heartbeat import (
    GetConsumerListByGroup,
    NotifyConsumerIdsChanged,
    UnregisterClient,
)
from firearrow.protocol.requests.group.lock import LockBatchMq, UnlockBatchMq
from firearrow.protocol.requests.group.push import ConsumeMessageDirectly, GetConsumerRunningInfo
from firearrow.record.message_id import offset_message_id
from firearrow.remoting.handlers import Answer, Call, Handlers
from firearrow.runtime.network import Address
from firearrow.testing.sim.world import World
from tests.unit.broker.sim import HOST, PORT, SimBroker, SimClient, simulate, until


class Listening:
    """A client that hears what the broker pushes."""

    def __init__(self, world: World, broker: SimBroker, name: str) -> None:
        self.told: list[str] = []
        handlers = Handlers()
        handlers.on(NotifyConsumerIdsChanged, self.notified)
        handlers.on(GetConsumerRunningInfo, self.running_info)
        handlers.on(ConsumeMessageDirectly, self.consume)
        self.consumed: list[bytes] = []
        self.client = SimClient(world.node(name), Address(broker.node.host, PORT), name, handlers)

    def notified(self, request: NotifyConsumerIdsChanged, _call: Call) -> None:
        self.told.append(request.consumer_group)

    def running_info(self, _request: GetConsumerRunningInfo, _call: Call) -> Answer:
        return Answer(body=fastjson.encode(ConsumerRunningInfo(properties={"who": self.client.client_id})))

    def consume(self, _request: ConsumeMessageDirectly, call: Call) -> Answer:
        self.consumed.append(call.body)
        return Answer(body=b'{"consumeResult":"CR_SUCCESS"}')


async def ids(client: SimClient, group: str = "g") -> list[str] | None:
    reply = await client.ask(GetConsumerListByGroup(consumer_group=group))
    return fastjson.decode(reply.body, ConsumerIdList).consumer_id_list


async def refused(awaitable: Any) -> int:
    with pytest.raises(RequestRefused) as caught:
        await awaitable
    return caught.value.code


def test_members_are_told_when_somebody_comes_or_goes() -> None:
    async def scenario(world: World, broker: SimBroker, asker: SimClient) -> None:
        one, two = Listening(world, broker, "one"), Listening(world, broker, "two")
        reply = await one.client.heartbeat()
        assert (reply.answer.is_support_heart_beat_v2, reply.answer.is_sub_change) == (True, True)
        await until(lambda: one.told == ["g"])
        await two.client.heartbeat()
        await until(lambda: one.told == ["g", "g"] and two.told == ["g"])
        assert await ids(asker) == ["one", "two"]
        await one.client.heartbeat()
        await asyncio.sleep(1)
        assert len(one.told) == 2
        await two.client.ask(UnregisterClient(client_id="two", consumer_group="g", producer_group="p"))
        await until(lambda: len(one.told) == 3)
        assert await ids(asker) == ["one"]
        await two.client.heartbeat()
        await until(lambda: len(one.told) == 4)
        await two.client.caller.close()
        await until(lambda: len(one.told) == 5)
        assert await ids(asker) == ["one"]
        assert await refused(ids(asker, "nobody")) == ResponseCode.SYSTEM_ERROR

    simulate(scenario)


def test_many_who_come_and_leave_together_are_told_together() -> None:
    many = 200

    async def scenario(world: World, broker: SimBroker, _asker: SimClient) -> None:
        stays = Listening(world, broker, "stays")
        await stays.client.heartbeat()
        others = [Listening(world, broker, f"other-{number}") for number in range(many)]
        await asyncio.gather(*(other.client.heartbeat() for other in others))
        await asyncio.sleep(1)
        told = len(stays.told)
        assert 1 < told < 10, "once at first, then together"
        await asyncio.gather(*(other.client.caller.close() for other in others))
        await asyncio.sleep(1)
        assert told < len(stays.told) < told + 10
        assert sum(len(other.told) for other in others) < 10 * many
        assert await ids(stays.client) == ["stays"]

    simulate(scenario)


def waits_before_the_first_notice() -> dict[str, float]:
    """The time that each of many groups waits for its first notice: a large one first, the others a moment later."""
    changed: dict[str, float] = {}
    told: dict[str, float] = {}

    class Member:
        def push(self, request: NotifyConsumerIdsChanged) -> None:
            told.setdefault(request.consumer_group, asyncio.get_running_loop().time())

    class Group:
        def __init__(self, members: int) -> None:
            self.members = {Member(): None for _ in range(members)}

    class Clients:
        groups: ClassVar = {"large": Group(5_000), **{f"small {number}": Group(1) for number in range(20)}}

        def group(self, name: str) -> Group:
            return self.groups[name]

    async def scenario(_world: World) -> None:
        notices = Notices(cast("ClientTable", Clients()))
        running = asyncio.create_task(notices.run())
        await asyncio.sleep(1)
        for name in Clients.groups:
            changed[name] = asyncio.get_running_loop().time()
            notices.add(name)
            await asyncio.sleep(0.005)
        await until(lambda: len(told) == len(changed))
        running.cancel()

    World(1).run(scenario)
    return {name: told[name] - at for name, at in changed.items()}


def test_the_first_change_of_a_group_is_told_at_once_whatever_others_do() -> None:
    assert max(waits_before_the_first_notice().values()) <= 3 * PAUSE_S


def one_pause_for_all(patch: pytest.MonkeyPatch) -> None:
    """A planted bug: after a round everybody waits, not the group alone that was told."""
    tell_some = Notices._tell_some

    async def run(self: Notices) -> None:
        while True:
            self._end_rests(asyncio.get_running_loop().time())
            if self._rounds:
                tell_some(self)
                await asyncio.sleep(GATHER_S)
            else:
                await self._wait()

    patch.setattr(Notices, "run", run)


def test_one_pause_for_all_groups_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    one_pause_for_all(monkeypatch)
    assert max(waits_before_the_first_notice().values()) > GATHER_S / 2


def test_silent_clients_are_dropped_and_their_group_is_told() -> None:
    async def scenario(world: World, broker: SimBroker, asker: SimClient) -> None:
        one, two = Listening(world, broker, "one"), Listening(world, broker, "two")
        await two.client.heartbeat()
        for _ in range(5):
            await one.client.heartbeat()
            assert await ids(asker) == ["two", "one"]
            await asyncio.sleep(28)
        await one.client.heartbeat()
        assert await ids(asker) == ["one"]
        assert one.told[-1] == "g"
        assert len(one.told) == 2

    simulate(scenario)


def test_a_heartbeat_makes_the_group_and_its_retry_topic() -> None:
    async def scenario(_world: World, broker: SimBroker, client: SimClient) -> None:
        await client.heartbeat("fresh")
        assert "fresh" in broker.assembly.groups.table
        topic = broker.topics.get("%RETRY%fresh")
        assert topic is not None
        assert (topic.read_queue_nums, topic.write_queue_nums, topic.perm) == (1, 1, 6)
        live = broker.assembly.settings
        live.replace(replace(live.value, broker=BrokerConfig(auto_create_subscription_group=False)))
        await client.heartbeat("unknown")
        assert "unknown" not in broker.assembly.groups.table
        assert await refused(ids(client, "unknown")) == ResponseCode.SYSTEM_ERROR

    simulate(scenario)


def test_connections_are_shown() -> None:
    async def scenario(_world: World, _broker: SimBroker, client: SimClient) -> None:
        await client.heartbeat(tags="A")
        reply = await client.ask(GetConsumerConnectionList(consumer_group="g"))
        shown = fastjson.decode(reply.body, ConsumerConnection)
        assert [one.client_id for one in shown.connection_set] == ["c1"]
        assert shown.connection_set[0].version > 0
        assert (shown.consume_type, shown.message_model) == ("CONSUME_PASSIVELY", "CLUSTERING")
        assert shown.subscription_table["T"].sub_string == "A"
        reply = await client.ask(GetProducerConnectionList(producer_group="p"))
        assert [one.client_id for one in fastjson.decode(reply.body, ProducerConnection).connection_set] == ["c1"]
        table = fastjson.decode((await client.ask(GetAllProducerInfo())).body, ProducerTable).data
        assert table is not None
        assert table["p"][0].client_id == "c1"
        not_online = GetConsumerConnectionList(consumer_group="x")
        assert await refused(client.ask(not_online)) == ResponseCode.CONSUMER_NOT_ONLINE
        assert await refused(client.ask(GetProducerConnectionList(producer_group="x"))) == ResponseCode.SYSTEM_ERROR

    simulate(scenario)


def test_members_that_do_not_agree_are_shown() -> None:
    async def scenario(world: World, broker: SimBroker, asker: SimClient) -> None:
        one, two = Listening(world, broker, "one"), Listening(world, broker, "two")
        shown = []
        for _ in range(4):
            await one.client.heartbeat(tags="A")
            await two.client.heartbeat(tags="B")
            reply = await asker.ask(GetConsumerConnectionList(consumer_group="g"))
            shown.append(fastjson.decode(reply.body, ConsumerConnection).subscription_disagreement)
            await asyncio.sleep(30)
        assert shown[:2] == [None, None]
        assert shown[-1] is not None
        assert "expression of T" in shown[-1]

    simulate(scenario)


def test_a_member_that_does_not_agree_may_be_refused() -> None:
    async def scenario(world: World, broker: SimBroker, _asker: SimClient) -> None:
        one, two = Listening(world, broker, "one"), Listening(world, broker, "two")
        await one.client.heartbeat(tags="A")
        assert await refused(two.client.heartbeat(tags="B")) == ResponseCode.INVALID_PARAMETER
        await two.client.heartbeat(tags="A")

    simulate(scenario, consuming=ConsumingConfig(refuse_inconsistent_subscription=True))


def test_questions_are_passed_on_to_consumers() -> None:
    async def scenario(world: World, broker: SimBroker, asker: SimClient) -> None:
        one = Listening(world, broker, "one")
        await one.client.heartbeat()
        request = GetConsumerRunningInfo(consumer_group="g", client_id="one")
        info = fastjson.decode((await asker.ask(request)).body, ConsumerRunningInfo)
        assert info.properties == {"who": "one"}
        absent = GetConsumerRunningInfo(consumer_group="g", client_id="two")
        assert await refused(asker.ask(absent)) == ResponseCode.SYSTEM_ERROR
        place = broker.put(b"now")
        message_id = offset_message_id(HOST, PhysicalOffset(place.physical_offset))
        await asker.ask(ConsumeMessageDirectly(consumer_group="g", client_id="one", msg_id=message_id, topic="T"))
        assert one.consumed == [broker.store.read_from(place.physical_offset, place.end - place.physical_offset)]

    simulate(scenario)


def test_groups_are_made_shown_changed_and_deleted_durably() -> None:
    async def scenario(_world: World, broker: SimBroker, client: SimClient) -> None:
        config = SubscriptionGroupConfig(group_name="g", retry_max_times=2, consume_enable=False)
        await client.ask(UpdateAndCreateSubscriptionGroup(), config)
        await broker.restart(power=True)
        await client.reconnect()
        shown = await client.ask(GetSubscriptionGroupConfig(group="g"))
        assert fastjson.decode(shown.body, SubscriptionGroupConfig) == config
        assert await refused(client.pull(0)) == ResponseCode.NO_PERMISSION
        reply = await client.ask(GetAllSubscriptionGroupConfig())
        table = fastjson.decode(reply.body, SubscriptionGroupTable)
        assert "g" in table.subscription_group_table
        assert reply.answer.total_group_num == len(table.subscription_group_table)
        broker.assembly.offsets.table.commit("g", "T", 0, 4)
        await client.ask(DeleteSubscriptionGroup(group_name="g", clean_offset=True))
        assert broker.assembly.offsets.table.committed("g", "T", 0) == -1
        assert "g" not in broker.assembly.groups.table
        bad = SubscriptionGroupConfig(group_name="bad name!")
        assert await refused(client.ask(UpdateAndCreateSubscriptionGroup(), bad)) == ResponseCode.INVALID_PARAMETER

    simulate(scenario)


def test_a_group_may_be_kept_from_a_topic() -> None:
    async def scenario(_world: World, broker: SimBroker, client: SimClient) -> None:
        broker.put()
        await client.heartbeat()
        ask = UpdateAndGetGroupForbidden(group="g", topic="T", readable=False)
        assert not fastjson.decode((await client.ask(ask)).body, GroupForbidden).readable
        assert await refused(client.pull(0)) == ResponseCode.NO_PERMISSION
        await client.ask(UpdateAndGetGroupForbidden(group="g", topic="T", readable=True))
        assert (await client.pull(0)).code == 0

    simulate(scenario)


def test_locks_over_the_wire() -> None:
    async def scenario(_world: World, _broker: SimBroker, client: SimClient) -> None:
        queues = [MessageQueue("T", "b", 0), MessageQueue("T", "b", 1)]

        async def lock(who: str) -> list[MessageQueue]:
            reply = await client.ask(LockBatchMq(), LockBatchBody(client_id=who, consumer_group="g", mq_set=queues))
            return fastjson.decode(reply.body, LockedQueues).locked

        assert await lock("a") == [], "nobody has heard of the group"
        await client.heartbeat()
        assert await lock("a") == queues
        assert await lock("b") == []
        await asyncio.sleep(61)
        assert await lock("b") == queues
        await client.ask(UnlockBatchMq(), LockBatchBody(client_id="b", consumer_group="g", mq_set=queues))
        assert await lock("a") == queues

    simulate(scenario)
