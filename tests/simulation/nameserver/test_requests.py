"""Every request once through the real protocol, and what is kept on disk, with the disk's failures."""

import asyncio
import errno
from collections.abc import Awaitable, Callable

import pytest

from firearrow import fastjson
from firearrow.errors import RequestRefused, SettingsError
from firearrow.nameserver.config import NameServerConfig
from firearrow.protocol.bodies.admin.topic import TopicConfig, TopicConfigAndMappingTable
from firearrow.protocol.bodies.naming.registration import RegisterBrokerBody, encode_registration
from firearrow.protocol.bodies.naming.route import (
    ClusterInfo,
    GetBrokerMemberGroupBody,
    KVTable,
    QueueData,
    TopicList,
    TopicRouteData,
)
from firearrow.protocol.bodies.version import DataVersion
from firearrow.protocol.codes import ResponseCode
from firearrow.protocol.conversation import Request
from firearrow.protocol.requests.admin.config import GetNamesrvConfig, UpdateNamesrvConfig
from firearrow.protocol.requests.group.heartbeat import HeartBeat
from firearrow.protocol.requests.naming.kv_config import DeleteKvConfig, GetKvConfig, GetKvListByNamespace, PutKvConfig
from firearrow.protocol.requests.naming.registration import (
    BrokerHeartbeat,
    GetBrokerMemberGroup,
    NotifyMinBrokerIdChange,
    QueryDataVersion,
    RegisterBroker,
    UnregisterBroker,
)
from firearrow.protocol.requests.naming.route import (
    AddWritePermOfBroker,
    DeleteTopicInNamesrv,
    GetAllTopicListFromNameserver,
    GetBrokerClusterInfo,
    GetHasUnitSubTopicList,
    GetHasUnitSubUnunitTopicList,
    GetRouteInfoByTopic,
    GetSystemTopicListFromNs,
    GetTopicsByCluster,
    GetUnitTopicList,
    RegisterTopicInNamesrv,
    WipeWritePermOfBroker,
)
from firearrow.remoting.caller import Caller
from firearrow.remoting.handlers import Call, Handlers
from firearrow.remoting.server import Server
from firearrow.runtime.network import Address
from firearrow.testing.sim.world import Node, World
from tests.simulation.nameserver.cluster import SimCluster


class Operator:
    """A name server and somebody who asks it things."""

    def __init__(self, world: World, config: NameServerConfig) -> None:
        self.world = world
        self.cluster = SimCluster(world, config)
        self.node = self.cluster.add_name_server()
        self.caller = Caller(world.node("operator").network)

    @property
    def address(self) -> Address:
        return self.cluster.name_servers[0]

    async def reconnect(self) -> None:
        """Give up a connection whose other end has lost its power and says nothing."""
        await self.caller.close()
        self.caller = Caller(self.world.nodes["operator"].network)
        await asyncio.sleep(1.0)

    async def ask(self, request: Request, body: bytes = b"") -> tuple[object, bytes]:  # type: ignore[type-arg]
        reply = await self.caller.call(self.address, request, body)
        return reply.answer, reply.body

    async def refused(self, request: Request, body: bytes = b"") -> RequestRefused:  # type: ignore[type-arg]
        with pytest.raises(RequestRefused) as caught:
            await self.ask(request, body)
        return caught.value

    async def register(self, broker_id: int = 0, *, acting: bool = False, body: bytes | None = None) -> object:
        request = RegisterBroker(
            broker_name="a",
            broker_addr=f"10.0.0.{50 + broker_id}:1",
            cluster_name="C",
            ha_server_addr="ha:1",
            broker_id=broker_id,
            enable_acting_master=acting,
        )
        answer, _ = await self.ask(request, announcement() if body is None else body)
        return answer


def announcement(*topics: str) -> bytes:
    configs = {topic: TopicConfig(topic_name=topic, topic_sys_flag=3) for topic in topics or ("T", "U")}
    table = TopicConfigAndMappingTable(data_version=DataVersion(counter=1), topic_config_table=configs)
    return encode_registration(RegisterBrokerBody(topic_config_serialize_wrapper=table), compressed=False)


def simulate(scenario: Callable[[Operator], Awaitable[None]], config: NameServerConfig | None = None) -> None:
    async def run(world: World) -> None:
        operator = Operator(world, config or NameServerConfig())
        await asyncio.sleep(0.1)
        await scenario(operator)
        await operator.caller.close()

    World(3).run(run)


