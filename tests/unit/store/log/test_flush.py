"""The syncs of the log, and a disk that fails behind it."""

import asyncio
import itertools

import pytest

from firearrow.errors import DiskError, StoreFenced
from firearrow.store.log.flush import Flusher
from firearrow.store.log.segments import Segment
from firearrow.store.placement import FLUSHED, WRITTEN, Level, QueueTail, Rows
from firearrow.store.running_log import RunningLog
from firearrow.testing.sim.world import World
from tests.simulation.store.kit import config, draft, no_sink

THOROUGH_S, INTERVAL_S, SYNC_S = 10.0, 0.5, 5.0


def test_a_slow_sync_does_not_put_off_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few messages, slow syncs: from what is written to the beginning of its sync the two intervals pass at most."""
    begun: list[float] = []

    async def slowly(_: Flusher, __: list[Segment]) -> None:
        begun.append(asyncio.get_running_loop().time())
        await asyncio.sleep(SYNC_S)

    monkeypatch.setattr(Flusher, "_sync_segments", slowly)
    settings = config(
        sync=False,
        flush_interval_commit_log=int(INTERVAL_S * 1000),
        flush_commit_log_thorough_interval=int(THOROUGH_S * 1000),
    )

    async def scenario(world: World) -> None:
        node = world.node("disk")
        running = await RunningLog.open(node.disk, node.clock, settings, "boot", no_sink)
        task = asyncio.create_task(running.run())
        tail = QueueTail("T", 0)
        for _ in range(40):
            running.log.append(tail, draft(b"x"))
            await asyncio.sleep(1.0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    World(1).run(scenario)
    gaps = [after - before for before, after in itertools.pairwise(begun)]
    assert len(gaps) >= 2
    assert max(gaps) <= THOROUGH_S + INTERVAL_S + 0.01


@pytest.mark.parametrize("level", [WRITTEN, FLUSHED])
def test_a_disk_that_fails_behind_the_log_fences_and_raises_nothing(level: Level) -> None:
    """The waiter hears of it; the loop, which could do nothing about a disk, does not."""
    unhandled: list[object] = []

    def fail(rows: Rows) -> None:
        raise DiskError(f"no queue takes {len(rows)} rows", 5)

    async def scenario(world: World) -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: unhandled.append(context))
        node = world.node("disk")
        running = await RunningLog.open(node.disk, node.clock, config(sync=level is FLUSHED), "boot", fail)
        task = asyncio.create_task(running.run())
        running.log.append(QueueTail("T", 0), draft(b"x"))
        await asyncio.sleep(1.0)
        assert isinstance(running.log.fenced, StoreFenced)
        with pytest.raises(StoreFenced):
            await running.log.reached(running.log.tail, level)
        assert not task.done() or task.exception() is None
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    World(1).run(scenario)
    assert unhandled == []
