"""The operation port of a broker, on simulated machines: metrics of what happened, and readiness in every phase."""

import asyncio
import errno
import gc
import re
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

import pytest
from msgspec.structs import replace
from prometheus_client.parser import text_string_to_metric_families

from firearrow import fastjson
from firearrow.broker.metrics.lag import LagMetrics
from firearrow.broker.metrics.metrics import DRAINING, STARTING
from firearrow.broker.metrics.traffic import RecordSizes, TrafficMetrics
from firearrow.broker.statistics.counters import BrokerStats
from firearrow.broker.tables.offsets import OffsetTable
from firearrow.errors import ConnectionFailed, SettingsError
from firearrow.model.names import SCHEDULE_TOPIC, TIMER_TOPIC
from firearrow.protocol.bodies.admin.topic import TopicConfig
from firearrow.protocol.bodies.body import encode_body
from firearrow.protocol.bodies.group.heartbeat import ConsumerData, ConsumeType, HeartbeatData
from firearrow.protocol.bodies.naming.route import KVTable
from firearrow.protocol.requests.admin.stats import REFUSAL_KEY, GetBrokerRuntimeInfo
from firearrow.protocol.requests.group.heartbeat import HeartBeat
from firearrow.protocol.requests.group.offset import UpdateConsumerOffset
from firearrow.remoting.operation_port import MetricsExporter, OperationConfig
from firearrow.runtime.clock import SystemClock
from firearrow.runtime.network import Address
from firearrow.runtime.turn import Turn
from firearrow.telemetry.metrics import text
from firearrow.testing.sim.world import Node, World
from tests.unit.broker.whole import UNIQUE, Client, Simulated, settings_of, simulate
from tests.yardstick import slowness

PORT = 5557
PAGE = Path(__file__).parents[3] / "docs" / "how-to" / "monitor.md"
SHOWN = OperationConfig(metrics_exporter_type=MetricsExporter.PROM)


class Visit(asyncio.Protocol):
    def __init__(self) -> None:
        self.received = bytearray()
        self.changed = asyncio.Event()

    def data_received(self, data: bytes) -> None:
        self.received += data
        self.changed.set()

    def connection_lost(self, _exc: Exception | None) -> None:
        self.changed.set()


async def exchange(node: Node, host: str, data: bytes) -> tuple[int, str]:
    visit = Visit()
    transport = await node.network.connect(lambda: visit, Address(host, PORT))
    transport.write(data)
    while True:
        head, end, body = bytes(visit.received).partition(b"\r\n\r\n")
        lengths = [line[16:] for line in head.split(b"\r\n") if line.startswith(b"Content-Length: ")] if end else []
        if lengths and len(body) >= int(lengths[0]):
            transport.abort()
            return int(head.split()[1]), body.decode()
        visit.changed.clear()
        await visit.changed.wait()


