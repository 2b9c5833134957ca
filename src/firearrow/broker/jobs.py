"""Jobs: work that a handler cannot do at once, such as reads of the device, searches and questions to clients.

A handler runs inside ``data_received`` and must not wait. Work that has to wait is a coroutine given to `do`; its
result answers the request. A fixed number of workers run the coroutines, so a burst of cold reads makes no burst of
tasks. The server's limits on requests that are owed an answer bound the length of the queue.

Invariant: the request of every accepted job is answered once, also when the workers are cancelled.
"""

import asyncio
from collections import deque
from collections.abc import Coroutine
from typing import Any, Final

from firearrow.protocol.codes import ResponseCode
from firearrow.remoting.handlers import Answer, Call, Later

WORKERS: Final = 32

Job = Coroutine[Any, Any, Answer | Later | None]


class Jobs:
    """A queue of coroutines and the workers that run them."""

    def __init__(self, workers: int = WORKERS) -> None:
        self._workers = workers
        self._queue: deque[tuple[Later, Job]] = deque()
        self._arrived = asyncio.Event()
        self._closed = False

    def __len__(self) -> int:
        return len(self._queue)

    def do(self, call: Call, job: Job) -> Later:
        """Answer ``call`` with the result of the coroutine; a result of type `Later` is answered elsewhere."""
        later = call.later()
        self.add(later, job)
        return later

    def add(self, later: Later, job: Job) -> None:
        """Add a job to the queue; refuse its request when the broker is stopping."""
        if self._closed:
            job.close()
            later.refuse(ResponseCode.SYSTEM_ERROR, "the broker is stopping")
            return
        self._queue.append((later, job))
        self._arrived.set()

    async def run(self) -> None:
        """Run the workers until cancelled."""
        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(self._workers):
                    group.create_task(self._work())
        finally:
            self._closed = True
            while self._queue:
                later, job = self._queue.popleft()
                job.close()
                later.refuse(ResponseCode.SYSTEM_ERROR, "the broker is stopping")

    async def _work(self) -> None:
        while True:
            while not self._queue:
                self._arrived.clear()
                await self._arrived.wait()
            later, job = self._queue.popleft()
            await _carry_out(later, job)


async def _carry_out(later: Later, job: Job) -> None:
    try:
        answer = await job
    except asyncio.CancelledError:
        later.refuse(ResponseCode.SYSTEM_ERROR, "the broker is stopping")
        raise
    except Exception as error:  # noqa: BLE001 - an error must not end the worker
        later.fail(error)
    else:
        if not isinstance(answer, Later):
            later.answer(answer)
