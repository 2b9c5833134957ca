"""Answers to sends that wait until every replica in sync has their records.

They leave with FLUSH_SLAVE_TIMEOUT after ``syncFlushTimeout``: then it is not known whether the message outlives the
loss of this broker. One line and one timer serve all answers.
"""

import asyncio
from collections import deque
from collections.abc import Callable

from msgspec.structs import replace

from firearrow.broker.send.waiting_answers import Owed
from firearrow.protocol.codes import ResponseCode
from firearrow.protocol.refusal import Refused
from firearrow.remoting.handlers import Answer


class GroupAnswers:
    """The line of answers that wait for the in-sync set."""

    def __init__(self, confirmed: Callable[[], int], timeout_ms: Callable[[], int]) -> None:
        self._confirmed = confirmed
        self._timeout_ms = timeout_ms
        self._waiting: deque[tuple[int, Owed, Answer, float]] = deque()
        self._timer: asyncio.TimerHandle | None = None
        self.refusal: Refused | None = None
        """Why no message is taken; None while enough replicas are in sync."""

    def owed(self, end: int, later: Owed) -> Owed:
        """Return what takes the answer for a record that ends at ``end`` once the master keeps it."""
        return _Kept(self, end, later)

    def wait(self, end: int, later: Owed, answer: Answer) -> bool:
        """Send an answer when the record is confirmed; one that is no success leaves as it is."""
        if answer.code != ResponseCode.SUCCESS or self._confirmed() >= end:
            return later.answer(answer)
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._timeout_ms() / 1000
        self._waiting.append((end, later, answer, deadline))
        if self._timer is None:
            self._timer = loop.call_at(deadline, self._expire)
        return True

    def release(self, confirmed: int) -> None:
        """Send the answers whose records are confirmed."""
        waiting = self._waiting
        while waiting and waiting[0][0] <= confirmed:
            _, later, answer, _ = waiting.popleft()
            later.answer(answer)

    def end(self) -> None:
        """Send all answers that wait: this broker does not lead any more."""
        if self._timer is not None:
            self._timer.cancel()
        while self._waiting:
            self._give_up()

    def _expire(self) -> None:
        loop, waiting = asyncio.get_running_loop(), self._waiting
        now = loop.time()
        while waiting and waiting[0][3] <= now:
            self._give_up()
        self._timer = loop.call_at(waiting[0][3], self._expire) if waiting else None

    def _give_up(self) -> None:
        _, later, answer, _ = self._waiting.popleft()
        later.answer(replace(answer, code=int(ResponseCode.FLUSH_SLAVE_TIMEOUT)))


class _Kept:
    """One owed answer on its way to the line."""

    __slots__ = ("_end", "_later", "_line")

    def __init__(self, line: GroupAnswers, end: int, later: Owed) -> None:
        self._line = line
        self._end = end
        self._later = later

    def answer(self, answer: Answer) -> bool:
        """Take the answer when the record is kept on the master, or a refusal."""
        return self._line.wait(self._end, self._later, answer)