async def get(node: Node, host: str, path: str) -> tuple[int, str]:
    return await exchange(node, host, f"GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())


def values(page: str) -> dict[str, dict[str, float]]:
    found: dict[str, dict[str, float]] = {}
    for family in text_string_to_metric_families(page):
        for sample in family.samples:
            key = sample.labels.get("topic", "") + "@" + sample.labels.get("consumer_group", "")
            found.setdefault(sample.name, {})[key] = sample.value
    return found


def test_metrics_count_messages_sizes_and_lag() -> None:
    async def scenario(world: World, broker: Simulated, client: Client) -> None:
        for _ in range(3):
            await client.send("orders")
        await client.send("orders", body=bytes(2000))
        await client.stored("orders")
        await client.ask(UpdateConsumerOffset(consumer_group="g", topic="orders", queue_id=0, commit_offset=1))
        await asyncio.sleep(15)
        status, page = await get(world.node("prometheus"), broker.node.host, "/metrics")
        assert status == 200
        found = values(page)
        assert found["rocketmq_messages_in_total"]["orders@"] == 4
        assert found["rocketmq_message_size_count"]["@"] == 4
        assert found["rocketmq_message_size_sum"]["@"] == found["rocketmq_throughput_in_total"]["orders@"]
        assert found["rocketmq_messages_out_total"]["orders@g"] == 4
        assert found["rocketmq_consumer_lag_messages"]["orders@g"] == 3
        assert 15_000 <= found["rocketmq_consumer_lag_latency"]["orders@g"] <= 16_000
        assert found["firearrow_send_wait_seconds_count"]["@"] >= 0
        assert found["firearrow_sync_seconds_count"]["@"] >= 1
        assert found["rocketmq_broker_permission"]["@"] == 6
        assert all(name.startswith(("rocketmq_", "firearrow_")) for name in found)

    simulate(scenario, replace(settings_of(), operation=SHOWN))


def test_delayed_and_timed_messages_count_for_their_topic_when_they_get_there() -> None:
    async def scenario(world: World, broker: Simulated, client: Client) -> None:
        visitor, host = world.node("prometheus"), broker.node.host
        await client.send("orders")
        await client.send("orders", properties=f"{UNIQUE}DELAY\x012\x02")
        await client.send("orders", properties=f"{UNIQUE}TIMER_DELAY_SEC\x014\x02")
        await asyncio.sleep(2)
        before = values((await get(visitor, host, "/metrics"))[1])
        await asyncio.sleep(30)
        after = values((await get(visitor, host, "/metrics"))[1])
        for found, count in ((before, 1), (after, 3)):
            assert found["rocketmq_messages_in_total"]["orders@"] == count
        assert after["rocketmq_messages_in_total"][f"{SCHEDULE_TOPIC}@"] == 1
        assert after["rocketmq_messages_in_total"][f"{TIMER_TOPIC}@"] == 1
        stored = sum(after["rocketmq_throughput_in_total"].values())
        assert stored == after["rocketmq_message_size_sum"]["@"]

    simulate(scenario, replace(settings_of(), operation=SHOWN))


def test_what_a_group_has_pulled_is_in_flight_and_the_rest_is_ready() -> None:
    async def scenario(world: World, broker: Simulated, client: Client) -> None:
        for number in range(6):
            await client.send("orders", queue_id=number % 2)
        assert len(await client.stored("orders")) == 3
        assert len(await client.stored("orders", queue_id=1)) == 3
        await client.ask(UpdateConsumerOffset(consumer_group="g", topic="orders", queue_id=0, commit_offset=1))
        await client.send("orders", queue_id=0)
        await asyncio.sleep(1)
        found = values((await get(world.node("prometheus"), broker.node.host, "/metrics"))[1])
        assert found["rocketmq_consumer_lag_messages"]["orders@g"] == 3
        assert found["rocketmq_consumer_inflight_messages"]["orders@g"] == 2  # queue 1 has no committed offset
        assert found["rocketmq_consumer_ready_messages"]["orders@g"] == 1

    simulate(scenario, replace(settings_of(), operation=SHOWN))


@pytest.mark.parametrize(
    ("consume_type", "mode"), [(ConsumeType.CONSUME_PASSIVELY, "push"), (ConsumeType.CONSUME_ACTIVELY, "pull")]
)
def test_members_have_the_consume_mode_of_apaches_label(consume_type: ConsumeType, mode: str) -> None:
    async def scenario(world: World, broker: Simulated, client: Client) -> None:
        group = ConsumerData(group_name="g", consume_type=consume_type)
        data = HeartbeatData(client_id="member", consumer_data_set=[group])
        await client.ask(HeartBeat(), encode_body(data))
        page = (await get(world.node("prometheus"), broker.node.host, "/metrics"))[1]
        [line] = [line for line in page.splitlines() if line.startswith("rocketmq_consumer_connections{")]
        assert f'consume_mode="{mode}"' in line

    simulate(scenario, replace(settings_of(), operation=SHOWN))


def test_the_page_names_every_metric_and_no_other() -> None:
    told, _, rest = PAGE.read_text().partition("Of RocketMQ's metrics these are not offered")
    absent, _, own = rest.partition("\n\n")

    async def scenario(world: World, broker: Simulated, client: Client) -> None:
        await client.send("orders", properties=f"{UNIQUE}TIMER_DELAY_SEC\x014\x02")
        page = (await get(world.node("prometheus"), broker.node.host, "/metrics"))[1]
        shown = set(re.findall(r"^# TYPE (\w+)", page, re.MULTILINE)) | {"firearrow_master_connected"}  # of a slave
        shown |= {family.name for family in Turn(int).families()}  # of a loop that is watched
        named = set(re.findall(r"`((?:rocketmq|firearrow)_\w+)", f"{told} {own}"))
        elsewhere = ("firearrow_nameserver", "firearrow_access")  # name servers show the first, access the second
        assert {name for name in named if not name.startswith(elsewhere)} == shown
        assert set(re.findall(r"`(rocketmq_\w+)", absent)) & shown == set()

    simulate(scenario, replace(settings_of(), operation=SHOWN))


def test_a_broker_is_live_and_not_ready_while_it_recovers_and_drains() -> None:
    async def scenario(world: World) -> None:
        broker = Simulated(world.node("broker"), replace(settings_of(), operation=SHOWN))
        visitor, host = world.node("prometheus"), broker.node.host
        broker.drains = True
        broker.node.start(broker.run)
        seen = []
        while not broker.ready.is_set():
            with suppress(ConnectionFailed):  # the port is not open yet
                seen.append(await get(visitor, host, "/health/ready"))
                assert (await get(visitor, host, "/health/live"))[0] == 200
            await asyncio.sleep(0.001)
        assert any(one == (503, f"not ready: {STARTING}\n") for one in seen), seen
        assert (await get(visitor, host, "/health/ready")) == (200, "ready\n")
        assert broker.broker.metrics is not None
        stopping = asyncio.ensure_future(broker.node.stop())
        await asyncio.sleep(5)
        status, why = await get(visitor, host, "/health/ready")
        assert status == 503
        assert DRAINING in why
        await stopping

    World(3).run(scenario)


async def refusal(client: Client) -> str:
    """The reason why the broker takes no messages, as ``firearrow doctor`` hears it."""
    reply = await client.ask(GetBrokerRuntimeInfo())
    return fastjson.decode(reply.body, KVTable).table.get(REFUSAL_KEY, "")


def test_a_full_disk_and_a_failed_sync_are_not_ready_and_live() -> None:
    async def scenario(world: World, broker: Simulated, client: Client) -> None:
        visitor, host, image = world.node("prometheus"), broker.node.host, broker.node.image
        await client.send()
        wide = image.capacity_bytes
        image.leave_free(image.used_bytes // 99)
        await asyncio.sleep(30)
        status, why = await get(visitor, host, "/health/ready")
        assert (status, "full" in why) == (503, True), why
        assert "full" in await refusal(client)
        image.capacity_bytes = wide
        await asyncio.sleep(30)
        assert (await get(visitor, host, "/health/ready"))[0] == 200
        assert await refusal(client) == ""
        image.fail("sync", below="commitlog/", number=errno.EIO)
        await client.send()
        await asyncio.sleep(30)
        status, why = await get(visitor, host, "/health/ready")
        assert (status, "sync failed" in why) == (503, True), why
        assert "sync failed" in await refusal(client)
        assert (await get(visitor, host, "/health/live"))[0] == 200
        await broker.node.crash()  # what is fenced does not end in order

    simulate(scenario, replace(settings_of(), operation=SHOWN))


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        (b"GET /nothing HTTP/1.1\r\n\r\n", 404),
        (b"POST /metrics HTTP/1.1\r\n\r\n", 405),
        (b"nonsense\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nContent-Length: 5\r\n\r\n", 400),
        (b"GET /" + bytes(9000), 431),
        (b"HEAD /health/live HTTP/1.0\r\n\r\n", 200),
    ],
)
def test_strange_requests_get_one_line(request_: bytes, status: int) -> None:
    async def scenario(world: World, broker: Simulated, _client: Client) -> None:
        visit = Visit()
        transport = await world.node("visitor").network.connect(lambda: visit, Address(broker.node.host, PORT))
        transport.write(request_)
        while b"\r\n\r\n" not in visit.received:
            visit.changed.clear()
            await visit.changed.wait()
        assert visit.received.startswith(f"HTTP/1.1 {status} ".encode())
        transport.abort()

    simulate(scenario, replace(settings_of(), operation=SHOWN))


