"""A door from ordinary threads into an event loop.

A ``Portal`` runs a loop in a thread of its own. Callers that are not coroutines hand it coroutines and wait
for their results; any number of threads may call at once. A fork copies the object but not the thread, so a
portal refuses to work in a child process: open it where it is used.
"""

import asyncio
import concurrent.futures
import os
import threading
from collections.abc import Coroutine
from contextlib import suppress
from types import TracebackType
from typing import Any, Self, TypeVar

from firearrow.errors import PortalClosed
from firearrow.runtime.loops import new_loop

T = TypeVar("T")


class Portal:
    """An event loop in a thread, for callers that are not coroutines."""

    def __init__(self, name: str = "firearrow") -> None:
        self._loop = new_loop()
        self._process = os.getpid()
        self._is_closing = self._closed = False
        self._submitting = threading.Lock()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        while not self._closed:
            # SystemExit and KeyboardInterrupt of a task also pass through the loop. They are the task's result, which
            # its caller gets: the loop goes on to tell it.
            with suppress(SystemExit, KeyboardInterrupt):
                self._loop.run_forever()

    @property
    def is_here(self) -> bool:
        """Whether the caller runs in the loop's own thread."""
        return threading.current_thread() is self._thread

    def call(self, work: Coroutine[Any, Any, T], timeout_s: float | None = None) -> T:
        """Run a coroutine on the loop and wait for it; a timeout or an interrupt cancels it."""
        future = self.spawn(work)
        try:
            return future.result(timeout_s)
        except concurrent.futures.CancelledError:
            if not self._is_closing:
                raise
            raise PortalClosed("the portal was closed while this call waited") from None
        except BaseException:
            future.cancel()
            raise

    def spawn(self, work: Coroutine[Any, Any, T]) -> "concurrent.futures.Future[T]":
        """Start a coroutine on the loop without waiting."""
        with self._submitting:  # whatever was begun before the portal closes is cancelled by that
            self._check(work)
            return asyncio.run_coroutine_threadsafe(work, self._loop)

    def close(self) -> None:
        """Cancel what still runs, stop the loop and wait for its thread."""
        if os.getpid() != self._process:
            return
        with self._submitting:
            is_first, self._is_closing = not self._is_closing, True
        if not is_first:
            if not self.is_here:
                self._thread.join()
            return
        asyncio.run_coroutine_threadsafe(_cancel_everything(), self._loop).result()
        self._closed = True
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _check(self, work: Coroutine[Any, Any, Any]) -> None:
        reason = ""
        if os.getpid() != self._process:
            reason = "what was opened in the process before a fork cannot be used here; open one after the fork"
        elif self._is_closing:
            reason = "the portal is closed"
        elif self.is_here:
            reason = "called from the portal's own loop, which would wait for itself; await instead"
        if reason:
            work.close()
            raise PortalClosed(reason)

    def __enter__(self) -> Self:
        """Use it in a ``with`` block."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close it."""
        self.close()


async def _cancel_everything() -> None:
    mine = asyncio.current_task()
    tasks = [task for task in asyncio.all_tasks() if task is not mine]
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    await asyncio.get_running_loop().shutdown_asyncgens()
