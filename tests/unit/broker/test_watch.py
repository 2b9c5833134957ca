"""The warnings for an operator: holds, refusals, failures, a disk that fills up."""

import asyncio
import errno

import pytest

from firearrow import fastjson
from firearrow.broker.statistics.disk_watch import DiskWatch
from firearrow.broker.statistics.watch import SAY_EVERY_S, Watch
from firearrow.errors import RequestRefused
from firearrow.protocol.bodies.naming.route import KVTable
from firearrow.protocol.requests.admin.stats import GetBrokerRuntimeInfo
from firearrow.runtime.disk.door import Usage
from firearrow.store.deletion import RetentionConfig
from firearrow.testing.sim.world import World
from tests.simulation.store.kit import InstantDisk, fresh_image
from tests.unit.broker.whole import Client, Simulated, simulate


class Fake:
    """Stands for whoever refuses, fails and waits."""

    refused = failed = lost = 0
    longest_s = 0.0

    def waits_s(self) -> float:
        return 0.5


def test_holds_and_refusals_are_counted_and_said_once_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    fake = Fake()
    watch = Watch(fake, fake, [fake])
    watch.ticked(5, 0)
    assert not caplog.records, "nothing to say"
    watch.ticked(230, 1)
    assert "1 holds of the loop (the longest 230 ms)" in caplog.text, "the first is said at once"
    assert caplog.records[0].levelname == "WARNING"
    fake.refused, fake.failed, fake.lost, fake.longest_s = 7, 2, 1, 1.25
    for second in range(2, 40):
        watch.ticked(40, second)
    assert len(caplog.records) == 1, "the rest together"
    watch.ticked(0, SAY_EVERY_S + 2)
    assert "7 sends refused as busy, 3 failed, 38 holds of the loop (the longest 40 ms)" in caplog.text
    assert watch.table() == {
        "putMessageFailedTimes": "3",
        "putMessageEntireTimeMax": "1250",
        "pageCacheLockTimeMills": "500",
        "sendsRefusedAsBusy": "7",
        "loopHolds": "39",
        "loopHoldMillsMax": "230",
    }


def test_a_loop_that_is_held_is_seen() -> None:
    async def main() -> Watch:
        fake = Fake()
        watch = Watch(fake, fake, [fake])
        running = asyncio.create_task(watch.run())
        loop = asyncio.get_running_loop()
        while not watch.holds:
            ends = loop.time() + 0.1
            while loop.time() < ends:
                pass
            await asyncio.sleep(0.03)
        running.cancel()
        return watch

    watch = asyncio.run(asyncio.wait_for(main(), 10))
    assert watch.longest_hold_ms >= 20


def test_status_says_what_failed() -> None:
    async def scenario(_world: World, broker: Simulated, client: Client) -> None:
        async def status() -> dict[str, str]:
            reply = await client.ask(GetBrokerRuntimeInfo())
            return fastjson.decode(reply.body, KVTable).table

        await client.send()
        before = await status()
        assert (before["putMessageFailedTimes"], before["sendsRefusedAsBusy"]) == ("0", "0")
        assert int(before["putMessageEntireTimeMax"]) >= 0
        broker.node.image.fail("write", number=errno.ENOSPC, below="commitlog/", times=3)
        for _ in range(3):
            with pytest.raises(RequestRefused):
                await client.send()
        assert (await status())["putMessageFailedTimes"] == "3"

    simulate(scenario)


def test_a_disk_that_fills_up_is_said_with_bytes_and_path(caplog: pytest.LogCaptureFixture) -> None:
    watch = DiskWatch(InstantDisk(fresh_image()), "/data/store", RetentionConfig)
    gib = 1 << 30
    for free in (50, 24, 24, 14, 9, 50):
        watch.look(Usage(100 * gib, free * gib))
    said = [record.getMessage() for record in caplog.records]
    where = "the disk of /data/store is"
    assert said == [
        f"{where} 76 % full, 24.0 GiB of 100.0 GiB free: above 75 %, expired log files are deleted at any hour",
        f"{where} 86 % full, 14.0 GiB of 100.0 GiB free: above 85 %, files that are not expired are deleted too",
        f"{where} 91 % full, 9.0 GiB of 100.0 GiB free: above 90 %, sends are refused",
        f"{where} 50 % full, 50.0 GiB of 100.0 GiB free: back below 90 %",
    ]
