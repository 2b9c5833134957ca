"""Answers to sends that wait until enough slaves have their records. Used by a SYNC_MASTER only.

An answer comes here when its record is kept on the master, at the level that the broker promises; it leaves when the
slaves that ``inSyncReplicas`` asks for have reported an end behind the record. It leaves with FLUSH_SLAVE_TIMEOUT after
``syncFlushTimeout``, and at once with SLAVE_NOT_AVAILABLE when too few slaves are near: in both cases the message is
stored, and slaves get it later. One line and one timer serve all answers.

Messages are refused before they are written while fewer than ``minInSyncReplicas`` replicas are in sync. That is looked
at when a slave reports, comes or leaves, and every tenth of a second. Java: ``CommitLog.handleHA`` of 4.9,
``GroupTransferService``, ``CommitLog.asyncPutMessage``.
"""

import asyncio
from collections import deque
from collections.abc import Callable

from msgspec.structs import replace

from firearrow.broker.replication.decisions import confirmed, in_sync
from firearrow.broker.send.waiting_answers import Owed
from firearrow.broker.settings.live import LiveSettings
from firearrow.protocol.codes import ResponseCode
from firearrow.protocol.refusal import Refused
from firearrow.remoting.handlers import Answer


class Confirmation:
    """The line of answers that wait for slaves."""

    def __init__(self, acked: Callable[[], list[int]], end: Callable[[], int], settings: LiveSettings) -> None:
        self._acked = acked
        self._end = end
        self._settings = settings
        self.refusal: Refused | None = None
        """Why no message is taken; None while enough replicas are in sync."""
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
        config = self._settings.value.replication
        if confirmed(acked, config.in_sync_replicas) >= end:
            return later.answer(answer)
        if in_sync(acked, end, config.ha_max_gap_not_in_sync) < config.in_sync_replicas:
            return later.answer(replace(answer, code=int(ResponseCode.SLAVE_NOT_AVAILABLE)))
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._settings.broker.sync_flush_timeout / 1000
        self._waiting.append((end, later, answer, deadline))
        if self._timer is None:
            self._timer = loop.call_at(deadline, self._expire)
        return True

    def acknowledged(self) -> None:
        """Send the answers whose records enough slaves have now."""
        waiting = self._waiting
        if waiting:
            reached = confirmed(self._acked(), self._settings.value.replication.in_sync_replicas)
            while waiting and waiting[0][0] <= reached:
                _, later, answer, _ = waiting.popleft()
                later.answer(answer)

    def look(self) -> None:
        """Look whether enough replicas are in sync to take messages."""
        config = self._settings.value.replication
        found, least = in_sync(self._acked(), self._end(), config.ha_max_gap_not_in_sync), config.min_in_sync_replicas
        self.refusal = None
        if found < least:
            remark = (
                f"in-sync replicas not enough: {found} of the {least} that minInSyncReplicas asks for, the master "
                "included; start the slaves, or send to another broker"
            )
            self.refusal = Refused(ResponseCode.SYSTEM_ERROR, remark)

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
