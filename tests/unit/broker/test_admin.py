"""Operators' requests to a broker: topics, settings, running values, single messages, entries of queues."""

import asyncio
from typing import Any

import msgspec
import pytest

from firearrow import fastjson
from firearrow.broker.settings.config import BrokerConfig
from firearrow.errors import RequestRefused
from firearrow.protocol.bodies.admin.stats import BrokerStatsData
from firearrow.protocol.bodies.admin.topic import (
    CreateTopicListBody,
    TopicConfig,
    TopicConfigAndMappingTable,
    TopicConfigAndQueueMapping,
    TopicStatsTable,
)
from firearrow.protocol.bodies.body import encode_body
from firearrow.protocol.bodies.message.query import QueryConsumeQueueBody
from firearrow.protocol.bodies.naming.route import KVTable, TopicList
from firearrow.protocol.requests.admin.config import GetBrokerConfig, UpdateBrokerConfig
from firearrow.protocol.requests.admin.maintenance import CleanExpiredConsumeQueue, DeleteExpiredCommitLog
from firearrow.protocol.requests.admin.stats import GetBrokerRuntimeInfo, ViewBrokerStatsData
from firearrow.protocol.requests.admin.topic import (
    CleanUnusedTopic,
    DeleteTopicInBroker,
    GetAllTopicConfig,
    GetSystemTopicListFromBroker,
    GetTopicConfig,
    GetTopicStatsInfo,
    UpdateAndCreateTopic,
    UpdateAndCreateTopicList,
)
from firearrow.protocol.requests.message.query import QueryConsumeQueue, QueryMessage, ViewMessageById
from firearrow.protocol.requests.message.send import RecallMessage
from firearrow.protocol.requests.pop.pop import PopMessage
from firearrow.record.decode import decode_all
from firearrow.settings import parse_properties
from firearrow.testing.sim.world import World
from tests.unit.broker.whole import UNIQUE, Client, Names, Simulated, at, route, settings_of, simulate


def a_topic(name: str = "orders", **fields: Any) -> UpdateAndCreateTopic:
    values: dict[str, Any] = {
        "topic": name,
        "default_topic": "TBW102",
        "read_queue_nums": 8,
        "write_queue_nums": 4,
        "perm": 6,
        "topic_filter_type": "SINGLE_TAG",
        "order": False,
    }
    return UpdateAndCreateTopic(**{**values, **fields})


async def one_topic(client: Client, name: str) -> TopicConfigAndQueueMapping:
    reply = await client.ask(GetTopicConfig(topic=name))
    return fastjson.decode(reply.body, TopicConfigAndQueueMapping)


def test_topics_are_made_changed_and_survive() -> None:
    async def scenario(_world: World, broker: Simulated, client: Client) -> None:
        await client.ask(a_topic(attributes="+message.type=FIFO"))
        await client.ask(a_topic(write_queue_nums=2, perm=4, order=True))
        await client.ask(a_topic(write_queue_nums=2, perm=4, order=True))
        await broker.node.crash()
        await broker.start()
        topic = await one_topic(client, "orders")
        assert (topic.read_queue_nums, topic.write_queue_nums, topic.perm, topic.order) == (8, 2, 4, True)
        assert topic.attributes == {"message.type": "FIFO"}

    simulate(scenario)


def test_a_topic_is_answered_for_when_name_servers_know_it() -> None:
    async def run(world: World) -> None:
        addresses = [await Names(world.node(f"names{number}")).start() for number in range(2)]
        broker = Simulated(world.node("broker"), at(settings_of(), *addresses))
        await broker.start()
        client = Client(world.node("client"), broker.address)
        await client.ask(a_topic())
        for address in addresses:
            queues = (await route(client.caller, address, "orders")).queue_datas[0]
            assert (queues.read_queue_nums, queues.write_queue_nums) == (8, 4)
        await broker.node.stop()

    World(1).run(run)


@pytest.mark.parametrize(
    ("fields", "code", "remark"),
    [
        ({"name": "a b"}, 29, "illegal characters"),
        ({"name": ""}, 29, "blank"),
        ({"name": "TBW102"}, 29, "conflict with system topic"),
        ({"name": "broker-a"}, 29, "conflict with system topic"),
        ({"name": "rmq_sys_mine"}, 29, "conflict with system topic"),
        ({"read_queue_nums": -1}, 29, "0 to 65536 queues"),
        ({"attributes": "+queue.type=BatchCQ"}, 1, "not offered"),
    ],
)
def test_topics_that_may_not_be(fields: dict[str, Any], code: int, remark: str) -> None:
    async def scenario(_world: World, _broker: Simulated, client: Client) -> None:
        with pytest.raises(RequestRefused, match=remark) as refused:
            await client.ask(a_topic(**fields))
        assert refused.value.code == code

    simulate(scenario)


