"""Plain functions run beside the loop, for handlers that block.

A pool has a fixed number of threads. A function that has begun cannot be cut short: whoever waits for it waits to its
end, even when cancelled, and gets its result, so that nothing of it goes on behind the back of its caller.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")


class Threads:
    """A pool of threads."""

    def __init__(self, count: int, name: str) -> None:
        self._pool = ThreadPoolExecutor(count, thread_name_prefix=name)

    async def run(self, function: Callable[[], T]) -> T:
        """Call the function in a thread and return its result; a cancellation is for functions that have not begun."""
        running = self._pool.submit(function)
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
