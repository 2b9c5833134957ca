"""Answers to sends that wait until enough replicas have their records: one line and one timer for all of them.

An answer comes here when its record is kept on the master, at the level that the broker promises. The line is told how
far the log is confirmed, and sends the answers whose records are below that. It gives up an answer after
``syncFlushTimeout`` with FLUSH_SLAVE_TIMEOUT, and where replicas are known to be too far away, at once with
SLAVE_NOT_AVAILABLE: in both cases the message is stored, and whether it outlives the loss of this broker is not known.
Java: ``GroupTransferService``, ``CommitLog.handleHA`` of 4.9.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from math import inf

from msgspec.structs import replace

from firearrow.broker.gate.waiting_answers import OwedAnswer
from firearrow.broker.replication.decisions import NOTHING_CONFIRMED
from firearrow.protocol.codes import ResponseCode
from firearrow.protocol.refusal import Refused
from firearrow.remoting.handlers import Answer


class Confirmation:
    """The line of answers that wait for replicas."""

    def __init__(self, timeout_ms: Callable[[], int], is_near: Callable[[int], bool] = lambda _end: True) -> None:
        """``is_near`` looks at replicas anew, for a record that ends at an offset, and tells whether to wait."""
        self._timeout_ms = timeout_ms
        self._is_near = is_near
        self._waiting: deque[tuple[int, OwedAnswer, Answer, float]] = deque()
        self._timer: asyncio.TimerHandle | None = None
        self.confirmed = NOTHING_CONFIRMED
        """Enough replicas have everything below this offset."""
        self.refusal: Refused | None = None
        """The reason why no message is taken; None while enough replicas are in sync."""
        self.heard_until_s = inf
        """Until when no other broker can lead, by the loop's clock; infinite where masters are not elected."""

    def __len__(self) -> int:
        return len(self._waiting)

    def owed(self, end: int, later: OwedAnswer) -> OwedAnswer:
        """Return what takes the answer for a record that ends at ``end`` once the master keeps it."""
        return _PendingAnswer(self, end, later)

    def wait(self, end: int, later: OwedAnswer, answer: Answer) -> bool:
        """Send an answer when its record is confirmed; one that is no success leaves as it is."""
        if answer.code != ResponseCode.SUCCESS or self.confirmed >= end:
            return later.answer(answer)
        if not self._is_near(end):
            return later.answer(replace(answer, code=int(ResponseCode.SLAVE_NOT_AVAILABLE)))
        if self.confirmed >= end:
            return later.answer(answer)
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._timeout_ms() / 1000
        self._waiting.append((end, later, answer, deadline))
        if self._timer is None:
            self._timer = loop.call_at(deadline, self._expire)
        return True

    def confirm(self, offset: int) -> None:
        """Take it that enough replicas have everything below an offset, and send the answers that wait for that."""
        self.confirmed = offset
        waiting = self._waiting
        while waiting and waiting[0][0] <= offset:
            _, later, answer, _ = waiting.popleft()
            later.answer(answer)

    def end(self) -> None:
        """Give up all answers that wait: this broker does not lead any more."""
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


class _PendingAnswer:
    """One owed answer on its way to the line."""

    __slots__ = ("_end", "_later", "_line")

    def __init__(self, line: Confirmation, end: int, later: OwedAnswer) -> None:
        self._line = line
        self._end = end
        self._later = later

    def answer(self, answer: Answer) -> bool:
        """Take the answer when the record is kept on the master, or a refusal."""
        return self._line.wait(self._end, self._later, answer)