def test_lists_of_topics() -> None:
    async def scenario(_world: World, _broker: Simulated, client: Client) -> None:
        body = CreateTopicListBody(topic_config_list=[TopicConfig(topic_name=f"t{n}") for n in range(5)])
        await client.ask(UpdateAndCreateTopicList(), encode_body(body))
        everything = await client.ask(GetAllTopicConfig())
        table = fastjson.decode(everything.body, TopicConfigAndMappingTable)
        assert {"t0", "t4", "TBW102"} <= table.topic_config_table.keys()
        assert everything.answer.total_topic_num == len(table.topic_config_table)
        version = encode_body(table.data_version).decode()
        page = await client.ask(GetAllTopicConfig(topic_seq=3, max_topic_num=2, data_version=version))
        named = list(fastjson.decode(page.body, TopicConfigAndMappingTable).topic_config_table)
        assert named == list(table.topic_config_table)[3:5]
        system = fastjson.decode((await client.ask(GetSystemTopicListFromBroker())).body, TopicList)
        assert {"TBW102", "broker-a", "DefaultCluster", "SCHEDULE_TOPIC_XXXX"} <= set(system.topic_list)

    simulate(scenario)


@pytest.mark.parametrize("version", ["x", '{"x":' + "[" * 5_000, "[" * 5_000])
def test_a_version_that_is_none_is_an_old_one(version: str) -> None:
    async def scenario(_world: World, _broker: Simulated, client: Client) -> int:
        page = await client.ask(GetAllTopicConfig(topic_seq=3, max_topic_num=2, data_version=version))
        return len(fastjson.decode(page.body, TopicConfigAndMappingTable).topic_config_table)

    assert simulate(scenario) == 2


@pytest.mark.parametrize(
    ("first", "most", "shown"),
    [(-1, 2, 2), (-(1 << 31), -(1 << 31), 0), ((1 << 31) - 1, (1 << 31) - 1, 0), (0, -5, 0), (0, 1, 1)],
)
def test_odd_numbers_of_a_page_are_answered(first: int, most: int, shown: int) -> None:
    async def scenario(_world: World, _broker: Simulated, client: Client) -> int:
        everything = fastjson.decode((await client.ask(GetAllTopicConfig())).body, TopicConfigAndMappingTable)
        version = encode_body(everything.data_version).decode()
        page = await client.ask(GetAllTopicConfig(topic_seq=first, max_topic_num=most, data_version=version))
        return len(fastjson.decode(page.body, TopicConfigAndMappingTable).topic_config_table)

    assert simulate(scenario) == shown


def test_a_deleted_topic_is_gone_with_what_it_held() -> None:
    async def scenario(_world: World, broker: Simulated, client: Client) -> None:
        await client.send()
        await client.send()
        await client.ask(DeleteTopicInBroker(topic="T"))
        with pytest.raises(RequestRefused) as refused:
            await one_topic(client, "T")
        assert refused.value.code == 17
        assert (await client.send(body=b"again")).answer.queue_offset == 0
        assert [message.body for message in await client.stored()] == [b"again"]
        with pytest.raises(RequestRefused, match="conflict with system topic"):
            await client.ask(DeleteTopicInBroker(topic="TBW102"))
        await client.ask(CleanUnusedTopic())
        await broker.node.stop()
        await broker.start()
        assert [message.body for message in await client.stored()] == [b"again"]

    simulate(scenario)


def test_what_queues_hold() -> None:
    async def scenario(_world: World, _broker: Simulated, client: Client) -> None:
        for _ in range(3):
            await client.send(queue_id=1)
        stats = fastjson.decode((await client.ask(GetTopicStatsInfo(topic="T"))).body, TopicStatsTable)
        held = {key.queue_id: (offset.min_offset, offset.max_offset) for key, offset in stats.offset_table.items()}
        assert held == {0: (0, 0), 1: (0, 3), 2: (0, 0), 3: (0, 0)}
        last = next(o for k, o in stats.offset_table.items() if k.queue_id == 1).last_update_timestamp
        assert last == (await client.stored(queue_id=1))[2].store_timestamp
        with pytest.raises(RequestRefused) as refused:
            await client.ask(GetTopicStatsInfo(topic="nobody"))
        assert refused.value.code == 17

    simulate(scenario)


