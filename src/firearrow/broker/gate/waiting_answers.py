"""Answers that wait until the log has reached the end of their record: held in one line, released in bulk.

The code that appends a record adds the answer with the end of the record. One callback of the log for the head of the
line releases every answer whose record the log has reached, so a message costs no task, no future and no timer. Only
sends that wait for a sync have a deadline; one timer serves the whole line.

A failed write takes back every record that was not yet handed to the disk, and the log reuses their offsets. So the
line always has a callback for the first record that is not yet handed over: its failure says that later ones are gone.

A line is no longer than the sends of one ``syncFlushTimeout``: late answers leave it from its head.

Invariants: an answer leaves after its record has reached the level; with FLUSH_DISK_TIMEOUT after its deadline or when
the disk failed after it took the record; or with a refusal when the record was taken back. Every answer leaves once.
"""

import asyncio
from bisect import bisect_left
from collections import deque
from collections.abc import Callable
from typing import Final, Protocol

from msgspec.structs import replace

from firearrow.errors import FireArrowError
from firearrow.protocol.codes import ResponseCode
from firearrow.remoting.handlers import Answer
from firearrow.store.log.waiters import OnReached
from firearrow.store.placement import FLUSHED, WRITTEN, Level
from firearrow.telemetry.metrics import Histogram

WAIT_BOUNDS: Final = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0)


class DurableLog(Protocol):
    """The part of the commit log that this module uses."""

    handed: int
    written: int
    flushed: int

    @property
    def fenced(self) -> FireArrowError | None:
        """The error after which the log acknowledges nothing; None while the log is not fenced."""
        ...

    def on_reached(self, offset: int, level: Level, call: OnReached) -> None:
        """Call ``call`` once everything below ``offset`` has reached ``level``, or with the error that prevents it."""
        ...


class OwedAnswer(Protocol):
    """One answer that is owed, or several that are given together."""

    def answer(self, answer: Answer) -> bool:
        """Send the answer; return whether the peer was still there to get it."""
        ...


class Acks:
    """The line of answers that wait for one level of the log."""

    def __init__(
        self,
        log: DurableLog,
        level: Level,
        refusal: Callable[[FireArrowError], Answer],
        timeout_ms: Callable[[], int] | None = None,
        *,
        now_s: Callable[[], float] = lambda: 0.0,
    ) -> None:
        self._log = log
        self._level = level
        self._refusal = refusal
        self._timeout_ms = timeout_ms
        self._now_s = now_s
        self._waiting: deque[tuple[int, OwedAnswer, Answer, float]] = deque()
        self._timer: asyncio.TimerHandle | None = None
        self._asked = 0  # callbacks that the log owes us
        self._asked_for = -1  # the highest end that one of these callbacks waits for
        self._since = 0.0  # when the line began to wait, or was last served
        self.lost = 0
        """Number of records that were taken back."""
        self.waits: Final = Histogram(WAIT_BOUNDS)
        """The waits of released answers, at most: all answers of one release count the wait of the first."""
        self.longest_s = 0.0
        """The longest time for which waiting answers were not served."""

    def __len__(self) -> int:
        return len(self._waiting)

    def waits_s(self) -> float:
        """Return how long the line has not been served; 0 for an empty line."""
        return self._now_s() - self._since if self._waiting else 0.0

    def add(self, end: int, later: OwedAnswer, answer: Answer) -> None:
        """Send ``answer`` once the log has reached ``end``."""
        deadline = 0.0
        if not self._waiting:
            self._since = self._now_s()
        if self._timeout_ms is not None:
            deadline = self._deadline(self._timeout_ms() / 1000)
        self._waiting.append((end, later, answer, deadline))
        if self._asked_for <= self._log.handed or not self._asked:
            self._asked += 1  # what `_ask` does, without the call
            self._asked_for = end
            self._log.on_reached(end, self._level, self._log_reached)

    def _ask(self, end: int) -> None:
        self._asked += 1
        self._asked_for = end
        self._log.on_reached(end, self._level, self._log_reached)

    def _log_reached(self, error: FireArrowError | None) -> None:
        self._asked -= 1
        waiting, log = self._waiting, self._log
        now = self._now_s()
        waited_s, before = now - self._since, len(waiting)
        if before and waited_s > self.longest_s:
            self.longest_s = waited_s
        self._since = now
        if error is None:
            reached = log.flushed if self._level is FLUSHED else log.written
            while waiting and waiting[0][0] <= reached:
                _, later, answer, _ = waiting.popleft()
                later.answer(answer)
            waits, answered = self.waits, before - len(waiting)
            waits.counts[bisect_left(WAIT_BOUNDS, waited_s)] += answered  # what `observe` does, without the call
            waits.total += waited_s * answered
        else:
            self._taken_back(error)
        if waiting and not self._asked:
            self._ask(waiting[0][0])

    def _taken_back(self, error: FireArrowError) -> None:
        """Refuse the answers whose records were taken back; records handed to a disk that failed may still be found."""
        everybody, handed = list(self._waiting), self._log.handed
        kept = [one for one in everybody if one[0] <= handed]
        lost = [one for one in everybody if one[0] > handed]
        self._waiting.clear()
        if self._log.fenced is None:
            self._waiting.extend(kept)
        else:
            for _, later, answer, _ in kept:
                later.answer(_not_durable(answer))
        self.lost += len(lost)
        refusal = self._refusal(error)
        for _, later, _, _ in lost:
            later.answer(refusal)

    # ---- deadlines

    def _deadline(self, seconds: float) -> float:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + seconds
        if self._timer is None:
            self._timer = loop.call_at(deadline, self._expire)
        return deadline

    def _expire(self) -> None:
        """Send the answers whose deadline is over: stored, but not known to be durable."""
        self._timer = None
        loop, waiting = asyncio.get_running_loop(), self._waiting
        now = loop.time()
        # Deadlines are in the order of the line. A callback that the log owes for a late answer still serves the rest.
        while waiting and waiting[0][3] <= now:
            _, later, answer, _ = waiting.popleft()
            later.answer(_not_durable(answer))
        if waiting:
            self._timer = loop.call_at(waiting[0][3], self._expire)


def _not_durable(answer: Answer) -> Answer:
    """Return the answer for a record that is written but not known to be durable."""
    return replace(answer, code=int(ResponseCode.FLUSH_DISK_TIMEOUT))


def lines_of(
    log: DurableLog, refusal: Callable[[FireArrowError], Answer], timeout_ms: Callable[[], int]
) -> tuple[Acks, Acks]:
    """Return two lines: answers that wait until their record is written, and those that wait until it is synced."""
    now_s = asyncio.get_running_loop().time
    return Acks(log, WRITTEN, refusal, now_s=now_s), Acks(log, FLUSHED, refusal, timeout_ms, now_s=now_s)
