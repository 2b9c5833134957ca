"""Every call of the log to its disk fails once, in turn: no acknowledgement after a failed flush, clean recovery."""

import asyncio
import errno
import random

import pytest

from firearrow.errors import DiskError, DiskFull, StoreFenced
from firearrow.store.placement import FLUSHED, QueueTail
from firearrow.store.running_log import RunningLog
from firearrow.store.sidecars.sidecar import newest_slot
from firearrow.testing.sim.world import Node, World
from tests.simulation.store.crashes import Explorer, History
from tests.simulation.store.kit import config, draft, no_sink

OPERATIONS = ("write", "sync", "sync_directory", "truncate", "allocate", "create", "rename", "unlink", "read", "list")
SETTINGS = {sync: config(sync=sync, segment=4096, flush_interval_commit_log=10) for sync in (True, False)}


async def _append(running: RunningLog, history: History, rounds: int) -> None:
    """Append and wait for each round to be flushed; what the log refuses because it is full is tried no more."""
    tail = QueueTail("T", 0, len(history.placed))
    for number in range(rounds):
        body = number.to_bytes(2, "big") * (100 + number * 7 % 300)
        try:
            place = running.log.append(tail, draft(body))
            history.placed.append((place.physical_offset, place.end, place.queue_offset, body))
            await running.log.reached(place.end, FLUSHED)
        except DiskFull:
            history.take_back(running.log.tail)
            await asyncio.sleep(0.05)
            continue
        history.flushed = history.written = place.end


async def _run(node: Node, history: History, *, sync: bool) -> None:
    """One run of the log until its end or the first error that is not a full disk."""
    try:
        running = await RunningLog.open(node.disk, node.clock, SETTINGS[sync], history.boot_id, no_sink)
    except DiskError:
        return
    history.take_back(running.log.tail)
    async with asyncio.TaskGroup() as group:
        task = group.create_task(running.run())
        try:
            await _append(running, history, 12)
            await running.close()
        except DiskError:
            await _stays_fenced(running)
        task.cancel()


async def _stays_fenced(running: RunningLog) -> None:
    if running.log.fenced is None:
        return  # closing failed, or making a segment: nothing was promised
    flushed = running.log.flushed
    with pytest.raises(DiskError):
        running.log.append(QueueTail("T", 1), draft(b"after the fence"))
    with pytest.raises(DiskError):
        await running.log.reached(flushed + 1, FLUSHED)
    await asyncio.sleep(2)
    assert running.log.flushed == flushed


def _fires(operation: str, number: int, after: int, *, sync: bool) -> bool:
    """One run with one failing call, then crashes and a recovery; whether the call was ever made."""
    world = World(after)
    history = History()
    explorer = Explorer(random.Random(after), SETTINGS[sync], history)

    async def scenario(world: World) -> bool:
        node = world.node("disk")
        node.image.fail(operation, number=number, after=after)
        node.start(lambda node: _run(node, history, sync=sync))
        await node.finished()
        fired = not node.image._failures
        node.image._failures.clear()
        history.sync_failed = fired and operation == "sync"
        for power in (True, True, False):
            explorer.state(node.image, power=power)
        await node.crash()
        node.start(lambda node: _run(node, history, sync=sync))
        await node.finished()
        history.sync_failed = False
        explorer.state(node.image, power=True)
        assert len(history.placed) >= 12, "the second run had no fault and must have gone through"
        return fired

    return world.run(scenario)


@pytest.mark.parametrize("sync", [True, False], ids=["SYNC_FLUSH", "ASYNC_FLUSH"])
@pytest.mark.parametrize("number", [errno.EIO, errno.ENOSPC], ids=["EIO", "ENOSPC"])
@pytest.mark.parametrize("operation", OPERATIONS)
def test_every_call_may_fail(operation: str, number: int, *, sync: bool) -> None:
    after = 0
    while _fires(operation, number, after, sync=sync):
        after += 1
    assert after > 0 or operation in ("allocate", "unlink", "truncate"), "nothing was tried"


def test_a_sync_that_waited_for_a_failed_one_promises_nothing() -> None:
    async def program(node: Node) -> None:
        running = await RunningLog.open(node.disk, node.clock, SETTINGS[True], "boot-1", no_sink)
        running.log.append(QueueTail("T", 0), draft(b"x"))
        node.image.fail("sync")
        ends = await asyncio.gather(running.flush(), running.flush(), running.flush(), return_exceptions=True)
        assert all(isinstance(end, StoreFenced) for end in ends)
        file = node.image.file("firearrow/flushed")
        slot = newest_slot(file.read(0, file.size))
        assert slot is not None
        assert slot.flushed == running.log.flushed == 0

    async def scenario(world: World) -> None:
        node = world.node("disk")
        node.start(program)
        await node.finished()

    World(1).run(scenario)