def test_settings_are_listed_changed_and_kept() -> None:
    async def listed(client: Client) -> dict[str, str]:
        reply = await client.ask(GetBrokerConfig())
        assert msgspec.json.decode(reply.answer.version).keys() == {"counter", "stateVersion", "timestamp"}
        return parse_properties(reply.body.decode())

    async def scenario(_world: World, broker: Simulated, client: Client) -> None:
        before = await listed(client)
        assert (before["brokerName"], before["flushDiskType"]) == ("broker-a", "ASYNC_FLUSH")
        assert before["brokerIP1"] == broker.node.host
        assert "key_password" not in before
        await client.ask(UpdateBrokerConfig(), b"autoCreateTopicEnable=false\nsendMessageThreadPoolNums=9\nnobody=1\n")
        with pytest.raises(RequestRefused) as refused:
            await client.send("fresh")
        assert refused.value.code == 17
        await broker.node.crash()
        await broker.start()
        assert (await listed(client))["autoCreateTopicEnable"] == "false"

    simulate(scenario)


def sends_lost_by_a_power_cut(flush: str, *, started_with: str, seed: int) -> int:
    """Change ``flushDiskType``, send without a pause, cut the power, and return how many messages are lost."""

    async def scenario(world: World, broker: Simulated, client: Client) -> int:
        await client.send()
        await client.ask(UpdateBrokerConfig(), f"flushDiskType={flush}\n".encode())
        for _ in range(8):
            await client.send()
        await broker.node.power_loss()
        await broker.start()
        later = Client(world.node("later"), broker.address)
        assert parse_properties((await later.ask(GetBrokerConfig())).body.decode())["flushDiskType"] == flush
        return 9 - len(await later.stored())

    return simulate(scenario, settings_of(sync=started_with == "SYNC_FLUSH"), seed=seed)


def test_messages_survive_a_power_cut_as_soon_as_flush_disk_type_says_so() -> None:
    for seed in range(1, 6):
        assert sends_lost_by_a_power_cut("SYNC_FLUSH", started_with="ASYNC_FLUSH", seed=seed) == 0
    lost = [sends_lost_by_a_power_cut("ASYNC_FLUSH", started_with="SYNC_FLUSH", seed=seed) for seed in range(1, 6)]
    assert any(lost), "syncs at intervals alone"


def test_consumers_see_messages_after_flush_disk_type_changed_twice() -> None:
    async def scenario(_world: World, _broker: Simulated, client: Client) -> None:
        for flush in ("SYNC_FLUSH", "ASYNC_FLUSH"):
            await client.ask(UpdateBrokerConfig(), f"flushDiskType={flush}\n".encode())
            await client.send()
        assert len(await client.stored()) == 2

    simulate(scenario)


def test_limits_of_pulls_follow_at_once_and_after_a_restart() -> None:
    async def scenario(_world: World, broker: Simulated, client: Client) -> None:
        for _ in range(20):
            await client.send()
        await client.ask(UpdateBrokerConfig(), b"maxTransferCountOnMessageInMemory=3\n")
        assert len(await client.stored()) == 3
        await broker.node.crash()
        await broker.start()
        assert len(await client.stored()) == 3
        await client.ask(UpdateBrokerConfig(), b"maxTransferCountOnMessageInMemory=32\n")
        assert len(await client.stored()) == 20

    simulate(scenario)


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"configBlackList=", 16),
        (b"brokerConfigPath=/etc/passwd", 16),
        (b"listenPort=1", 16),
        (b"storePathRootDir=/tmp", 16),
        (b"brokerPermission=99", 29),
        (b"brokerRole=SLAVE", 16),
        (b"enableControllerMode=true", 29),
        (b"autoCreateTopicEnable=false\nlistenPort=1", 16),
        (b"\xff", 1),
    ],
)
def test_settings_that_may_not_be_changed(body: bytes, code: int) -> None:
    async def scenario(_world: World, _broker: Simulated, client: Client) -> None:
        with pytest.raises(RequestRefused) as refused:
            await client.ask(UpdateBrokerConfig(), body)
        assert refused.value.code == code
        await client.send("fresh")

    simulate(scenario)


def test_the_permission_of_the_broker_reaches_name_servers() -> None:
    async def run(world: World) -> None:
        address = await Names(world.node("names")).start()
        broker = Simulated(world.node("broker"), at(settings_of(), address))
        await broker.start()
        client = Client(world.node("client"), broker.address)
        await client.ask(a_topic())
        await client.ask(UpdateBrokerConfig(), b"brokerPermission=4")
        await asyncio.sleep(1)
        assert (await route(client.caller, address, "orders")).queue_datas[0].perm == 4
        await client.ask(UpdateBrokerConfig(), b"brokerPermission=6")
        await asyncio.sleep(1)
        assert (await route(client.caller, address, "orders")).queue_datas[0].perm == 6
        await broker.node.stop()

    World(1).run(run)


