"""Plain functions run beside the loop, for handlers that block.

A pool has a fixed number of threads. Closing it waits for what still runs: a function cannot be cut short.
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
        """Call the function in a thread and return its result."""
        return await asyncio.get_running_loop().run_in_executor(self._pool, function)

    def close(self) -> None:
        """Take nothing more; the threads end with what they are doing."""
        self._pool.shutdown(wait=False)
