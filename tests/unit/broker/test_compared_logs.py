"""A slave whose log went another way than its master's is refused for good, and a slave counts once."""

import asyncio
from typing import Any

import pytest

from firearrow.broker.replication.comparing_slave import ComparingSlave
from firearrow.broker.replication.feed import Feed
from firearrow.broker.replication.master import Master
from firearrow.broker.replication.slave import MasterLink
from firearrow.protocol.codes import ResponseCode
from firearrow.protocol.ha_stream import FROM_FIRST_BYTE, Claim, Spans, encode_claim, report
from firearrow.runtime.network import Address
from firearrow.testing.sim.world import World
from tests.unit.broker.sim import until
from tests.unit.broker.test_hostile_log_port import HA_PORT, Slave, Stage, at_a_master
from tests.unit.broker.test_replication import Group, code_of_send, end_of, eventually, run
from tests.unit.broker.whole import UNIQUE, a_send

ADVICE = "Keep a copy of the slave's store directory"


class Echo(Slave):
    """A slave that keeps nothing and reports everything that it is sent."""

    def __init__(self) -> None:
        super().__init__(report(0))
        self._spans = Spans()

    def data_received(self, data: bytes) -> None:
        for offset, part in self._spans.feed(data):
            self.transport.write(report(offset + len(part)))


async def begin_anew(group: Group) -> None:
    """Take the master's log away, as a power loss takes its end."""
    await group.master.node.stop()
    disk = group.master.node.disk
    for name in await disk.list("commitlog"):
        await disk.unlink(f"commitlog/{name}")
    for name in ("firearrow/flushed", "firearrow/ranges.json"):
        await disk.unlink(name)
    await group.master.start()


def outgrow_a_slave_that_went_another_way() -> None:
    """The master's log is lost and outgrows the slave's, which has other records."""

    async def scenario(_world: World, group: Group) -> None:
        await group.slave.start()
        await eventually(lambda: code_of_send(group), ResponseCode.SUCCESS)
        for _ in range(20):
            assert await code_of_send(group) == ResponseCode.SUCCESS
        await group.copied()
        await begin_anew(group)
        end = await end_of(group.reader)
        while await end_of(group.client) <= end + 1000:
            assert await code_of_send(group) == ResponseCode.SLAVE_NOT_AVAILABLE, "a slave with another log counts"
        for _ in range(5):
            await asyncio.sleep(2)
            assert await code_of_send(group) == ResponseCode.SLAVE_NOT_AVAILABLE, "a slave with another log counts"
        assert await end_of(group.reader) == end, "a slave with another log was served"

    run(scenario, broker_role="SYNC_MASTER")


@pytest.mark.complaints("is not served|is not copied|SLAVE_NOT_AVAILABLE")
def test_a_slave_that_went_another_way_is_refused_when_the_master_outgrows_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    outgrow_a_slave_that_went_another_way()
    for logger in ("compared_feed", "slave"):
        said = [record for record in caplog.records if record.name.endswith(logger)]
        assert any(ADVICE in record.getMessage() for record in said), f"{logger} says nothing"


@pytest.mark.complaints("is not served|is not copied")
def test_a_slave_of_the_same_length_with_other_records_is_refused(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(_world: World, group: Group) -> None:
        await group.slave.start()
        await group.send(20)
        await group.copied()
        await group.slave.node.stop()
        end = await end_of(group.client)
        await begin_anew(group)
        assert not await end_of(group.client)
        await group.send(20)
        assert await end_of(group.client) == end
        await group.slave.start()

        async def complaints() -> int:
            return min(caplog.text.count(ADVICE), 1)

        await eventually(complaints, 1)
        await group.send(5)
        await asyncio.sleep(5)
        assert await end_of(group.reader) == end

    run(scenario)


def connect_one_machine_twice() -> None:
    """Two connections of one machine report that they have everything."""

    async def scenario(stage: Stage) -> None:
        node = stage.world.node("one machine")
        for _ in range(2):
            await node.network.connect(Echo, Address(stage.broker.node.host, HA_PORT))
        await until(lambda: [feed.acked for feed in stage.feeds] == [0, 0])
        reply = await stage.client.ask(a_send(properties=UNIQUE), b"x", accept=frozenset({0, 11, 12}))
        assert reply.code == ResponseCode.SLAVE_NOT_AVAILABLE, "one machine counts as two replicas"

    at_a_master(scenario, broker_role="SYNC_MASTER", in_sync_replicas=3, ha_max_gap_not_in_sync=1 << 28)


def test_two_connections_of_one_machine_are_one_replica() -> None:
    connect_one_machine_twice()


def test_a_slave_that_connects_again_replaces_its_half_open_connection() -> None:
    async def scenario(stage: Stage) -> None:
        def words(identity: int) -> tuple[bytes, ...]:
            return report(FROM_FIRST_BYTE), encode_claim(Claim(identity, 0, 0, 0, 0)), report(FROM_FIRST_BYTE)

        first = await stage.slave(*words(7))
        await until(lambda: [feed.identity for feed in stage.feeds] == [7])
        await stage.slave(*words(7))
        await asyncio.wait_for(first.ended.wait(), 5)
        await stage.slave(*words(8))
        await until(lambda: [feed.identity for feed in stage.feeds] == [7, 8])

    at_a_master(scenario)


def test_a_slave_of_ours_is_known_by_its_directory_whatever_its_connection() -> None:
    async def scenario(_world: World, group: Group) -> None:
        found: list[Any] = []
        identified = Master.identified

        def noted(self: Master, feed: Any) -> None:
            found.append(feed.identity)
            identified(self, feed)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Master, "identified", noted)
            await group.slave.start()
            await group.send(5)
            await group.copied()
            await group.slave.node.crash()
            await group.slave.start()
            await group.send(5)
            await group.copied()
        assert len(found) == 2
        assert len(set(found)) == 1
        assert found[0]

    run(scenario)


@pytest.mark.parametrize("hears_first_report", [True, False], ids=["an older one of ours", "Apache's"])
def test_a_slave_goes_on_at_a_master_that_compares_nothing(
    hears_first_report: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Plain(Feed):
        def data_received(self, data: bytes) -> None:
            if hears_first_report or self.has_reported or data != report(FROM_FIRST_BYTE):
                super().data_received(data)

    def connection(self: Master) -> Feed:
        return Plain(self._sent, 32 << 10, self)

    monkeypatch.setattr(Master, "connection", connection)
    compared: list[bool] = []
    compare = ComparingSlave._compare

    async def noted(self: ComparingSlave, link: MasterLink) -> bool:
        compared.append(await compare(self, link))
        return compared[-1]

    monkeypatch.setattr(ComparingSlave, "_compare", noted)

    async def scenario(_world: World, group: Group) -> None:
        await group.slave.start()
        await eventually(lambda: masters_seen(compared), 1)
        await group.send(20)
        await group.copied()
        await group.slave.node.crash()
        await group.send(20)
        await group.slave.start()
        await group.copied()

    run(scenario)
    assert compared == [not hears_first_report] * 2


async def masters_seen(compared: list[bool]) -> int:
    return len(compared)
