"""The tasks of one client, which end with it.

A client may be opened in one task and closed in another (a test's fixture, a blocking caller), which a
``TaskGroup`` does not allow. A task that ends with an error is a bug, because expected errors are caught inside. The
error goes to the loop's exception handler, which logs it, and in simulation fails the run.
"""

import asyncio
from collections.abc import Coroutine
from typing import Any


def cancellations() -> int:
    """Return the number of pending cancellations of the running task (``Task.cancelling``)."""
    task = asyncio.current_task()
    return 0 if task is None else task.cancelling()


def is_cancellation(error: BaseException, before: int) -> bool:
    """Whether an error is a new cancellation of the running task, which had ``before`` pending ones.

    A ``CancelledError`` without such a cancellation came from an awaited object and is an ordinary error.
    """
    return isinstance(error, asyncio.CancelledError) and cancellations() > before


class Tasks:
    """The running tasks of one owner."""

    def __init__(self, owner: str) -> None:
        self._owner = owner
        self._running: dict[asyncio.Task[Any], None] = {}
        self.failure = ""
        """The error of a task that failed; empty if none has."""

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