def test_every_request_is_answered() -> None:
    async def scenario(operator: Operator) -> None:
        ask = operator.ask
        await operator.register()
        _, body = await ask(GetRouteInfoByTopic(topic="T"))
        assert fastjson.decode(body, TopicRouteData).queue_datas[0].broker_name == "a"
        _, body = await ask(GetBrokerClusterInfo())
        assert fastjson.decode(body, ClusterInfo).cluster_addr_table == {"C": ["a"]}
        for request, expected in (
            (GetAllTopicListFromNameserver(), ["T", "U"]),
            (GetTopicsByCluster(cluster="C"), ["T", "U"]),
            (GetSystemTopicListFromNs(), ["C", "a"]),
            (GetUnitTopicList(), ["T", "U"]),
            (GetHasUnitSubTopicList(), ["T", "U"]),
            (GetHasUnitSubUnunitTopicList(), []),
        ):
            _, body = await ask(request)
            assert fastjson.decode(body, TopicList).topic_list == expected
        _, body = await ask(GetBrokerMemberGroup(cluster_name="C", broker_name="a"))
        group = fastjson.decode(body, GetBrokerMemberGroupBody).broker_member_group
        assert group is not None
        assert group.broker_addrs == {0: "10.0.0.50:1"}
        answer, _ = await ask(WipeWritePermOfBroker(broker_name="a"))
        assert answer == WipeWritePermOfBroker.answer(wipe_topic_count=2)
        answer, _ = await ask(AddWritePermOfBroker(broker_name="a"))
        assert answer == AddWritePermOfBroker.answer(add_topic_count=2)
        who = {"broker_name": "a", "broker_addr": "10.0.0.50:1", "cluster_name": "C"}
        await ask(BrokerHeartbeat(**who))  # type: ignore[arg-type]
        answer, body = await ask(QueryDataVersion(broker_id=0, **who), b'{"counter":1}')
        assert answer == QueryDataVersion.answer(changed=False)
        assert fastjson.decode(body, DataVersion).counter == 1
        queues = TopicRouteData(queue_datas=[QueueData(broker_name="a", perm=6, read_queue_nums=1)])
        await ask(RegisterTopicInNamesrv(topic="N"), fastjson.encode(queues))
        await ask(DeleteTopicInNamesrv(topic="T"))
        assert (await operator.refused(GetRouteInfoByTopic(topic="T"))).code == ResponseCode.TOPIC_NOT_EXIST
        await ask(UnregisterBroker(broker_id=0, **who))
        assert (await operator.refused(GetRouteInfoByTopic(topic="N"))).code == ResponseCode.TOPIC_NOT_EXIST
        refusal = await operator.refused(HeartBeat())
        assert refusal.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED

    simulate(scenario)


def test_every_code_of_apaches_name_servers_has_an_answer() -> None:
    async def scenario(operator: Operator) -> None:
        handled = operator.cluster.servers["names0"]._handlers().by_code
        assert sorted(handled) == [
            100, 101, 102, 103, 104, 105, 106, 205, 206, 216, 217, 219, 224, 304, 311, 312, 313, 318, 319, 322, 327,
            901, 904,
        ]  # fmt: skip

    simulate(scenario)


def test_bad_bodies_are_refused_and_nothing_else_happens() -> None:
    async def scenario(operator: Operator) -> None:
        for body in (b"garbage", b'{"topicConfigSerializeWrapper":1}'):
            with pytest.raises(RequestRefused):
                await operator.register(body=body)
        who = {"broker_name": "a", "broker_addr": "x:1", "cluster_name": "C", "broker_id": 0}
        await operator.refused(QueryDataVersion(**who), b"garbage")  # type: ignore[arg-type]
        await operator.refused(RegisterTopicInNamesrv(topic="N"), b"garbage")
        crc = RegisterBroker(ha_server_addr="x:1", body_crc32=1, **who)  # type: ignore[arg-type]
        assert (await operator.refused(crc, announcement())).remark == "crc32 not match"
        assert not operator.cluster.servers["names0"].routes.names

    simulate(scenario)


def test_lists_can_be_switched_off() -> None:
    async def scenario(operator: Operator) -> None:
        for request in (GetAllTopicListFromNameserver(), GetTopicsByCluster(cluster="C"), GetUnitTopicList()):
            assert (await operator.refused(request)).remark == "disable"

    simulate(scenario, NameServerConfig(enable_topic_list=False, enable_all_topic_list=False))


def test_texts_and_settings_survive_a_power_loss() -> None:
    async def scenario(operator: Operator) -> None:
        await operator.ask(PutKvConfig(namespace="ORDER_TOPIC_CONFIG", key="T", value="a:4"))
        await operator.ask(PutKvConfig(namespace="N", key="k", value="v"))
        await operator.ask(DeleteKvConfig(namespace="N", key="k"))
        await operator.ask(UpdateNamesrvConfig(), b"orderMessageEnable=true")
        await operator.node.power_loss()
        await operator.node.restart(operator.cluster.serve)
        await operator.reconnect()
        await operator.register()
        _, body = await operator.ask(GetRouteInfoByTopic(topic="T"))
        assert fastjson.decode(body, TopicRouteData).order_topic_conf == "a:4"
        _, body = await operator.ask(GetKvListByNamespace(namespace="N"))
        assert fastjson.decode(body, KVTable).table == {}
        _, listed = await operator.ask(GetNamesrvConfig())
        assert b"orderMessageEnable=true\n" in listed

    simulate(scenario)


