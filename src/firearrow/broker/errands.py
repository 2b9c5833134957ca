"""Work that handlers cannot do on the spot: reads of the device, searches, questions to clients.

A handler runs inside ``data_received`` and must not wait. What has to wait is a coroutine given to `do`, which answers
the request when it ends. A fixed number of workers run them, so a burst of cold reads makes no burst of tasks, and
whoever is at the end of the line is bounded by the server's limits on requests that are owed an answer.

Invariant: every errand that was taken is answered once, also when the workers are ended.
"""

import asyncio
from collections import deque
from collections.abc import Coroutine
from typing import Any, Final

from firearrow.protocol.codes import ResponseCode
from firearrow.remoting.handlers import Answer, Call, Later

WORKERS: Final = 32

Errand = Coroutine[Any, Any, Answer | Later | None]


class Errands:
    """A line of coroutines and the workers at its head."""

    def __init__(self, workers: int = WORKERS) -> None:
        self._workers = workers
        self._line: deque[tuple[Later, Errand]] = deque()
        self._arrived = asyncio.Event()
        self._closed = False

    def __len__(self) -> int:
        return len(self._line)

    def do(self, call: Call, errand: Errand) -> Later:
        """Answer ``call`` with what the coroutine returns; a `Later` it returns was passed on and is not answered."""
        later = call.later()
        self.add(later, errand)
        return later

    def add(self, later: Later, errand: Errand) -> None:
        """Put an errand at the end of the line."""
        if self._closed:
            errand.close()
            later.refuse(ResponseCode.SYSTEM_ERROR, "the broker is stopping")
            return
        self._line.append((later, errand))
        self._arrived.set()

    async def run(self) -> None:
        """Work until cancelled."""
        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(self._workers):
                    group.create_task(self._work())
        finally:
            self._closed = True
            while self._line:
                later, errand = self._line.popleft()
                errand.close()
                later.refuse(ResponseCode.SYSTEM_ERROR, "the broker is stopping")

    async def _work(self) -> None:
        while True:
            while not self._line:
                self._arrived.clear()
                await self._arrived.wait()
            later, errand = self._line.popleft()
            await _carry_out(later, errand)


async def _carry_out(later: Later, errand: Errand) -> None:
    try:
        answer = await errand
    except asyncio.CancelledError:
        later.refuse(ResponseCode.SYSTEM_ERROR, "the broker is stopping")
        raise
    except Exception as error:  # noqa: BLE001 - the other errands must not pay for it
        later.fail(error)
    else:
        if not isinstance(answer, Later):
            later.answer(answer)
