"""A store that Apache's broker wrote opens in ours, and every message in it is found."""

import asyncio

import pytest

from campaigns.store.examine import Findings
from campaigns.store.plan import BATCH, message, steps, topic_name
from campaigns.store.programs import examine_as_ours, inspect_store
from campaigns.store.talk import talking_to
from judges import ApacheBroker
from tests.interop.store.conftest import BrokerOf, Record, for_each_version
from tests.interop.store.sizes import EVERY, KILLED, SECONDS, STOPPED

pytestmark = [pytest.mark.apache, pytest.mark.timeout(SECONDS)]

TIMED = 8
FLUSH = {"4.9.7": "ASYNC_FLUSH", "5.5.0": "SYNC_FLUSH"}


def test_stopped(broker_of: BrokerOf, record: Record) -> None:
    """Keys, tags, batches, delays, timers, large bodies; the broker ends in order."""

    async def work(version: str) -> None:
        async with broker_of(version) as broker:
            await asyncio.to_thread(broker.start)
            async with talking_to(broker.address) as talk:
                promised = await talk.send(steps(0, STOPPED))
                assert len(promised) == STOPPED
                timed = await talk.send_timed(topic_name(0), TIMED) if version.startswith("5.") else 0
                due = sum(message(number).is_delivered for number in promised)
                await talk.holds(due + timed, SECONDS / 4)
            await asyncio.to_thread(broker.stop)
            await asyncio.to_thread(check_beside, broker, version)
            inspected = await asyncio.to_thread(inspect_store, broker.store)
            assert inspected.status == 0, inspected
            findings = await asyncio.to_thread(examine_as_ours, broker.store, promised, every=EVERY)
        assert not findings.wrong, findings
        assert findings.planned == due
        assert findings.by_queue == findings.records == inspected.records >= due
        assert findings.whole == inspected.whole == 0, "Apache stamps nothing unless told to"
        record("Apache wrote, stopped", version, acknowledged=len(promised), **figures_of(findings))

    for_each_version(work)


def figures_of(findings: Findings) -> dict[str, int]:
    """The findings as numbers."""
    ways = {"by_queue": findings.by_queue, "by_id": findings.by_id, "by_key": findings.by_key}
    found = {f"found_{way}": count for way, count in (ways | {"by_time": findings.by_time}).items()}
    return {"records": findings.records} | found | {"wrong": len(findings.wrong)}


def check_beside(broker: ApacheBroker, version: str) -> None:
    """Check the other files of the directory: ours must open it with all of them there."""
    names = {path.name for path in broker.store.iterdir()}
    assert {"commitlog", "consumequeue", "index", "config", "checkpoint", "lock"} <= names
    assert "abort" not in names
    if version.startswith("5."):
        assert {"rocksdbstore", "timerwheel", "compaction"} <= names, names
    assert len(list((broker.store / "commitlog").iterdir())) > 1


def test_killed(broker_of: BrokerOf, record: Record) -> None:
    """The broker is killed with -9 while it writes: what it acknowledged is there."""

    async def work(version: str) -> None:
        async with broker_of(version, flushDiskType=FLUSH[version]) as broker:
            await asyncio.to_thread(broker.start)

            def kill(acknowledged: int) -> None:
                if acknowledged > KILLED * 3 // 4 and broker.running:
                    broker.kill()

            async with talking_to(broker.address) as talk:
                promised = await talk.send(steps(0, KILLED), kill)
            assert KILLED // 2 < len(promised) < KILLED, "it was killed before it had them all"
            assert (broker.store / "abort").exists()
            findings = await asyncio.to_thread(examine_as_ours, broker.store, promised, every=EVERY)
        assert not findings.wrong, findings
        assert findings.by_queue == findings.records >= len(promised)
        scheduled = sum(message(number).delay_level > 0 for number in promised)
        assert findings.planned + scheduled >= len(promised)
        assert findings.planned <= KILLED + BATCH
        record("Apache wrote, killed", version, acknowledged=len(promised), **figures_of(findings))

    for_each_version(work)
