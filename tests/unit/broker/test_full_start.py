"""A broker that was killed on a disk without room starts again, serves reads, and lets retention make room."""

import asyncio
import errno

import pytest

from firearrow.store.placement import FLUSHED
from firearrow.testing.sim.disk_image import STANDING
from firearrow.testing.sim.world import World
from tests.unit.broker.sim import SimBroker, SimClient, simulate, until
from tests.unit.broker.test_retry import stored
from tests.unit.broker.test_timers import count, put_timed, timers_of


@pytest.mark.parametrize("power", [False, True])
def test_a_broker_that_was_killed_on_a_full_disk_starts(power: bool) -> None:
    async def scenario(_world: World, broker: SimBroker, _client: SimClient) -> None:
        for number in range(300):
            broker.put(b"%d" % number + bytes(9_000))
        put_timed(broker, b"timed", TIMER_DELAY_MS="86400000")
        await broker.store.reached(broker.store.log.tail, FLUSHED)
        await asyncio.sleep(7)
        broker.node.image.leave_free(0)
        await broker.restart(power=power)
        assert len(await stored(broker, "T")) == 300, "reads are served"
        await until(lambda: broker.store.log.min_offset > 0, 60, "retention deletes files")
        broker.node.image.mend()
        await until(lambda: broker.store.retention.refusal is None, 60, "sends are accepted again")
        await until(lambda: timers_of(broker).counts.waiting == 1, 60, "the timed message is kept")

    simulate(scenario, sync=True)


@pytest.mark.parametrize(
    "below",
    ["abort", "checkpoint", "config/", "consumequeue/", "firearrow/index", "firearrow/ranges", "index/", "timer"],
)
def test_a_start_after_a_kill_needs_room_for_none_of_its_files(below: str) -> None:
    """Only a broker that runs can delete old files. A write in place, as to the flush slot, needs no room."""

    async def scenario(_world: World, broker: SimBroker, _client: SimClient) -> None:
        for number in range(300):
            broker.put(b"%d" % number, UNIQ_KEY=f"{number:032X}")
            await asyncio.sleep(0.05)
        put_timed(broker, b"timed", TIMER_DELAY_MS="5000")
        await broker.store.reached(broker.store.log.tail, FLUSHED)
        broker.node.image.fail("write", number=errno.ENOSPC, times=STANDING, below=below)
        await broker.restart()
        assert len(await stored(broker, "T")) == 300, "reads are served"
        broker.put(b"more", UNIQ_KEY=f"{300:032X}")
        await asyncio.sleep(5)
        broker.node.image.mend()
        await until(lambda: count(broker) == 302, 30, "the timed message comes")
        now_ms = broker.node.clock.now_ms()
        for number in (0, 299, 300):
            found = await broker.store.lookups.by_key("T", f"{number:032X}", 8, 0, now_ms)
            assert len(found.records) == 1, "keys are found"

    simulate(scenario, sync=True)
