"""The tasks of one client: each has this owner, and none outlives it.

A client may be opened in one task and closed in another (a test's fixture, a blocking caller), which a
``TaskGroup`` does not allow. A task that ends with an error is a bug: expected errors are caught inside. It is told to
the loop's exception handler, which logs it, and in simulation fails the run.
"""

import asyncio
from collections.abc import Coroutine
from typing import Any


def cancellations() -> int:
    """How often the running task has been asked to end, and has not said that it goes on."""
    task = asyncio.current_task()
    return 0 if task is None else task.cancelling()


def is_cancellation(error: BaseException, before: int) -> bool:
    """Whether an error is the running task's own cancellation, of which there were so many ``before``.

    A ``CancelledError`` that nobody asked this task for came out of something it awaited: an error like any other.
    """
    return isinstance(error, asyncio.CancelledError) and cancellations() > before


class Tasks:
    """A bag of running tasks."""

    def __init__(self, owner: str) -> None:
        self._owner = owner
        self._running: dict[asyncio.Task[Any], None] = {}
        self.failure = ""
        """What went wrong in a task that should not have ended; empty while nothing has."""

    def __len__(self) -> int:
        return len(self._running)

    def spawn(self, work: Coroutine[Any, Any, Any], name: str) -> "asyncio.Task[Any]":
        """Start a task that ends with its owner at the latest."""
        task = asyncio.get_running_loop().create_task(work, name=f"{self._owner}: {name}")
        self._running[task] = None
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: "asyncio.Task[Any]") -> None:
        self._running.pop(task, None)
        if task.cancelled() or (error := task.exception()) is None:
            return
        self.failure = f"{task.get_name()} failed: {type(error).__name__}: {error}"
        context = {"message": f"{task.get_name()} failed", "exception": error, "task": task}
        task.get_loop().call_exception_handler(context)

    async def close(self) -> None:
        """Cancel every task but the one that calls, and return when they are done."""
        mine = asyncio.current_task()
        ending = [task for task in self._running if task is not mine]
        for task in ending:
            task.cancel()
        if ending:
            await asyncio.wait(ending)
