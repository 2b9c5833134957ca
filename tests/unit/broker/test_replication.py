"""A master and a slave on simulated machines: the copy is equal byte for byte, also across crashes of either."""

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any

import pytest
from msgspec.structs import replace

from firearrow.broker.replication.feed import SPAN_BYTES
from firearrow.broker.replication.master import CHECK_S
from firearrow.broker.replication.metadata import PERIOD_S
from firearrow.broker.replication.slave import RECONNECT_S
from firearrow.broker.settings.config import BrokerConfig, BrokerSettings
from firearrow.broker.settings.replication_settings import ReplicationConfig
from firearrow.errors import ConnectionLost, RequestRefused
from firearrow.fastjson import decode
from firearrow.protocol.bodies.naming.route import KVTable
from firearrow.protocol.bodies.replication.replication import HaRuntimeInfo
from firearrow.protocol.codes import ResponseCode
from firearrow.protocol.requests.admin.config import UpdateBrokerConfig
from firearrow.protocol.requests.admin.stats import GetBrokerRuntimeInfo
from firearrow.protocol.requests.group.offset import QueryConsumerOffset, UpdateConsumerOffset
from firearrow.protocol.requests.message.pull import PullMessage
from firearrow.protocol.requests.replication.replication import (
    GetBrokerEpochCache,
    GetBrokerHaStatus,
    ResetMasterFlushOffset,
)
from firearrow.runtime.network import Address
from firearrow.testing.sim.world import Node, World
from tests.unit.broker.producers import TransactionClient
from tests.unit.broker.sim import SUSPEND
from tests.unit.broker.whole import PULL_CODES, UNIQUE, Client, Names, Simulated, a_send, settings_of

SEGMENT = 64 << 10
PULL = PullMessage(
    consumer_group="g",
    topic="T",
    queue_id=0,
    queue_offset=0,
    max_msg_nums=32,
    sys_flag=0x4,
    commit_offset=0,
    suspend_timeout_millis=0,
    sub_version=0,
    subscription="*",
)
WAIT_S = 120.0


def grouped(broker_id: int, names: Address, *, sync_flush: bool = False, **replication: Any) -> BrokerSettings:
    """Settings of a member of a group."""
    if broker_id:
        replication = {**replication, "broker_role": "SLAVE", "slave_read_enable": True}
    settings = settings_of(
        BrokerConfig(broker_name="broker-a", broker_id=broker_id, namesrv_addr=str(names)), sync=sync_flush
    )
    return replace(
        settings,
        log=replace(settings.log, mapped_file_size_commit_log=SEGMENT),
        replication=ReplicationConfig(**replication),
    )


class Group:
    """A master, a slave, a name server and a client."""

    def __init__(self, world: World, names: Address, **settings: Any) -> None:
        self.master = Simulated(world.node("master"), grouped(0, names, **settings))
        self.slave = Simulated(world.node("slave"), grouped(1, names, **settings))
        self.client = Client(world.node("client"), self.master.address)
        self.reader = Client(world.node("reader"), self.slave.address)

    async def send(self, count: int, size: int = 300) -> None:
        for number in range(count):
            body = b"%08d" % number + bytes([number % 256]) * (size * (number % 7))
            await self.client.send(body=body, queue_id=number % 4)

    async def copied(self) -> None:
        """Wait until the copy is complete, and compare the files."""

        async def behind() -> int:
            return await end_of(self.client) - await end_of(self.reader)

        await eventually(behind, 0)
        assert await files(self.slave.node) == await files(self.master.node)


async def end_of(client: Client) -> int:
    """The end of a broker's log."""
    try:
        reply = await client.ask(GetBrokerRuntimeInfo())
    except ConnectionLost:  # the broker was started anew since the last question
        reply = await client.ask(GetBrokerRuntimeInfo())
    return int(decode(reply.body, KVTable).table["commitLogMaxOffset"])


async def files(node: Node) -> dict[str, bytes]:
    names = await node.disk.list("commitlog")
    found = {name: (await node.disk.read_whole(f"commitlog/{name}")) for name in names}
    return {name: data for name, data in found.items() if data.strip(b"\0")}


