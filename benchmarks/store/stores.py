"""A store on the real disk, running, for as long as a block lasts."""

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import Any, Final, TypeVar

from firearrow.runtime.clock import SystemClock
from firearrow.runtime.disk.real_disk import RealDisk
from firearrow.runtime.loops import new_loop
from firearrow.runtime.machine import this_machine
from firearrow.store.config import FlushMode, LogConfig
from firearrow.store.deletion import RetentionConfig
from firearrow.store.store import Store, StoreConfig
from firearrow.store.views.views import ViewsConfig

T = TypeVar("T")

CLOCK: Final = SystemClock()


def on_loop(main: Coroutine[Any, Any, T]) -> T:
    """Run to the end on the loop that a broker would have."""
    with asyncio.Runner(loop_factory=new_loop) as runner:
        return runner.run(main)


def config_of(
    *,
    flush: FlushMode = "ASYNC_FLUSH",
    segment_bytes: int = 1 << 30,
    zero_fill: bool = True,
    views: ViewsConfig | None = None,
) -> StoreConfig:
    """The defaults but for what a benchmark must fix."""
    log = LogConfig(flush_disk_type=flush, mapped_file_size_commit_log=segment_bytes, zero_fill_ahead=zero_fill)
    return StoreConfig(log=log, views=views or ViewsConfig(), retention=RetentionConfig())


async def opened(disk: RealDisk, config: StoreConfig) -> Store:
    """A store that does not run yet."""
    return await Store.open(disk, CLOCK, config, this_machine().boot_id)


@asynccontextmanager
async def running(root: str, config: StoreConfig) -> AsyncIterator[Store]:
    """A store that is open and runs; closed in order at the end."""
    disk = RealDisk(root)
    try:
        store = await opened(disk, config)
        async with asyncio.TaskGroup() as group:
            run = group.create_task(store.run())
            yield store
            await store.close()
            run.cancel()
    finally:
        await disk.close()