def test_running_values_have_what_tools_read() -> None:
    async def scenario(_world: World, _broker: Simulated, client: Client) -> None:
        for _ in range(50):
            await client.send()
        await client.stored()
        await asyncio.sleep(10)
        table = fastjson.decode((await client.ask(GetBrokerRuntimeInfo())).body, KVTable).table
        assert table["brokerVersionDesc"] == "V5_5_0"
        assert table["msgPutTotalTodayNow"] == "50"
        assert table["getTransferredTps"] == table["getTransferedTps"]
        assert float(table["putTps"].split()[0]) == pytest.approx(5, rel=0.1)
        numeric = ("pageCacheLockTimeMills", "timerReadBehind", "timerOffsetBehind", "timerCongestNum")
        assert all(table[key].isdigit() for key in numeric)
        assert int(table["earliestMessageTimeStamp"]) > 0
        assert table["scheduleMessageOffset_18"] == "0,0"
        assert "earliestMessageTimeStamp" in table

    simulate(scenario)


def test_single_statistics() -> None:
    async def scenario(_world: World, _broker: Simulated, client: Client) -> None:
        for _ in range(20):
            await client.send()
        await client.stored()
        await asyncio.sleep(11)
        for name, key in (("TOPIC_PUT_NUMS", "T"), ("GROUP_GET_NUMS", "T@g"), ("BROKER_PUT_NUMS", "DefaultCluster")):
            reply = await client.ask(ViewBrokerStatsData(stats_name=name, stats_key=key))
            minute = fastjson.decode(reply.body, BrokerStatsData).stats_minute
            assert minute is not None
            assert minute.sum == 20, name
        with pytest.raises(RequestRefused, match="not exist"):
            await client.ask(ViewBrokerStatsData(stats_name="TOPIC_PUT_NUMS", stats_key="nobody"))

    simulate(scenario)


def test_messages_by_place_and_key() -> None:
    async def scenario(_world: World, _broker: Simulated, client: Client) -> None:
        for number in range(3):
            await client.send(body=b"%d" % number, properties=UNIQUE + f"KEYS\x01k{number} all\x02")
        stored = await client.stored()
        found = await client.ask(ViewMessageById(offset=stored[1].physical_offset))
        assert [message.body for message in decode_all(found.body)] == [b"1"]
        with pytest.raises(RequestRefused, match="can not find message by the offset, 7"):
            await client.ask(ViewMessageById(offset=7))
        asked = QueryMessage(topic="T", key="all", max_num=2, begin_timestamp=0, end_timestamp=1 << 60)
        assert [message.body for message in decode_all((await client.ask(asked)).body)] == [b"2", b"1"]
        unique = QueryMessage(
            topic="T", key="AC11000100002A", max_num=1, begin_timestamp=0, end_timestamp=1 << 60, unique_key_query=True
        )
        assert len(list(decode_all((await client.ask(unique)).body))) == 3
        with pytest.raises(RequestRefused) as refused:
            await client.ask(QueryMessage(topic="T", key="no", max_num=2, begin_timestamp=0, end_timestamp=1 << 60))
        assert refused.value.code == 22

    simulate(scenario)


def test_entries_of_a_queue() -> None:
    async def scenario(_world: World, _broker: Simulated, client: Client) -> None:
        for _ in range(5):
            await client.send(properties=UNIQUE + "TAGS\x01TagA\x02")
        reply = await client.ask(QueryConsumeQueue(topic="T", queue_id=0, index=1, count=2, consumer_group="gone"))
        body = fastjson.decode(reply.body, QueryConsumeQueueBody)
        assert (body.min_queue_index, body.max_queue_index) == (0, 5)
        stored = await client.stored()
        assert body.queue_data is not None
        assert [entry.physic_offset for entry in body.queue_data] == [m.physical_offset for m in stored[1:3]]
        assert {entry.tags_code for entry in body.queue_data} == {2598919}
        assert body.filter_data == "gone@T is not online!"
        reply = await client.ask(QueryConsumeQueue(topic="T", queue_id=0, index=99, count=2))
        assert reply.remark == "Index 99 of 0@T is not exist!"

    simulate(scenario)


def test_upkeep_is_taken() -> None:
    async def scenario(_world: World, _broker: Simulated, client: Client) -> None:
        for request in (CleanExpiredConsumeQueue(), DeleteExpiredCommitLog(), CleanUnusedTopic()):
            assert (await client.ask(request)).code == 0

    simulate(scenario)


def test_what_is_not_offered_is_refused_in_apache_s_words() -> None:
    async def scenario(_world: World, _broker: Simulated, client: Client) -> None:
        with pytest.raises(RequestRefused, match="recall failed, operation is forbidden"):
            await client.ask(RecallMessage(topic="T", recall_handle="h"))
        pop = PopMessage(
            consumer_group="g",
            topic="T",
            queue_id=0,
            max_msg_nums=1,
            invisible_time=1,
            poll_time=1,
            born_time=1,
            init_mode=0,
        )
        with pytest.raises(RequestRefused, match="pop message is forbidden because pop is not offered yet"):
            await client.ask(pop)

    simulate(scenario, settings_of(BrokerConfig(broker_name="broker-a")))
