"""Functions in threads: what has begun is waited for, whoever is cancelled."""

import asyncio
import threading
from collections.abc import Awaitable, Callable

import pytest

from firearrow.runtime.threads import ThreadPerCall, Threads


def test_a_cancellation_waits_for_a_function_that_has_begun() -> None:
    begun, may_end = threading.Event(), threading.Event()

    def function() -> str:
        begun.set()
        may_end.wait(60)
        return "its result"

    async def main() -> None:
        pool = Threads(1, "test")
        task = asyncio.create_task(pool.run(function))
        await asyncio.to_thread(begun.wait, 60)
        for _ in range(3):
            task.cancel()
            await asyncio.sleep(0)
            assert not task.done()
        may_end.set()
        assert await task == "its result"
        pool.close()

    asyncio.run(main())


def test_a_cancellation_ends_a_function_that_has_not_begun() -> None:
    may_end = threading.Event()
    called: list[bool] = []

    async def main() -> None:
        pool = Threads(1, "test")
        first = asyncio.create_task(pool.run(lambda: may_end.wait(60)))
        second = asyncio.create_task(pool.run(lambda: called.append(True)))
        await asyncio.sleep(0)
        second.cancel()
        with pytest.raises(asyncio.CancelledError):
            await second
        may_end.set()
        assert await first
        pool.close()

    asyncio.run(main())
    assert called == []


def test_a_cancelled_error_of_the_function_itself_is_raised_once() -> None:
    def function() -> None:
        raise asyncio.CancelledError

    async def main() -> None:
        pool = Threads(1, "test")
        with pytest.raises(asyncio.CancelledError):
            await pool.run(function)
        pool.close()

    asyncio.run(main())


def test_who_waits_for_a_thread_of_its_own_may_give_up() -> None:
    begun, may_end, ended = threading.Event(), threading.Event(), threading.Event()

    def function() -> None:
        begun.set()
        may_end.wait(60)
        ended.set()

    async def main() -> None:
        task = asyncio.create_task(ThreadPerCall("test").run(function))
        await asyncio.to_thread(begun.wait, 60)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        may_end.set()
        assert await asyncio.to_thread(ended.wait, 60)

    asyncio.run(main())


@pytest.mark.parametrize("run", [Threads(1, "test").run, ThreadPerCall("test").run])
def test_an_empty_iterator_in_a_thread_is_an_error_like_any_other(
    run: Callable[[Callable[[], object]], Awaitable[object]],
) -> None:
    async def main() -> None:
        with pytest.raises(RuntimeError, match="StopIteration"):
            await asyncio.wait_for(run(lambda: next(iter(()))), 60)

    asyncio.run(main())


@pytest.mark.parametrize("error", [ValueError, SystemExit, asyncio.CancelledError])
def test_what_a_function_raises_in_a_thread_of_its_own_reaches_who_waits(error: type[BaseException]) -> None:
    def function() -> None:
        raise error

    async def main() -> None:
        with pytest.raises(error):
            await ThreadPerCall("test").run(function)

    asyncio.run(main())
