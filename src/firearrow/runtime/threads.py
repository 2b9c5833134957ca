"""Plain functions run beside the loop: handlers in a pool, what may be left behind in threads of its own.

A pool has a fixed number of threads. A function that has begun cannot be cut short: whoever waits for it waits to its
end, even when cancelled, and gets its result, so that nothing of it goes on behind the back of its caller.
"""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")


def this_thread() -> int:
    """The number of the thread that asks."""
    return threading.get_ident()


class Threads:
    """A pool of threads."""

    def __init__(self, count: int, name: str) -> None:
        self._pool = ThreadPoolExecutor(count, thread_name_prefix=name)

    async def run(self, function: Callable[[], T]) -> T:
        """Call the function in a thread and return its result; a cancellation is for functions that have not begun."""
        running = self._pool.submit(_called, function)
        future = asyncio.wrap_future(running)
        while True:
            try:
                return await asyncio.shield(future)
            except asyncio.CancelledError:
                if future.done():
                    return future.result()
                if running.cancel():
                    raise

    def close(self) -> None:
        """Take nothing more; the threads end with what they are doing."""
        self._pool.shutdown(wait=False)


class ThreadPerCall:
    """A thread for every call. Whoever is cancelled waits no longer; the function goes on by itself, unheard."""

    def __init__(self, name: str) -> None:
        self._name = name

    async def run(self, function: Callable[[], T]) -> T:
        """Call the function in a thread and return its result."""
        running: Future[T] = Future()
        running.set_running_or_notify_cancel()
        threading.Thread(target=_settle, args=(running, function), name=self._name, daemon=True).start()
        return await asyncio.wrap_future(running)


def _called(function: Callable[[], T]) -> T:
    """What a function returns; a ``StopIteration``, which no future carries, becomes a ``RuntimeError``."""
    try:
        return function()
    except StopIteration as error:
        raise RuntimeError("StopIteration was raised: a next() without a default found nothing more") from error


def _settle(running: "Future[T]", function: Callable[[], T]) -> None:
    try:
        result = _called(function)
    except BaseException as error:  # noqa: BLE001 - for whoever waits, not for this thread
        running.set_exception(error)
    else:
        running.set_result(result)