def run(scenario: Callable[[World, Group], Coroutine[Any, Any, None]], seed: int = 1, **settings: Any) -> None:
    world = World(seed)

    async def body(world: World) -> None:
        names = await Names(world.node("names")).start()
        group = Group(world, names, **settings)
        await group.master.start()
        await scenario(world, group)
        for broker in (group.slave, group.master):
            if broker.node.running:
                await broker.node.stop()

    world.run(body)


@pytest.mark.parametrize("sync_flush", [False, True])
def test_a_slave_that_begins_with_nothing_gets_the_whole_log(sync_flush: bool) -> None:
    async def scenario(_world: World, group: Group) -> None:
        await group.send(200)
        await group.slave.start()
        await group.copied()
        await group.send(100)
        await group.copied()
        assert len(await files(group.slave.node)) > 3

    run(scenario, sync_flush=sync_flush)


def test_a_slave_begins_where_the_masters_log_begins() -> None:
    async def scenario(_world: World, group: Group) -> None:
        await group.send(300)
        await group.master.node.stop()
        disk = group.master.node.disk
        for name in (await disk.list("commitlog"))[:2]:
            await disk.unlink(f"commitlog/{name}")
        await group.master.start()
        await group.slave.start()
        await group.copied()
        assert min(await files(group.slave.node)) == f"{2 * SEGMENT:020d}"
        await group.slave.node.crash()
        await group.send(50)
        await group.slave.start()
        await group.copied()

    run(scenario)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_slave_goes_on_after_it_crashed(seed: int) -> None:
    async def scenario(_world: World, group: Group) -> None:
        await group.slave.start()
        for _ in range(4):
            await group.send(60)
            await group.slave.node.crash()
            await group.send(40)
            await group.slave.start()
        await group.copied()

    run(scenario, seed)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_slave_goes_on_after_its_master_crashed(seed: int) -> None:
    async def scenario(_world: World, group: Group) -> None:
        await group.slave.start()
        for _ in range(3):
            await group.send(50)
            await group.master.node.crash()
            await group.master.start()
        await group.send(20)
        await group.copied()

    run(scenario, seed)


def test_a_slave_serves_what_it_has_copied_and_takes_no_messages() -> None:
    async def scenario(_world: World, group: Group) -> None:
        await group.slave.start()
        await group.client.send(body=b"on the master")
        await group.copied()
        with pytest.raises(RequestRefused) as refused:
            await group.reader.send(body=b"to the slave")
        assert refused.value.code == ResponseCode.SYSTEM_BUSY
        assert "slave" in str(refused.value)
        await eventually(lambda: readable(group.reader), 1)
        assert [message.body for message in await group.reader.stored()] == [b"on the master"]

    run(scenario)


