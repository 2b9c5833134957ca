"""Which tables of a master a slave may take."""

import asyncio
from typing import Any, NamedTuple, cast

import pytest

from firearrow.broker.replication.table_source import AnyMaster, MasterOfEpoch
from firearrow.errors import StaleEpoch
from firearrow.protocol.bodies.body import encode_body
from firearrow.protocol.bodies.naming.route import KVTable
from firearrow.protocol.bodies.replication.replication import EpochEntry, EpochEntryCache
from firearrow.remoting.caller import Caller
from firearrow.runtime.network import Address

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
