"""Group commit and the choice of route, decided without a disk."""

import asyncio
import subprocess
from concurrent.futures import ThreadPoolExecutor

import pytest

from firearrow.errors import SyncFailed
from firearrow.runtime.disk.group_commit import SyncEnded, SyncTurns
from firearrow.runtime.disk.sync_choice import (
    FIRST_SAMPLES,
    INLINE_BYTES_MAX,
    INLINE_LIMIT_NS,
    WINDOW,
    SyncChoice,
    SyncPlace,
)
from firearrow.runtime.disk.sync_route import SyncProcess


class Device:
    """Remembers the syncs begun and ends them when told."""

    def __init__(self) -> None:
        self.begun: list[SyncEnded] = []

    def begin(self, ended: SyncEnded) -> None:
        self.begun.append(ended)


def test_a_hundred_askers_cost_two_syncs() -> None:
    async def main() -> None:
        device = Device()
        turns = SyncTurns("file", device.begin)
        first = asyncio.ensure_future(turns.sync())
        await asyncio.sleep(0)
        others = [asyncio.ensure_future(turns.sync()) for _ in range(100)]
        await asyncio.sleep(0)
        assert len(device.begun) == 1
        device.begun[0](None)
        await first
        assert len(device.begun) == 2
        assert not any(other.done() for other in others)  # the first sync began before they wrote
        device.begun[1](None)
        await asyncio.gather(*others)
        assert not turns.busy

    asyncio.run(main())


def test_a_failure_fences_everybody_after_it() -> None:
    async def main() -> None:
        device = Device()
        turns = SyncTurns("file", device.begin)
        waiting = [asyncio.ensure_future(turns.sync()) for _ in range(3)]
        await asyncio.sleep(0)
        waiting[0].cancel()
        device.begun[0](OSError(5, "Input/output error"))
        results = await asyncio.gather(*waiting, return_exceptions=True)
        assert [type(result) for result in results] == [asyncio.CancelledError, SyncFailed, SyncFailed]
        with pytest.raises(SyncFailed, match="a sync of file failed: Input/output error"):
            await turns.sync()
        assert len(device.begun) == 1
        assert turns.fenced

    asyncio.run(main())


def taught(choice: SyncChoice, nanoseconds: int, times: int) -> SyncChoice:
    for _ in range(times):
        choice.took(nanoseconds, 100)
    return choice


FAST, SLOW = INLINE_LIMIT_NS // 2, INLINE_LIMIT_NS * 10


def test_fast_syncs_move_onto_the_loop() -> None:
    choice = SyncChoice()
    assert choice.route(0) is SyncPlace.THREAD
    assert taught(choice, FAST, FIRST_SAMPLES).route(0) is SyncPlace.INLINE
    assert choice.route(INLINE_BYTES_MAX + 1) is SyncPlace.PROCESS


def test_slow_syncs_move_to_the_other_process_and_back() -> None:
    choice = taught(SyncChoice(), SLOW, FIRST_SAMPLES)
    assert choice.route(0) is SyncPlace.PROCESS
    assert taught(choice, FAST, WINDOW).route(0) is SyncPlace.INLINE
    assert taught(choice, SLOW, 2).route(0) is SyncPlace.INLINE
    assert taught(choice, SLOW, 1).route(0) is SyncPlace.PROCESS
    assert taught(choice, FAST, WINDOW).route(0) is SyncPlace.PROCESS  # more reluctantly the second time
    assert taught(choice, FAST, WINDOW).route(0) is SyncPlace.INLINE


def test_without_the_other_process_threads_do_it() -> None:
    choice = taught(SyncChoice(), SLOW, FIRST_SAMPLES)
    choice.no_process()
    assert choice.route(0) is SyncPlace.THREAD
    assert taught(choice, SLOW, 10 * WINDOW).route(0) is SyncPlace.THREAD
    assert taught(choice, FAST, WINDOW).route(0) is SyncPlace.INLINE
    assert choice.route(INLINE_BYTES_MAX + 1) is SyncPlace.THREAD
    assert taught(choice, SLOW, 3).route(0) is SyncPlace.THREAD


def test_big_syncs_teach_nothing() -> None:
    choice = taught(SyncChoice(), FAST, FIRST_SAMPLES)
    for _ in range(100):
        choice.took(SLOW, INLINE_BYTES_MAX + 1)
    assert choice.route(0) is SyncPlace.INLINE


def test_a_process_that_has_just_started_is_ended_too() -> None:
    async def main() -> tuple[subprocess.Popen[bytes], bool]:
        loop = asyncio.get_running_loop()
        with ThreadPoolExecutor(1) as pool:
            process = SyncProcess(SyncChoice())
            process.start(loop, pool)
            assert process._starting is not None
            began = loop.create_future()
            process._starting.add_done_callback(lambda spawned: began.set_result(spawned.result()))
            channel, child = await began
            process._channel = process._child = None  # as before the callback of the start
            loop.remove_reader(channel.fileno())
            process._starting = loop.create_future()
            process._starting.add_done_callback(process._started)
            process._starting.set_result((channel, child))
            await process.close(pool)
            return child, channel.fileno() == -1

    child, is_closed = asyncio.run(main())
    assert is_closed
    assert child.returncode is not None
