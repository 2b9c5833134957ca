"""Functions in threads: what has begun is waited for, whoever is cancelled."""

import asyncio
import threading

import pytest

from firearrow.runtime.threads import Threads


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