def test_a_change_that_cannot_be_stored_is_refused_and_not_made() -> None:
    async def scenario(operator: Operator) -> None:
        await operator.ask(PutKvConfig(namespace="N", key="k", value="old"))
        await operator.ask(UpdateNamesrvConfig(), b"enableTopicList=true")
        operator.node.image.fail("sync", number=errno.EIO, times=100)
        refusal = await operator.refused(PutKvConfig(namespace="N", key="k", value="new"))
        assert refusal.code == ResponseCode.SYSTEM_ERROR
        assert "nothing was changed" in refusal.remark
        await operator.refused(UpdateNamesrvConfig(), b"enableTopicList=false")
        answer, _ = await operator.ask(GetKvConfig(namespace="N", key="k"))
        assert answer == GetKvConfig.answer(value="old")
        _, listed = await operator.ask(GetNamesrvConfig())
        assert b"enableTopicList=true\n" in listed

    simulate(scenario)


def test_a_refused_setting_leaves_the_files_as_they_are() -> None:
    async def scenario(operator: Operator) -> None:
        await operator.ask(UpdateNamesrvConfig(), b"enableTopicList=true")
        before = await files(operator.node)
        for body in (b"kvConfigPath=x", b"configStorePath=x\nenableTopicList=false", b"enableTopicList=maybe", b"a=1"):
            await operator.refused(UpdateNamesrvConfig(), body)
        await asyncio.sleep(1.0)
        assert await files(operator.node) == before

    simulate(scenario)


async def files(node: Node) -> dict[str, bytes]:
    return {name: await node.disk.read_whole(name) for name in await node.disk.list()}


def test_texts_have_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("firearrow.nameserver.server.MAX_BYTES", 200)

    async def scenario(operator: Operator) -> None:
        await operator.ask(PutKvConfig(namespace="N", key="k", value="short"))
        refusal = await operator.refused(PutKvConfig(namespace="N", key="l", value="x" * 200))
        assert "200 are allowed" in refusal.remark
        await operator.ask(PutKvConfig(namespace="N", key="l", value="also short"))

    simulate(scenario)


def test_a_damaged_file_gives_way_to_the_one_before_it() -> None:
    async def scenario(operator: Operator) -> None:
        await operator.ask(PutKvConfig(namespace="N", key="k", value="first"))
        await operator.ask(PutKvConfig(namespace="N", key="k", value="second"))
        await operator.node.crash()
        await operator.node.disk.replace("kvConfig.json", b"{damaged")
        operator.node.start(operator.cluster.serve)
        await asyncio.sleep(1.0)
        answer, _ = await operator.ask(GetKvConfig(namespace="N", key="k"))
        assert answer == GetKvConfig.answer(value="first")

    simulate(scenario)


def test_two_damaged_files_stop_the_start() -> None:
    async def scenario(operator: Operator) -> None:
        await operator.node.crash()
        for path in ("kvConfig.json", "kvConfig.json.bak"):
            await operator.node.disk.replace(path, b"{damaged")
        with pytest.raises(SettingsError, match="repair it or move it away"):
            await operator.cluster.serve(operator.node)

    simulate(scenario)


def test_brokers_hear_who_has_the_lowest_id() -> None:
    heard: list[NotifyMinBrokerIdChange] = []

    async def scenario(operator: Operator) -> None:
        handlers = Handlers()

        def hear(request: NotifyMinBrokerIdChange, _call: Call) -> None:
            heard.append(request)

        handlers.on(NotifyMinBrokerIdChange, hear)
        slave = operator.world.node("slave")
        server = Server(slave.network, handlers)
        await server.start(Address("0.0.0.0", 10911))
        request = RegisterBroker(
            broker_name="a",
            broker_addr=f"{slave.host}:10911",
            cluster_name="C",
            ha_server_addr="ha:1",
            broker_id=1,
            enable_acting_master=True,
        )
        await operator.ask(request, announcement())
        await operator.register(0, acting=True)
        gone = UnregisterBroker(broker_name="a", broker_addr="10.0.0.50:1", cluster_name="C", broker_id=0)
        await operator.ask(gone)
        await operator.cluster.until(lambda: len(heard) == 2, 5.0, "both notices")
        await server.stop()

    simulate(scenario, NameServerConfig(notify_min_broker_id_changed=True))
    assert [(notice.min_broker_id, notice.offline_broker_addr) for notice in heard] == [(0, None), (1, "10.0.0.50:1")]
