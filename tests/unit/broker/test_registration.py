"""A broker and its name servers on simulated machines: registered everywhere, in time, and gone in order."""

import asyncio
import errno
from collections.abc import Callable

import pytest
from msgspec.structs import replace

from firearrow.broker import registration
from firearrow.broker.settings.config import BrokerConfig
from firearrow.errors import RequestRefused
from firearrow.model.flags import PERM_READ, PERM_WRITE
from firearrow.protocol.bodies.admin.topic import CreateTopicListBody, TopicConfig
from firearrow.protocol.bodies.body import encode_body
from firearrow.protocol.bodies.naming.route import TopicRouteData
from firearrow.protocol.requests.admin.topic import UpdateAndCreateTopicList
from firearrow.protocol.requests.naming.kv_config import PutKvConfig
from firearrow.protocol.requests.naming.route import AddWritePermOfBroker, DeleteTopicInNamesrv
from firearrow.remoting.caller import Caller
from firearrow.runtime.network import Address
from firearrow.testing.sim.world import World
from tests.unit.broker.test_metrics import SHOWN, get, values
from tests.unit.broker.whole import Client, Names, Simulated, at, route, settings_of


async def until_route(
    caller: Caller, names: Address, topic: str, holds: Callable[[TopicRouteData], bool], within_s: float
) -> float:
    """Wait for a route and return how long that took."""
    loop = asyncio.get_running_loop()
    began = loop.time()
    while True:
        try:
            if holds(await route(caller, names, topic)):
                return loop.time() - began
        except RequestRefused:
            pass
        assert loop.time() < began + within_s, f"no such route of {topic} within {within_s} s"
        await asyncio.sleep(0.05)


def anything(_route: TopicRouteData) -> bool:
    return True


def test_every_name_server_hears_of_every_topic() -> None:
    async def run(world: World) -> None:
        names = [Names(world.node(f"names{number}")) for number in range(2)]
        addresses = [await one.start() for one in names]
        broker = Simulated(world.node("broker"), at(settings_of(), *addresses))
        await broker.start()
        client = Client(world.node("client"), broker.address)
        for address in addresses:
            known = await route(client.caller, address, "TBW102")
            assert [(data.broker_name, data.broker_addrs) for data in known.broker_datas] == [
                ("broker-a", {0: str(broker.address)})
            ]
            assert known.queue_datas[0].perm == 7
        await client.send("fresh")
        for address in addresses:
            assert await until_route(client.caller, address, "fresh", anything, 1) < 1
            queues = (await route(client.caller, address, "fresh")).queue_datas[0]
            assert (queues.read_queue_nums, queues.write_queue_nums, queues.perm) == (4, 4, 6)
        await broker.node.stop()
        for address in addresses:
            with pytest.raises(RequestRefused):
                await route(client.caller, address, "fresh")

    World(1).run(run)


def test_an_empty_name_server_knows_everything_within_a_period() -> None:
    async def run(world: World) -> None:
        names = Names(world.node("names"))
        address = await names.start()
        broker = Simulated(world.node("broker"), at(settings_of(), address))
        await broker.start()
        client = Client(world.node("client"), broker.address)
        await client.send("fresh")
        await until_route(client.caller, address, "fresh", anything, 1)
        await names.node.crash()
        await asyncio.sleep(5)
        await names.start()
        assert await until_route(client.caller, address, "fresh", anything, 31) <= 31
        await broker.node.stop()

    World(2).run(run)


def test_a_name_server_that_is_away_at_the_start_is_told_when_it_comes() -> None:
    async def run(world: World) -> None:
        names = Names(world.node("names"))
        broker = Simulated(world.node("broker"), at(settings_of(), Address(names.node.host, 9876)))
        await broker.start()
        client = Client(world.node("client"), broker.address)
        await client.send("fresh")
        address = await names.start()
        await until_route(client.caller, address, "fresh", anything, 31)
        await broker.node.stop()

    World(3).run(run)


def test_a_name_server_that_is_away_is_counted_and_logged_now_and_then(caplog: pytest.LogCaptureFixture) -> None:
    async def run(world: World) -> None:
        names, visitor = Names(world.node("names")), world.node("prometheus")
        shown = replace(at(settings_of(), Address(names.node.host, 9876)), operation=SHOWN)
        broker = Simulated(world.node("broker"), shown)
        await broker.start()
        await asyncio.sleep(60)
        page = (await get(visitor, broker.node.host, "/metrics"))[1]
        assert values(page)["firearrow_registrations_failing"]["@"] == 1
        told = [record for record in caplog.records if record.getMessage().startswith("registration at ")]
        assert 4 <= len(told) <= 5  # at the start, and from the first period on
        assert sum(record.__dict__["times"] for record in told) >= 20
        await names.start()
        await asyncio.sleep(31)
        page = (await get(visitor, broker.node.host, "/metrics"))[1]
        assert values(page)["firearrow_registrations_failing"]["@"] == 0
        await broker.node.stop()

    World(3).run(run)


