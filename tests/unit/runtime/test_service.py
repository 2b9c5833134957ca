"""Lifetimes end in reverse order; broken invariants end the process."""

import asyncio
import logging
from typing import Any

import pytest

from firearrow.errors import BrokenInvariant, DiskError, DiskFull, StoreFenced
from firearrow.runtime.service import EXIT_BROKEN_INVARIANT, Lifetime, watch_for_broken_invariants


def test_everything_ends_in_reverse_order() -> None:
    told: list[str] = []

    async def worker(name: str) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            told.append(name)

    async def close_listener() -> None:
        told.append("listener")

    async def main() -> None:
        async with Lifetime("server") as life:
            life.on_stop(lambda: told.append("disk"))
            life.spawn(worker("flush"), "flush")
            life.on_stop(close_listener)
            life.spawn(worker("sweep"), "sweep")
            await asyncio.sleep(0)

    asyncio.run(main())
    assert told == ["sweep", "listener", "flush", "disk"]


def test_a_failing_task_ends_its_owner() -> None:
    told: list[str] = []

    async def fail() -> None:
        raise ValueError("no good")

    async def main() -> None:
        async with Lifetime("server") as life:
            life.on_stop(lambda: told.append("ended"))
            life.spawn(fail(), "fail")
            await asyncio.Event().wait()

    with pytest.raises(ExceptionGroup) as caught:
        asyncio.run(main())
    assert caught.group_contains(ValueError, match="no good")
    assert told == ["ended"]


def test_finished_tasks_and_forgotten_endings_are_not_kept() -> None:
    async def main() -> None:
        async with Lifetime("client") as life:
            for _ in range(100):
                await life.spawn(asyncio.sleep(0), "short")
            number = life.on_stop(lambda: pytest.fail("it was forgotten"))
            life.forget(number)
            assert life._endings == {}

    asyncio.run(main())


@pytest.mark.complaints("something did not end cleanly")
def test_a_failing_ending_does_not_stop_the_others() -> None:
    told: list[str] = []

    def fail() -> None:
        raise ValueError("stuck")

    async def main() -> None:
        async with Lifetime("server") as life:
            life.on_stop(lambda: told.append("first"))
            life.on_stop(fail)

    with pytest.raises(ExceptionGroup, match="server did not end cleanly"):
        asyncio.run(main())
    assert told == ["first"]


@pytest.mark.parametrize("kind", [DiskFull, StoreFenced])
def test_an_ending_that_fails_because_of_its_disk_is_told_in_one_line(
    kind: type[DiskError], caplog: pytest.LogCaptureFixture
) -> None:
    def fail() -> None:
        raise kind("no space is left for topics.json")

    async def main() -> None:
        async with Lifetime("broker") as life:
            life.on_stop(fail)

    with pytest.raises(ExceptionGroup, match="broker did not end cleanly"):
        asyncio.run(main())
    (said,) = caplog.records
    assert said.getMessage() == "something did not end cleanly: no space is left for topics.json"
    assert said.exc_info is None


def test_a_task_that_fails_while_ending_cuts_no_other_ending_short() -> None:
    told: list[str] = []

    async def fail_at_the_end() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            raise ValueError("failed while ending")

    async def slow() -> None:
        await asyncio.sleep(0.01)
        told.append("slow")

    async def main() -> None:
        async with Lifetime("server") as life:
            life.on_stop(slow)
            life.spawn(fail_at_the_end(), "fail")
            await asyncio.sleep(0)

    with pytest.raises(ExceptionGroup) as caught:
        asyncio.run(main())
    assert caught.group_contains(ValueError, match="failed while ending")
    assert told == ["slow"]


def test_cancellation_waits_for_the_endings() -> None:
    told: list[str] = []

    async def slow() -> None:
        await asyncio.sleep(0.01)
        told.append("slow")

    async def owner() -> None:
        async with Lifetime("server") as life:
            life.on_stop(slow)
            await asyncio.Event().wait()

    async def main() -> None:
        task = asyncio.ensure_future(owner())
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task])
        assert task.cancelled()

    asyncio.run(main())
    assert told == ["slow"]


@pytest.mark.complaints("bad_input", "an invariant is broken")
def test_a_broken_invariant_ends_the_process(caplog: pytest.LogCaptureFixture) -> None:
    codes: list[int] = []

    def broken() -> None:
        raise BrokenInvariant("two and two are five")

    def bad_input() -> None:
        raise ValueError("bad input")

    async def main() -> None:
        loop: Any = asyncio.get_running_loop()
        watch_for_broken_invariants(loop, end=codes.append)
        loop.call_soon(bad_input)
        loop.call_soon(broken)
        await asyncio.sleep(0)

    with caplog.at_level(logging.ERROR):
        asyncio.run(main())
    assert codes == [EXIT_BROKEN_INVARIANT]
    assert "an invariant is broken, the process ends" in caplog.messages
