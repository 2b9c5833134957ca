"""Start and stop: owners of tasks, the order of shutdown, and the end of a process after a broken invariant.

A ``Lifetime`` is what one owner (a server, a broker, a client) has started. It holds one ``TaskGroup`` and a
list of endings; leaving it ends everything in reverse order of starting, each thing completely before the
next. A task that fails ends the whole lifetime: its siblings are cancelled, the endings run, and the error
comes out of the ``async with`` block.
"""

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable, Coroutine
from types import TracebackType
from typing import Any, Final, Self, TypeVar

from firearrow.errors import BrokenInvariant, DiskError

T = TypeVar("T")
Ending = Callable[[], Awaitable[None] | None]

log: Final = logging.getLogger(__name__)
EXIT_BROKEN_INVARIANT: Final = 70  # EX_SOFTWARE of sysexits.h


class Lifetime:
    """Everything one owner has started, ended in reverse order."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._group = asyncio.TaskGroup()
        self._endings: dict[int, Ending] = {}
        self._count = 0
        self._ending = False

    async def __aenter__(self) -> Self:
        """Begin."""
        await self._group.__aenter__()
        return self

    def spawn(self, work: Coroutine[Any, Any, T], name: str) -> asyncio.Task[T]:
        """Start a task that ends with this lifetime."""
        task = self._group.create_task(work, name=f"{self._name}: {name}")
        number = self.on_stop(lambda: _end(task))
        task.add_done_callback(lambda _: self._endings.pop(number, None))
        return task

    def on_stop(self, ending: Ending) -> int:
        """Remember how to end something just started; return a number with which ``forget`` takes it back."""
        self._count += 1
        self._endings[self._count] = ending
        return self._count

    def forget(self, number: int) -> None:
        """Remove an ending, because its object ended by itself."""
        self._endings.pop(number, None)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End everything, the last started first; neither errors nor cancellation stop that half-way."""
        failures: list[Exception] = []
        while self._endings:
            _, ending = self._endings.popitem()
            try:
                cancelled = await _finish(ending)
            except Exception as failure:  # noqa: BLE001 - the rest must still be ended; told below
                failures.append(failure)
            else:
                error = error or cancelled
        for failed in failures:
            self._tell(failed)
        await self._group.__aexit__(type(error) if error else None, error, trace)
        if failures and error is None:
            raise ExceptionGroup(f"{self._name} did not end cleanly", failures)

    def _tell(self, failed: Exception) -> None:
        """Log why an ending failed; a disk that is full or fails is no fault of the program that could be traced."""
        if isinstance(failed, DiskError):
            log.error("something did not end cleanly: %s", failed, extra={"owner": self._name, "reason": str(failed)})
        else:
            log.error("something did not end cleanly", exc_info=failed, extra={"owner": self._name})


async def _finish(ending: Ending) -> asyncio.CancelledError | None:
    """Run an ending to its end; return the cancellation that came meanwhile, if one did."""
    waiting = ending()
    if waiting is None:
        return None
    cancelled: asyncio.CancelledError | None = None
    task = asyncio.ensure_future(waiting)
    while not task.done():
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError as error:
            cancelled = error
    task.result()
    return cancelled


async def _end(task: asyncio.Task[Any]) -> None:
    """Cancel a task and wait until it is done; its error, if any, is the task group's to report."""
    task.cancel()
    await asyncio.wait([task])


def watch_for_broken_invariants(loop: asyncio.AbstractEventLoop, end: Callable[[int], object] = os._exit) -> None:
    """End the process when a callback or a forgotten task raises ``BrokenInvariant``.

    The state in memory can no longer be trusted, so nothing is flushed and no ``finally`` block runs: a
    restart reads the disk again. Other errors are logged, as asyncio does.
    """

    def on_error(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        if isinstance(error, BrokenInvariant):
            log.critical("an invariant is broken, the process ends", exc_info=error)
            end(EXIT_BROKEN_INVARIANT)
        else:
            loop.default_exception_handler(context)

    loop.set_exception_handler(on_error)
