"""A slave without a coordinator takes no tables of a master whose log is another one: it may have the last copy."""

import asyncio

import pytest

from firearrow.broker.replication.agreement import Agreement
from firearrow.broker.replication.feed import Feed
from firearrow.broker.replication.master import Master
from firearrow.broker.replication.metadata import PERIOD_S
from firearrow.protocol.ha_stream import FROM_FIRST_BYTE, report
from firearrow.runtime.network import Address
from firearrow.testing.sim.world import World
from tests.unit.broker.test_replication import Group, end_of, eventually, run
from tests.unit.broker.test_table_copies import MESSAGES, begin, copied, delete_all, end, offset

LOOKS_S = 3 * PERIOD_S
HERE, THERE = Address("10.0.0.1", 10912), Address("10.0.0.2", 10912)


async def has_everything(group: Group) -> None:
    """Check that the slave has what it copied."""
    assert await end(group.reader) == MESSAGES, "the slave deleted the last copy of its messages"
    for name in ("g", "other", "third"):
        assert await offset(group.reader, name) == MESSAGES, "the slave deleted the last copy of its offsets"
        assert await offset(group.reader, name, "U") == 1, "the slave deleted the last copy of its offsets"


async def come_back_empty(group: Group) -> None:
    """Start the master with an empty disk; then let its log outgrow the slave's."""
    await group.slave.start()
    await begin(group.client)
    await copied([group.reader])
    await group.copied()
    await group.master.node.crash()
    await group.master.node.lose_disk()
    await group.master.start()
    await asyncio.sleep(LOOKS_S)
    await has_everything(group)
    while await end_of(group.client) <= await end_of(group.reader) + 1000:
        await group.client.send("B", bytes(500))
    await asyncio.sleep(LOOKS_S)
    await has_everything(group)


def lose_the_disk_of_the_master() -> None:
    """A master loses its disk and is started again."""

    async def scenario(_world: World, group: Group) -> None:
        await come_back_empty(group)

    run(scenario)


@pytest.mark.complaints("is not served|is not copied|are not copied")
def test_a_slave_keeps_everything_when_its_master_comes_back_empty() -> None:
    lose_the_disk_of_the_master()


@pytest.fixture
def apaches_masters(monkeypatch: pytest.MonkeyPatch) -> None:
    """Masters that send their log without a comparison."""

    class Plain(Feed):
        def data_received(self, data: bytes) -> None:
            if self.has_reported or data != report(FROM_FIRST_BYTE):
                super().data_received(data)

    monkeypatch.setattr(Master, "connection", lambda self: Plain(self._sent, 32 << 10, self))


@pytest.mark.complaints("is not served|is not copied|are not copied")
@pytest.mark.usefixtures("apaches_masters")
def test_a_slave_keeps_everything_when_apaches_master_comes_back_empty() -> None:
    lose_the_disk_of_the_master()


@pytest.mark.usefixtures("apaches_masters")
def test_a_slave_of_apaches_master_keeps_queues_and_offsets_that_the_master_deleted() -> None:
    async def scenario(_world: World, group: Group) -> None:
        await group.slave.start()
        await begin(group.client)
        await copied([group.reader])
        await delete_all(group.client)
        await asyncio.sleep(LOOKS_S)
        await has_everything(group)

    run(scenario)


def test_a_slave_follows_its_master_after_a_lost_connection() -> None:
    async def scenario(_world: World, group: Group) -> None:
        await group.slave.start()
        await begin(group.client)
        await copied([group.reader])
        await group.master.node.stop()
        await group.master.start()
        await delete_all(group.client)
        await eventually(lambda: end(group.reader), 0)

    run(scenario)


def test_tables_are_taken_when_their_connection_is_heard_of_again() -> None:
    async def scenario() -> None:
        agreement = Agreement(lambda: 0)
        agreement.followed = HERE
        assert agreement.connection is None
        agreement.begun(HERE)
        assert agreement.connection is None
        agreement.reached(is_compared=True)
        first = agreement.connection
        assert first is not None
        agreement.heard()
        waiting = asyncio.create_task(agreement.lasts(first))
        await asyncio.sleep(0)
        assert not waiting.done(), "what came before the question proves nothing"
        agreement.heard()
        assert await waiting
        waiting = asyncio.create_task(agreement.lasts(first))
        await asyncio.sleep(0)
        agreement.over()
        assert not await waiting
        agreement.begun(HERE)
        agreement.reached(is_compared=True)
        assert agreement.connection not in (None, first)
        assert not await agreement.lasts(first)
        agreement.followed = THERE
        assert agreement.connection is None, "the tables of one master are taken with the log of another"

    asyncio.run(scenario())
