"""Which tables of a master a slave may take."""

import asyncio
from types import SimpleNamespace
from typing import Any, NamedTuple, cast

import pytest

from firearrow.broker.replication.metadata import Metadata, Told
from firearrow.broker.replication.table_source import AnyMaster, MasterOfEpoch
from firearrow.broker.settings.config import BrokerSettings
from firearrow.broker.settings.live import LiveSettings
from firearrow.broker.tables.tables import Tables
from firearrow.errors import StaleEpoch
from firearrow.protocol.bodies.body import encode_body
from firearrow.protocol.bodies.group.offset import DelayOffsetTable
from firearrow.protocol.bodies.naming.route import KVTable
from firearrow.protocol.bodies.replication.replication import EpochEntry, EpochEntryCache
from firearrow.remoting.caller import Caller
from firearrow.runtime.network import Address
from firearrow.store.placement import WRITTEN
from firearrow.testing.sim.loop import SimLoop

MASTER = Address("10.0.0.1", 10911)


class Reply(NamedTuple):
    body: bytes


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
    assert asyncio.run(AnyMaster(caller(KVTable(table={"commitLogMaxOffset": "77"}))).log_end(MASTER)) == 77


class Copied:
    """A store whose log reaches what is asked for when it is told to."""

    def __init__(self) -> None:
        self.views = SimpleNamespace(dispatch=SimpleNamespace(views=[]))
        self.log = SimpleNamespace(kept_at=WRITTEN)
        self.has_all = asyncio.Event()

    async def reached(self, _offset: int, _level: object) -> None:
        await self.has_all.wait()


def test_offsets_are_taken_after_the_log_that_belongs_to_them() -> None:
    async def scenario() -> None:
        store, taken = Copied(), list[tuple[object, ...]]()
        tables = SimpleNamespace(
            store=store,
            topics=None,
            settings=LiveSettings(BrokerSettings()),
            offsets=SimpleNamespace(commit=lambda *row: taken.append(row)),
            offset_file=SimpleNamespace(changed=lambda: None),
        )
        delays = SimpleNamespace(offsets=None, file=SimpleNamespace(changed=lambda: None))
        metadata = Metadata(cast("Tables", tables), cast("Any", delays), caller(KVTable()))
        metadata._told = Told(900, {"T@g": {0: 7}}, DelayOffsetTable(), None)
        await metadata._take_told()
        assert not taken, "offsets are taken before the log"
        store.has_all.set()
        await metadata._take_told()
        assert taken == [("g", "T", 0, 7)]
        assert metadata._told is None

    loop = SimLoop()
    try:
        loop.run_until_complete(scenario())
    finally:
        loop.close()
