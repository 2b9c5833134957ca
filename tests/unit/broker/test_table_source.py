"""The tables of a master that a slave may take."""

import asyncio
from types import SimpleNamespace
from typing import Any, NamedTuple, cast

import pytest

from firearrow.broker.replication.agreement import Agreement
from firearrow.broker.replication.metadata import MasterChanges, Metadata
from firearrow.broker.replication.offset_copies import ToldOffsets
from firearrow.broker.replication.table_source import AnyMaster, MasterOfEpoch
from firearrow.broker.tables.offsets import OffsetTable
from firearrow.errors import OffsetNotStored, StaleEpoch
from firearrow.protocol.bodies.body import encode_body
from firearrow.protocol.bodies.group.offset import DelayOffsetTable
from firearrow.protocol.bodies.naming.route import KVTable
from firearrow.protocol.bodies.replication.replication import EpochEntry, EpochEntryCache
from firearrow.protocol.requests.replication.replication import GetBrokerEpochCache, GetBrokerEpochCacheAnswer
from firearrow.remoting.caller import Caller
from firearrow.runtime.network import Address
from firearrow.testing.sim.loop import SimLoop

MASTER = Address("10.0.0.1", 10911)


class Reply(NamedTuple):
    body: bytes
    answer: GetBrokerEpochCacheAnswer = GetBrokerEpochCacheAnswer(tables=0)


class Asked:
    """Answers every call with one body."""

    def __init__(self, body: Any) -> None:
        self._body = encode_body(body)

    async def call(self, *_arguments: object, **_options: object) -> Reply:
        return Reply(self._body)


def caller(body: Any) -> Caller:
    return cast("Caller", Asked(body))


def cache(broker_id: int, *epochs: int) -> EpochEntryCache:
    entries = [EpochEntry(epoch=epoch, start_offset=100 * epoch, end_offset=1000) for epoch in epochs]
    return EpochEntryCache(broker_id=broker_id, epoch_list=entries, max_offset=900)


def test_tables_are_taken_from_the_master_of_the_epoch_only() -> None:
    assert asyncio.run(MasterOfEpoch(caller(cache(0, 1, 3)), 3).log_end(MASTER)) == 900
    for found in (cache(0, 1), cache(0, 1, 4), cache(2, 1, 3), cache(0)):
        with pytest.raises(StaleEpoch, match="its tables may be old"):
            asyncio.run(MasterOfEpoch(caller(found), 3).log_end(MASTER))


def test_a_master_without_a_coordinator_tells_the_end_of_its_log() -> None:
    asked = caller(KVTable(table={"commitLogMaxOffset": "77"}))
    assert asyncio.run(AnyMaster(asked, Agreement(lambda: 77)).log_end(MASTER)) == 77
    with pytest.raises(OffsetNotStored, match="ends at 77 and the one here at 78"):
        asyncio.run(AnyMaster(asked, Agreement(lambda: 78)).log_end(MASTER))


class Copied:
    """A store whose queues have what is asked for when it is told to."""

    def __init__(self) -> None:
        self.views = SimpleNamespace(dispatch=SimpleNamespace(views=[]))
        self.queues = SimpleNamespace(on_anew=[], topics=list)
        self.retention = SimpleNamespace(master_start=None)
        self.has_all = asyncio.Event()

    async def dispatched(self, _offset: int) -> None:
        await self.has_all.wait()

    async def end_lives(self, ends: dict[str, int]) -> None:
        assert not ends


def test_offsets_are_taken_after_the_log_that_belongs_to_them() -> None:
    async def scenario() -> None:
        store, offsets = Copied(), OffsetTable()
        file = SimpleNamespace(changed=lambda: None)
        tables = SimpleNamespace(
            topics=SimpleNamespace(table=SimpleNamespace(topics={})),
            offsets=SimpleNamespace(table=offsets, file=file),
            delays=SimpleNamespace(offsets=None, file=file),
        )
        asked = caller(KVTable())
        metadata = Metadata(
            cast("Any", tables), asked, MasterOfEpoch(asked, 1), store=cast("Any", store), disk=cast("Any", None)
        )
        metadata._told = MasterChanges(
            0, 800, 800, 100, 900, None, {}, ToldOffsets({"T@g": {0: 7}}), DelayOffsetTable(), None
        )
        await metadata._take_told()
        assert not len(offsets), "offsets are taken before the log"
        assert store.retention.master_start is None
        store.has_all.set()
        await metadata._take_told()
        assert offsets.of("g", "T") == {0: 7}
        assert metadata._told is None
        assert store.retention.master_start == 100

    loop = SimLoop()
    try:
        loop.run_until_complete(scenario())
    finally:
        loop.close()


class AtOnce(Asked):
    """A master that holds no question."""

    asked = 0

    async def call(self, *_arguments: object, **_options: object) -> Reply:
        self.asked += 1
        await asyncio.sleep(0.001)
        return Reply(self._body)


def ask_a_master_that_holds_nothing() -> None:
    master = AtOnce(cache(0, 3))

    async def scenario() -> None:
        source = MasterOfEpoch(cast("Caller", master), 3)
        await source.log_end(MASTER)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(10):
                await source.changed(MASTER)

    loop = SimLoop()
    try:
        loop.run_until_complete(scenario())
    finally:
        loop.close()
    assert master.asked <= 12, f"{master.asked} questions in 10 s"


def test_a_master_that_answers_at_once_is_asked_once_a_second() -> None:
    ask_a_master_that_holds_nothing()


class Changing(Asked):
    """A master whose tables change while the second question about them is under way."""

    def __init__(self, body: Any) -> None:
        super().__init__(body)
        self.number = 0
        self.asked = asyncio.Event()
        self.may_answer = asyncio.Event()

    async def call(self, *arguments: object, **_options: object) -> Reply:
        _, request = arguments
        if cast("GetBrokerEpochCache", request).known is not None:
            self.asked.set()
            await self.may_answer.wait()
        return Reply(self._body, GetBrokerEpochCacheAnswer(tables=self.number))


def test_a_change_that_a_look_brings_while_the_question_is_under_way_is_told_at_once() -> None:
    async def scenario() -> None:
        master = Changing(cache(0, 3))
        source = MasterOfEpoch(cast("Caller", master), 3)
        await source.log_end(MASTER)
        told = asyncio.create_task(source.changed(MASTER))
        await master.asked.wait()
        master.number = 1
        await source.log_end(MASTER)
        master.may_answer.set()
        async with asyncio.timeout(0.5):
            await told

    loop = SimLoop()
    try:
        loop.run_until_complete(scenario())
    finally:
        loop.close()
