"""Questions of replicas that are answered at the next change of the tables: one for each replica.

A replica asks again and again whether there is a change that it does not know. The master holds the question until
there is one, and `HELD_S` at most. Only replicas that the master knows are held, and a new question of a replica ends
the one before it: so there are never more than the group has members. Nothing else is kept of a question than an answer
needs, and nothing at all once it is answered.

The questions are answered in a turn of their own (`changed`), never inside the act of the operator who made the change:
a question that cannot be answered is refused, and the operator and the other replicas notice nothing.
"""

import asyncio
from collections.abc import Callable
from typing import Final, NamedTuple

from firearrow.remoting.handlers import Answer, Later
from firearrow.runtime.turn import Share, soon

HELD_S: Final = 1.0
"""The time that a question waits for a change of the tables."""


class _HeldQuestion(NamedTuple):
    """One question."""

    later: Later
    answer: Callable[[], Answer]
    timer: asyncio.TimerHandle


class HeldQuestions:
    """The questions that wait for a change."""

    def __init__(self) -> None:
        self._held: Final[dict[int, _HeldQuestion]] = {}
        self._is_told = False

    def __len__(self) -> int:
        return len(self._held)

    def hold(self, replica: int, later: Later, answer: Callable[[], Answer]) -> Later:
        """Answer the question of a replica at the next change, or after `HELD_S`."""
        self._end(replica)
        timer = asyncio.get_running_loop().call_later(HELD_S, self._end, replica)
        self._held[replica] = _HeldQuestion(later, answer, timer)
        return later

    def changed(self) -> None:
        """Answer all questions, in the next turn of the loop."""
        if self._held and not self._is_told:
            self._is_told = True
            soon(Share.CHANGE, self._end_all)

    def _end_all(self) -> None:
        self._is_told = False
        for replica in list(self._held):
            self._end(replica)

    def _end(self, replica: int) -> None:
        """Answer the question of a replica, if there is one, and forget it."""
        held = self._held.pop(replica, None)
        if held is None:
            return
        held.timer.cancel()
        try:
            held.later.answer(held.answer())
        except Exception as error:  # noqa: BLE001 - told to the replica, as for every handler
            held.later.fail(error)
