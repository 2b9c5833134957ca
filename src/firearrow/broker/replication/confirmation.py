"""Answers to sends that wait until enough slaves have their records. Used by a SYNC_MASTER only.

An answer comes here when its record is kept on the master, at the level that the broker promises; it leaves when the
slaves that ``inSyncReplicas`` asks for have reported an end behind the record. It leaves with FLUSH_SLAVE_TIMEOUT after
``syncFlushTimeout``, and at once with SLAVE_NOT_AVAILABLE when too few slaves are near: in both cases the message is
stored, and slaves get it later. One line and one timer serve all answers. Java: ``CommitLog.handleHA`` of 4.9,
``GroupTransferService``.
"""

import asyncio
from collections import deque
from collections.abc import Callable

from msgspec.structs import replace

from firearrow.broker.replication.decisions import confirmed, in_sync
from firearrow.broker.send.waiting_answers import Owed
from firearrow.protocol.codes import ResponseCode
from firearrow.remoting.handlers import Answer


class Confirmation:
    """The line of answers that wait for slaves."""

    def __init__(
        self, acked: Callable[[], list[int]], replicas: int, largest_gap: int, timeout_ms: Callable[[], int]
    ) -> None:
        self._acked = acked
        self._replicas = replicas
        self._largest_gap = largest_gap
        self._timeout_ms = timeout_ms
        self._waiting: deque[tuple[int, Owed, Answer, float]] = deque()
        self._timer: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return len(self._waiting)

    def owed(self, end: int, later: Owed) -> Owed:
        """Return what takes the answer for a record that ends at ``end`` once the master keeps it."""
        return _Kept(self, end, later)

    def wait(self, end: int, later: Owed, answer: Answer) -> bool:
        """Send an answer when enough slaves have the record; one that is no success leaves as it is."""
        if answer.code != ResponseCode.SUCCESS:
            return later.answer(answer)
        acked = self._acked()
        if confirmed(acked, self._replicas) >= end:
            return later.answer(answer)
        if in_sync(acked, end, self._largest_gap) < self._replicas:
            return later.answer(replace(answer, code=int(ResponseCode.SLAVE_NOT_AVAILABLE)))
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._timeout_ms() / 1000
        self._waiting.append((end, later, answer, deadline))
        if self._timer is None:
            self._timer = loop.call_at(deadline, self._expire)
        return True

    def acknowledged(self) -> None:
        """Send the answers whose records enough slaves have now."""
        waiting = self._waiting
        if waiting:
            reached = confirmed(self._acked(), self._replicas)
            while waiting and waiting[0][0] <= reached:
                _, later, answer, _ = waiting.popleft()
                later.answer(answer)

    def _expire(self) -> None:
        loop, waiting = asyncio.get_running_loop(), self._waiting
        now = loop.time()
        while waiting and waiting[0][3] <= now:
            _, later, answer, _ = waiting.popleft()
            later.answer(replace(answer, code=int(ResponseCode.FLUSH_SLAVE_TIMEOUT)))
        self._timer = loop.call_at(waiting[0][3], self._expire) if waiting else None


class _Kept:
    """One owed answer on its way to the line."""

    __slots__ = ("_end", "_later", "_line")

    def __init__(self, line: Confirmation, end: int, later: Owed) -> None:
        self._line = line
        self._end = end
        self._later = later

    def answer(self, answer: Answer) -> bool:
        """Take the answer when the record is kept on the master, or a refusal."""
        return self._line.wait(self._end, self._later, answer)