def test_order_topics_are_learnt_from_the_answer() -> None:
    async def run(world: World) -> None:
        names = Names(world.node("names"))
        address = await names.start()
        config = BrokerConfig(broker_name="broker-a", broker_permission=4)
        broker = Simulated(world.node("broker"), at(settings_of(config), address))
        await broker.start()
        client = Client(world.node("client"), broker.address)
        await client.send("ordered")
        await client.caller.call(
            address, PutKvConfig(namespace="ORDER_TOPIC_CONFIG", key="ordered", value="broker-a:4")
        )
        await asyncio.sleep(31)
        with pytest.raises(RequestRefused, match="sending message is forbidden"):
            await client.send("ordered")
        await client.send("other")
        assert (await route(client.caller, address, "other")).queue_datas[0].perm == 4
        await broker.node.stop()

    World(4).run(run)


def test_draining_takes_the_permission_away_and_goes_on_answering() -> None:
    async def run(world: World) -> None:
        names = Names(world.node("names"))
        address = await names.start()
        broker = Simulated(world.node("broker"), at(settings_of(), address))
        broker.drains = True
        await broker.start()
        client = Client(world.node("client"), broker.address)
        await client.send("T")
        stopping = asyncio.create_task(broker.node.stop())
        await until_route(client.caller, address, "T", lambda known: known.queue_datas[0].perm == 4, 1)
        await client.send("made meanwhile".replace(" ", "-"))
        await asyncio.sleep(35)
        await client.send("T")
        assert (await route(client.caller, address, "T")).queue_datas[0].perm == 4
        assert (await route(client.caller, address, "made-meanwhile")).queue_datas[0].perm == 4
        assert not stopping.done()
        await stopping
        await broker.start()
        assert (await route(client.caller, address, "T")).queue_datas[0].perm == 6
        assert len(await client.stored("T")) == 2
        broker.drains = False
        await broker.node.stop()

    World(5).run(run)


def test_a_table_that_no_frame_holds_is_registered_in_parts_and_stays_known(monkeypatch: pytest.MonkeyPatch) -> None:
    many = 25
    monkeypatch.setattr(registration, "PART_TOPICS", 10)

    async def run(world: World) -> None:
        names = Names(world.node("names"))
        address = await names.start()
        settings = at(settings_of(BrokerConfig(register_name_server_period=10_000)), address)
        broker = Simulated(world.node("broker"), settings)
        await broker.start()
        client = Client(world.node("client"), broker.address)
        topics = [TopicConfig(topic_name=f"t{number}") for number in range(many)]
        made = encode_body(CreateTopicListBody(topic_config_list=topics))
        await client.ask(UpdateAndCreateTopicList(), made)
        wider = [replace(topic, write_queue_nums=9) for topic in topics]
        await client.ask(UpdateAndCreateTopicList(), encode_body(CreateTopicListBody(topic_config_list=wider)))
        for topic in topics:
            known = await route(client.caller, address, topic.topic_name or "")
            assert known.queue_datas[0].write_queue_nums == 9, "a change is taken over in every part"
        await client.caller.call(address, DeleteTopicInNamesrv(topic="t7"))
        await asyncio.sleep(200)
        for topic in topics:
            if topic.topic_name != "t7":
                await route(client.caller, address, topic.topic_name or "")  # longer than a lease lasts
        await until_route(client.caller, address, "t7", anything, 10 * registration.TURN_PERIODS + 10)
        await names.node.crash()
        await asyncio.sleep(5)
        await names.start()
        for topic in topics:
            await until_route(client.caller, address, topic.topic_name or "", anything, 11)
        await broker.node.stop()

    World(6).run(run)


def test_a_name_server_that_was_out_of_reach_hears_of_a_drain_when_it_is_back() -> None:
    async def run(world: World) -> None:
        names = Names(world.node("names"))
        address = await names.start()
        broker = Simulated(world.node("broker"), at(settings_of(), address))
        broker.drains = True
        await broker.start()
        client = Client(world.node("client"), broker.address)
        await client.send("T")
        await until_route(client.caller, address, "T", lambda known: known.queue_datas[0].perm == 6, 2)
        world.network.partition(["names"], ["broker"])
        stopping = asyncio.create_task(broker.node.stop())
        await asyncio.sleep(10)
        world.network.heal()
        await until_route(client.caller, address, "T", lambda known: known.queue_datas[0].perm == 4, 10)
        assert not stopping.done()
        world.network.partition(["names"], ["broker"])
        await stopping
        world.network.heal()
        broker.drains = False
        await broker.start()
        await until_route(client.caller, address, "T", lambda known: known.queue_datas[0].perm == 6, 2)
        await broker.node.stop()

    World(5).run(run)


def test_a_broker_that_stores_nothing_more_sends_producers_elsewhere() -> None:
    async def run(world: World) -> None:
        names = Names(world.node("names"))
        address = await names.start()
        broker = Simulated(world.node("broker"), at(settings_of(sync=True), address))
        await broker.start()
        client = Client(world.node("client"), broker.address)
        await client.send("T")
        broker.node.image.fail("sync", below="commitlog/", number=errno.EIO)
        with pytest.raises(RequestRefused):
            await client.send("T")
        await until_route(client.caller, address, "T", lambda found: found.queue_datas[0].perm == PERM_READ, 2)
        assert len(await client.stored("T")) == 1
        await client.caller.call(address, AddWritePermOfBroker(broker_name=broker.identity.name))
        await until_route(client.caller, address, "T", lambda found: found.queue_datas[0].perm == PERM_READ, 31)
        await broker.node.crash()
        await broker.start()
        await until_route(client.caller, address, "T", lambda found: found.queue_datas[0].perm & PERM_WRITE > 0, 2)

    World(1).run(run)
