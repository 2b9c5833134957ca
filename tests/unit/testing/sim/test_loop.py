"""Virtual time: no waiting, no threads, no hidden order, no silent hang."""

import asyncio
import contextvars
import time
from typing import Any

import pytest

from firearrow.testing.sim.loop import SimLoop, SimulationStalled
from firearrow.testing.sim.process import Process
from firearrow.testing.sim.world import World


def run(work: Any, **options: Any) -> Any:
    loop = SimLoop(**options)
    try:
        return loop.run_until_complete(work)
    finally:
        loop.close()


def test_a_day_passes_at_once() -> None:
    async def main() -> float:
        await asyncio.sleep(86_400)
        return asyncio.get_running_loop().time()

    start = time.perf_counter()
    assert run(main()) == 86_400
    assert time.perf_counter() - start < 5


def test_timers_of_one_instant_fire_in_order() -> None:
    async def main() -> list[int]:
        fired: list[int] = []
        loop = asyncio.get_running_loop()
        for number in range(50):
            loop.call_at(1.0, fired.append, number)
        await asyncio.sleep(2)
        return fired

    assert run(main()) == list(range(50))


def test_cancelled_timers_do_not_fire_or_pile_up() -> None:
    async def main() -> int:
        loop: Any = asyncio.get_running_loop()
        for _ in range(5000):
            loop.call_later(1000, pytest.fail, "it was cancelled").cancel()
        return len(loop._timers)

    assert run(main()) < 500


def test_stock_asyncio_works() -> None:
    async def main() -> list[object]:
        told: list[object] = []
        queue: asyncio.Queue[int] = asyncio.Queue(1)

        async def producer() -> None:
            for number in range(3):
                await queue.put(number)
                await asyncio.sleep(0.1)

        async with asyncio.TaskGroup() as group:
            group.create_task(producer())
            told += [await queue.get() for _ in range(3)]
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(5):
                await asyncio.Event().wait()
        told.append(round(asyncio.get_running_loop().time(), 6))
        done, _ = await asyncio.wait([asyncio.ensure_future(asyncio.sleep(1, n)) for n in range(5)])
        return [*told, *(task.result() for task in done)]

    assert run(main()) == [0, 1, 2, 5.3, 0, 1, 2, 3, 4]


def test_siblings_are_cancelled_in_order_of_birth() -> None:
    async def main() -> list[int]:
        ended: list[int] = []

        async def sibling(number: int) -> None:
            try:
                await asyncio.Event().wait()
            finally:
                ended.append(number)

        async def family() -> None:
            async with asyncio.TaskGroup() as group:
                for number in range(6):
                    group.create_task(sibling(number))
                await asyncio.sleep(0)
                raise ValueError

        with pytest.raises(ExceptionGroup):
            await family()
        return ended

    assert run(main()) == run(main())


def test_a_deadlock_is_told() -> None:
    async def main() -> None:
        await asyncio.Event().wait()

    with pytest.raises(SimulationStalled, match=r"every task waits.*\n.*scenario waits in Event\.wait"):
        World(1).run(lambda _: main())


def test_a_livelock_is_told() -> None:
    async def main() -> None:
        while True:  # noqa: ASYNC110 - the fault under test
            await asyncio.sleep(0)

    with pytest.raises(SimulationStalled, match="a livelock"):
        World(1, turn_limit=50_000).run(lambda _: main())


def test_threads_and_sockets_are_refused() -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        with pytest.raises(NotImplementedError, match="wanted a thread"):
            loop.run_in_executor(None, print)
        for refused in (
            loop.getaddrinfo("localhost", 80),
            loop.create_connection(asyncio.Protocol, "localhost", 80),
            loop.create_server(asyncio.Protocol, "localhost", 80),
        ):
            with pytest.raises(NotImplementedError, match="network door"):
                await refused

    run(main())


def test_frozen_callbacks_wait_in_order() -> None:
    async def main() -> list[str]:
        loop: Any = asyncio.get_running_loop()
        process = Process("node", 1)
        told: list[str] = []
        context: contextvars.Context = process.context()
        loop.freeze(process)
        loop.call_soon(told.append, "soon", context=context)
        loop.call_later(1, told.append, "later", context=context)
        loop.call_later(2, told.append, "outside")
        await asyncio.sleep(3)
        assert told == ["outside"]
        loop.thaw(process)
        await asyncio.sleep(0)
        return told

    assert run(main()) == ["outside", "soon", "later"]