def test_a_slave_that_is_ahead_of_its_master_is_not_served(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(_world: World, group: Group) -> None:
        await group.slave.start()
        await group.send(50)
        await group.copied()
        await group.slave.node.stop()
        await group.master.node.stop()
        for name in await group.master.node.disk.list("commitlog"):
            await group.master.node.disk.unlink(f"commitlog/{name}")
        for name in ("firearrow/flushed", "firearrow/ranges.json"):
            await group.master.node.disk.unlink(name)
        await group.master.start()
        await group.slave.start()

        async def complaints() -> int:
            return min(caplog.text.count("Keep a copy of the slave's store directory"), 1)

        await eventually(complaints, 1)

    run(scenario)


def test_a_slave_has_the_topics_groups_and_offsets_of_its_master() -> None:
    async def scenario(_world: World, group: Group) -> None:
        await group.client.send(body=b"one")
        assert await group.client.stored()  # makes the group g
        await group.client.ask(UpdateConsumerOffset(consumer_group="g", topic="T", queue_id=0, commit_offset=1))
        await group.slave.start()
        await eventually(lambda: offset_of(group.reader), 1)
        # The master is away: the slave takes the offset, and keeps it until the master has another one.
        await group.send(8)
        await group.copied()
        await group.master.node.crash()
        await group.reader.ask(UpdateConsumerOffset(consumer_group="g", topic="T", queue_id=0, commit_offset=2))
        await group.master.start()
        await asyncio.sleep(3 * PERIOD_S)
        assert await offset_of(group.reader) == 2
        with suppress(ConnectionLost):
            await end_of(group.client)
        await group.client.ask(UpdateConsumerOffset(consumer_group="g", topic="T", queue_id=0, commit_offset=3))
        await eventually(lambda: offset_of(group.reader), 3)

    run(scenario)


async def readable(client: Client) -> int:
    """The number of messages of a queue that a broker hands out; none of a topic that it does not know yet."""
    try:
        return len(await client.stored())
    except RequestRefused:
        return 0


async def offset_of(client: Client) -> int:
    request = QueryConsumerOffset(consumer_group="g", topic="T", queue_id=0, set_zero_if_not_found=False)
    try:
        return int((await client.ask(request)).answer.offset)
    except (RequestRefused, ConnectionLost):
        return -1


async def eventually(look: Callable[[], Coroutine[Any, Any, int]], wanted: int) -> None:
    async with asyncio.timeout(WAIT_S):
        while await look() != wanted:  # noqa: ASYNC110 - the state of a simulated broker raises no event
            await asyncio.sleep(0.1)


@pytest.mark.parametrize("sync_flush", [False, True])
def test_a_sync_master_answers_when_its_slave_has_the_message(sync_flush: bool) -> None:
    async def scenario(_world: World, group: Group) -> None:
        assert await code_of_send(group) == ResponseCode.SLAVE_NOT_AVAILABLE
        await group.slave.start()
        await group.copied()
        for number in range(20):
            assert await code_of_send(group) == ResponseCode.SUCCESS
            assert await end_of(group.reader) == await end_of(group.client), number
        group.slave.node.freeze()
        began = asyncio.get_running_loop().time()
        assert await code_of_send(group) == ResponseCode.FLUSH_SLAVE_TIMEOUT
        assert 5.0 <= asyncio.get_running_loop().time() - began < 6.0
        assert await code_of_send(group, wait="false") == ResponseCode.SUCCESS
        group.slave.node.thaw()
        await group.copied()

    run(scenario, sync_flush=sync_flush, broker_role="SYNC_MASTER")


def test_a_sync_master_refuses_messages_while_its_slave_is_missing() -> None:
    async def scenario(_world: World, group: Group) -> None:
        await group.client.ask(UpdateBrokerConfig(), b"minInSyncReplicas=1")
        await group.client.send(body=b"the topic is made", properties=f"{UNIQUE}WAIT\x01false\x02")
        await group.client.ask(UpdateBrokerConfig(), b"minInSyncReplicas=2")
        end = await end_of(group.client)
        for _ in range(2):
            with pytest.raises(RequestRefused, match="in-sync replicas not enough") as refused:
                await group.client.send(body=b"refused")
            assert refused.value.code == ResponseCode.SYSTEM_ERROR
        with pytest.raises(RequestRefused, match="in-sync replicas not enough"):
            await code_of_send(group, wait="false")
        assert await end_of(group.client) == end
        await group.slave.start()
        await group.copied()
        assert await code_of_send(group) == ResponseCode.SUCCESS
        await group.slave.node.crash()
        await eventually(lambda: refusals(group), 1)
        await group.client.ask(UpdateBrokerConfig(), b"minInSyncReplicas=1\ninSyncReplicas=1")
        assert await code_of_send(group) == ResponseCode.SUCCESS

    run(scenario, broker_role="SYNC_MASTER", min_in_sync_replicas=2)


async def refusals(group: Group) -> int:
    try:
        await code_of_send(group)
    except RequestRefused:
        return 1
    return 0


def test_the_end_of_a_transaction_waits_for_the_slave() -> None:
    async def scenario(world: World, group: Group) -> None:
        node = world.node("producer")
        producer = TransactionClient(node, group.master.address)
        await producer.join()
        await group.slave.start()
        await eventually(lambda: refusals(group), 0)
        await group.copied()
        half = await producer.half(now_ms=node.clock.now_ms())
        await producer.end(half)
        assert await end_of(group.reader) == await end_of(group.client)
        half = await producer.half(now_ms=node.clock.now_ms(), key="K2")
        group.slave.node.freeze()
        with pytest.raises(RequestRefused) as refused:
            await producer.end(half, timeout_ms=9000)
        assert refused.value.code == ResponseCode.SYSTEM_ERROR, "codes 10, 11 and 12 are those of sends"
        half = await producer.half(now_ms=node.clock.now_ms(), key="K3", WAIT="false")
        await group.slave.node.crash()
        await eventually(lambda: refusals(group), 1)
        with pytest.raises(RequestRefused, match="in-sync replicas not enough"):
            await producer.end(half)

    run(scenario, broker_role="SYNC_MASTER", min_in_sync_replicas=2)


async def code_of_send(group: Group, wait: str = "true") -> int:
    codes = frozenset({0, 10, 11, 12})
    request = a_send(properties=f"{UNIQUE}WAIT\x01{wait}\x02")
    reply = await group.client.ask(request, b"hello", accept=codes, timeout_ms=9000)
    return reply.code


def test_a_silent_slave_is_dropped_and_comes_back(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(_world: World, group: Group) -> None:
        await group.slave.start()
        await group.send(10)
        await group.copied()
        group.slave.node.freeze()
        await asyncio.sleep(20 + 2 * CHECK_S)
        assert "is silent" in caplog.text
        await group.send(2 * SPAN_BYTES // 900)
        group.slave.node.thaw()
        await asyncio.sleep(2 * RECONNECT_S)
        await group.copied()

    run(scenario)


def test_an_idle_group_stays_connected(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(_world: World, group: Group) -> None:
        await group.slave.start()
        await asyncio.sleep(120)
        assert "silent" not in caplog.text
        assert "is not copied" not in caplog.text
        await group.send(3)
        await group.copied()

    run(scenario)


def test_the_state_of_replication_is_told_by_both_sides() -> None:
    async def scenario(_world: World, group: Group) -> None:
        await group.slave.start()
        await group.send(10)
        await group.copied()
        of_master = decode((await group.client.ask(GetBrokerHaStatus())).body, HaRuntimeInfo)
        end = await end_of(group.client)
        assert (of_master.master, of_master.in_sync_slave_nums, of_master.master_commit_log_max_offset) == (
            True,
            1,
            end,
        )
        (slave,) = of_master.ha_connection_info
        assert (slave.slave_ack_offset, slave.diff, slave.in_sync, slave.transfer_from_where) == (end, 0, True, end)
        await group.reader.ask(ResetMasterFlushOffset(master_flush_offset=77))
        of_slave = decode((await group.reader.ask(GetBrokerHaStatus())).body, HaRuntimeInfo)
        client = of_slave.ha_client_runtime_info
        assert (of_slave.master, client.max_offset, client.master_flush_offset) == (False, end, 77)
        assert client.master_addr == f"{group.master.node.host}:10912"
        with pytest.raises(RequestRefused, match="controllerMode"):
            await group.client.ask(GetBrokerEpochCache())

    run(scenario)


@pytest.mark.parametrize(("ratio", "suggested"), [(0, 1), (100, 0)])
def test_a_reader_far_behind_is_sent_to_the_slave(ratio: int, suggested: int) -> None:
    async def scenario(_world: World, group: Group) -> None:
        await group.send(20)
        change = f"accessMessageInMemoryMaxRatio={ratio}".encode()
        await group.client.ask(UpdateBrokerConfig(), change)
        reply = await group.client.ask(PULL, accept=PULL_CODES)
        assert reply.body
        assert reply.answer.suggest_which_broker_id == suggested

    run(scenario, slave_read_enable=True)


def test_a_pull_that_waits_in_vain_at_a_master_with_serving_slaves_is_answered() -> None:
    async def scenario(_world: World, group: Group) -> None:
        await group.send(20)
        end = (await group.client.ask(PULL, accept=PULL_CODES)).answer.max_offset
        for setting in (b"accessMessageInMemoryMaxRatio=0", b"accessMessageInMemoryMaxRatio=100"):
            await group.client.ask(UpdateBrokerConfig(), setting)
            waiting = replace(PULL, queue_offset=end, sys_flag=PULL.sys_flag | SUSPEND, suspend_timeout_millis=500)
            reply = await group.client.ask(waiting, accept=PULL_CODES)
            assert (reply.code, bytes(reply.body)) == (ResponseCode.PULL_NOT_FOUND, b"")

    run(scenario, slave_read_enable=True)


def test_readers_stay_at_a_master_whose_slaves_do_not_serve_them() -> None:
    async def scenario(_world: World, group: Group) -> None:
        await group.send(20)
        await group.client.ask(UpdateBrokerConfig(), b"accessMessageInMemoryMaxRatio=0")
        assert (await group.client.ask(PULL, accept=PULL_CODES)).answer.suggest_which_broker_id == 0

    run(scenario)


def test_an_operator_starts_a_slave_as_the_next_master() -> None:
    async def scenario(_world: World, group: Group) -> None:
        await group.slave.start()
        await group.send(40)
        await group.copied()
        await eventually(lambda: readable(group.reader), 10)
        await group.master.node.crash()
        await group.slave.node.stop()
        group.slave.settings = replace(group.master.settings, broker=replace(group.master.settings.broker, broker_id=0))
        await group.slave.start()
        with suppress(ConnectionLost):
            await end_of(group.reader)
        reply = await group.reader.send(body=b"to the new master", queue_id=0)
        assert reply.answer.queue_offset == 10
        assert [message.body for message in await group.reader.stored(offset=10)] == [b"to the new master"]

    run(scenario)


def test_a_slave_started_as_master_delivers_timed_messages_once() -> None:
    async def scenario(_world: World, group: Group) -> None:
        await group.slave.start()
        await group.client.send(body=b"soon", properties=f"{UNIQUE}TIMER_DELAY_SEC\x013\x02")
        await group.client.send(body=b"later", properties=f"{UNIQUE}TIMER_DELAY_SEC\x0160\x02")
        await asyncio.sleep(3 * PERIOD_S)
        await group.copied()
        await group.master.node.crash()
        await group.slave.node.stop()
        group.slave.settings = group.master.settings
        await group.slave.start()
        with suppress(ConnectionLost):
            await end_of(group.reader)
        await asyncio.sleep(5)
        assert [message.body for message in await group.reader.stored()] == [b"soon"]
        await eventually(lambda: readable(group.reader), 2)
        assert [message.body for message in await group.reader.stored()] == [b"soon", b"later"]

    run(scenario)


def test_delayed_messages_are_delivered_by_the_master_only() -> None:
    async def scenario(_world: World, group: Group) -> None:
        await group.slave.start()
        await group.client.send(body=b"later", properties=f"{UNIQUE}DELAY\x012\x02")
        await asyncio.sleep(10)
        await group.copied()
        await eventually(lambda: readable(group.reader), 1)

    run(scenario)


@pytest.mark.parametrize(("least", "alone"), [(1, 1), (2, 0)])
def test_consumers_of_a_sync_master_see_what_its_slave_has(least: int, alone: int) -> None:
    """``alone``: whether a message is seen when the slave that lacks it is gone, by minInSyncReplicas."""

    async def scenario(_world: World, group: Group) -> None:
        await group.slave.start()
        await eventually(lambda: refusals(group), 0)  # sends messages
        await group.copied()
        await asyncio.sleep(1)
        before = await readable(group.client)
        assert before > 0
        group.slave.node.freeze()
        late = frozenset({ResponseCode.FLUSH_SLAVE_TIMEOUT})
        await group.client.ask(a_send(), b"late", accept=late, timeout_ms=9_000)
        assert not await group.client.stored(offset=before), "an unconfirmed message is seen"
        await group.slave.node.crash()
        await asyncio.sleep(1)
        assert len(await group.client.stored(offset=before)) == alone
        await group.slave.start()
        async with asyncio.timeout(WAIT_S):
            while not await group.client.stored(offset=before):  # noqa: ASYNC110
                await asyncio.sleep(0.1)

    run(scenario, broker_role="SYNC_MASTER", min_in_sync_replicas=least)
