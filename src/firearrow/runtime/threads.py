"""Threads for users' plain functions: a pool for handlers, a thread per call for functions that may be abandoned.

A pool has a fixed number of threads. A function that has begun cannot be interrupted: its caller waits for its end,
even if cancelled, and gets its result, so that no function runs on after its caller has returned.
"""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")


def this_thread() -> int:
    """Return the id of the calling thread."""
    return threading.get_ident()


class Threads:
    """A pool of threads."""

    def __init__(self, count: int, name: str) -> None:
        self._pool = ThreadPoolExecutor(count, thread_name_prefix=name)

    async def run(self, function: Callable[[], T]) -> T:
        """Call the function in a thread and return its result; only a function that has not begun can be cancelled."""
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
        """Accept no more calls; the threads end after their present calls."""
        self._pool.shutdown(wait=False)


class ThreadPerCall:
    """A thread for every call. A cancelled caller returns at once; the function runs on, and its result is dropped."""

    def __init__(self, name: str) -> None:
        self._name = name

    async def run(self, function: Callable[[], T]) -> T:
        """Call the function in a thread and return its result."""
        running: Future[T] = Future()
        running.set_running_or_notify_cancel()
        threading.Thread(target=_settle, args=(running, function), name=self._name, daemon=True).start()
        return await asyncio.wrap_future(running)


def _called(function: Callable[[], T]) -> T:
    """Call a function; turn ``StopIteration``, which a future cannot hold, into ``RuntimeError``."""
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
