"""Answers that wait until the log has come far enough: parked in one line, released in bulk.

Whoever appended adds the answer with the end of its record. One call of the log for the head of the line releases
everybody whose record has come as far, so a message costs no task, no future and no timer. Only sends that wait for a
sync have a deadline; one timer serves the whole line.

A failed write takes back whatever was not handed to the disk, and the places are given again to others. So the first
record of everything that is not handed yet is always known to the log: its failure tells that the rest is gone as well.

Invariants: an answer leaves after its record has reached the level, with FLUSH_DISK_TIMEOUT once its time is over or
the disk failed after it took the record, or with a refusal when the record was taken back; exactly once in every case.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Protocol

from msgspec.structs import replace

from firearrow.errors import FireArrowError
from firearrow.protocol.codes import ResponseCode
from firearrow.remoting.handlers import Answer
from firearrow.store.placement import FLUSHED, WRITTEN, Level

Told = Callable[[FireArrowError | None], None]


class Log(Protocol):
    """What is asked of the commit log."""

    handed: int
    written: int
    flushed: int

    @property
    def fenced(self) -> FireArrowError | None:
        """Why nothing is acknowledged any more, if so."""
        ...

    def on_reached(self, offset: int, level: Level, call: Told) -> None:
        """Call once everything below ``offset`` has come that far, or with the error that prevents it."""
        ...


class Owed(Protocol):
    """An answer that is owed, or several that are given at once."""

    def answer(self, answer: Answer) -> bool:
        """Give it; return whether anybody could still be told."""
        ...


class Acks:
    """The line of answers that wait for one level of the log."""

    def __init__(
        self,
        log: Log,
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
        self._waiting: deque[tuple[int, Owed, Answer, float]] = deque()
        self._timer: asyncio.TimerHandle | None = None
        self._asked = 0  # calls that the log owes us
        self._asked_for = -1  # the highest end among them
        self._since = 0.0  # when the line began to wait, or was last served
        self.lost = 0
        """How many records were taken back."""
        self.longest_s = 0.0
        """The longest that the line was not served."""

    def __len__(self) -> int:
        return len(self._waiting)

    def waits_s(self) -> float:
        """How long the line has not been served."""
        return self._now_s() - self._since if self._waiting else 0.0

    def add(self, end: int, later: Owed, answer: Answer) -> None:
        """Give ``answer`` once the log has reached ``end``."""
        deadline = 0.0
        if not self._waiting:
            self._since = self._now_s()
        if self._timeout_ms is not None:
            deadline = self._deadline(self._timeout_ms() / 1000)
        self._waiting.append((end, later, answer, deadline))
        if self._asked_for <= self._log.handed or not self._asked:
            self._ask(end)

    def _ask(self, end: int) -> None:
        self._asked += 1
        self._asked_for = end
        self._log.on_reached(end, self._level, self._told)

    def _told(self, error: FireArrowError | None) -> None:
        self._asked -= 1
        waiting, log = self._waiting, self._log
        self._served()
        if error is None:
            reached = log.flushed if self._level is FLUSHED else log.written
            while waiting and waiting[0][0] <= reached:
                _, later, answer, _ = waiting.popleft()
                later.answer(answer)
        else:
            self._taken_back(error)
        if waiting and not self._asked:
            self._ask(waiting[0][0])

    def _served(self) -> None:
        now = self._now_s()
        self.longest_s = max(self.longest_s, now - self._since) if self._waiting else self.longest_s
        self._since = now

    def _taken_back(self, error: FireArrowError) -> None:
        """Refuse those whose records are gone; a record that was handed to a disk that failed may still be found."""
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
        """Answer those who have waited too long: stored, but not known to be durable."""
        self._timer = None
        loop, waiting = asyncio.get_running_loop(), self._waiting
        now = loop.time()
        late = [one for one in waiting if one[3] <= now]
        for _, later, answer, _ in late:
            later.answer(_not_durable(answer))
        # They stay in the line: whoever is told twice is answered once, and the head keeps its place at the log.
        due = [one[3] for one in waiting if one[3] > now]
        if due:
            self._timer = loop.call_at(min(due), self._expire)


def _not_durable(answer: Answer) -> Answer:
    """The answer for a record that is written and not known to be durable."""
    return replace(answer, code=int(ResponseCode.FLUSH_DISK_TIMEOUT))


def lines_of(log: Log, refusal: Callable[[FireArrowError], Answer], timeout_ms: Callable[[], int]) -> tuple[Acks, Acks]:
    """The lines of a broker: who waits until a message is written, and who until it is synced."""
    now_s = asyncio.get_running_loop().time
    return Acks(log, WRITTEN, refusal, now_s=now_s), Acks(log, FLUSHED, refusal, timeout_ms, now_s=now_s)