def test_a_wrong_label_says_what_to_write() -> None:
    with pytest.raises(SettingsError, match="zone:a,rack:7"):
        _ = OperationConfig(metrics_label="zone").labels


class Ends:
    """A store whose queues all end at 10."""

    def max_offset(self, _topic: str, _queue_id: int) -> int:
        return 10


class Known:
    """Topics that all exist."""

    def get(self, topic: str) -> TopicConfig:
        return TopicConfig(topic_name=topic)


class Book:
    """The tables that lag is computed from: every group and topic of 50,000 queues."""

    def __init__(self, topics: int, queues: int) -> None:
        self.offsets = OffsetTable()
        self.topics = Known()
        self.store = Ends()
        self.clock = SystemClock()
        for number in range(topics):
            for queue in range(queues):
                self.offsets.commit("g", f"t{number}", queue, 4)

    def lag(self, limit: int) -> LagMetrics:
        given: Any = {"topics": self.topics, "store": self.store}
        return LagMetrics(limit, offsets=self.offsets, clock=self.clock, **given)


@pytest.mark.parametrize(("topics", "queues"), [(6_250, 8), (50_000, 1)])
def test_50_000_queues_make_a_page_within_a_second(request: pytest.FixtureRequest, topics: int, queues: int) -> None:
    book = Book(topics, queues)
    stats = BrokerStats("c", 0)
    for number in range(topics):
        stats.of_topic(f"t{number}").messages += 1
        stats.pulled("g", f"t{number}", 1, 100)
    limit = OperationConfig().metrics_otel_cardinality_limit
    traffic, lag = TrafficMetrics(stats, cast("Any", book.topics), RecordSizes(), limit), book.lag(limit)
    clock, longest, page = SystemClock(), 0, []
    request.addfinalizer(gc.enable)
    gc.disable()
    began = clock.cpu_ns()
    pieces = text([*traffic.families(), *lag.families()])
    while True:
        step = clock.cpu_ns()
        piece = next(pieces, None)
        longest = max(longest, clock.cpu_ns() - step)
        if piece is None:
            break
        page.append(piece)
    seconds = (clock.cpu_ns() - began) / 1e9
    slower = slowness()
    assert seconds < slower, f"a page took {seconds:.2f} s on a machine {slower:.1f} times slower than the budget's"
    assert longest < 100e6 * slower, f"the loop was held for {longest / 1e6:.0f} ms"
    found = values("".join(page))["rocketmq_consumer_lag_messages"]
    assert found["t0@g"] == 6 * queues
    assert sum(found.values()) == 6 * 50_000
    assert ("_other_@_other_" in found) == (topics > limit)
