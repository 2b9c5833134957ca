"""Watch: counts and logs signs of overload: holds of the loop, refused sends, failed sends, the longest wait.

A *hold* is a time of `HOLD_MS` or more in which the loop answered no request: a tick that should come every `TICK_S`
comes that much too late. The first event is logged at once, later events are summed up once a minute. The numbers are
in the answer to GET_BROKER_RUNTIME_INFO (``mqadmin brokerStatus``), under Apache's names where Apache has one.
"""

import asyncio
import logging
from collections.abc import Sequence
from typing import Final, Protocol

TICK_S: Final = 0.025
HOLD_MS: Final = 20.0
LONG_HOLD_MS: Final = 200.0
"""A hold that clients may notice is logged as WARNING. Shorter holds are logged as INFO: the machine may be busy."""
SAY_EVERY_S: Final = 60.0

log = logging.getLogger(__name__)


class SendRefusals(Protocol):
    """The part of the broker that refuses sends (`Admission`)."""

    refused: int
    """Number of refused sends."""


class AnswerLine(Protocol):
    """A line of answers that wait until their messages are stored (`Acks`)."""

    lost: int
    """Number of messages that could not be stored."""
    longest_s: float
    """The longest time for which the line was not served."""

    def waits_s(self) -> float:
        """Return how long the line has not been served; 0 for an empty line."""
        ...


class SendFailures(Protocol):
    """The part of the broker that answers sends (`SendReplies`)."""

    failed: int
    """Number of sends that the store did not take."""


class Watch:
    """Counts and logs the signs of overload of one broker."""

    def __init__(self, gate: SendRefusals, sends: SendFailures, answers: Sequence[AnswerLine]) -> None:
        self._gate = gate
        self._sends = sends
        self._answers = answers
        self.holds = 0
        self.longest_hold_ms = 0.0
        self._said_s = -SAY_EVERY_S
        self._said = (0, 0, 0)
        self._longest_since_ms = 0.0

    @property
    def refused(self) -> int:
        """Sends refused because the broker was busy."""
        return self._gate.refused

    @property
    def failed(self) -> int:
        """Sends that could not be stored."""
        return self._sends.failed + sum(each.lost for each in self._answers)

    @property
    def longest_wait_ms(self) -> int:
        """The longest time since the start for which waiting answers to sends were not served."""
        return int(1000 * max(each.longest_s for each in self._answers))

    @property
    def waits_ms(self) -> int:
        """The time for which waiting answers to sends have not been served."""
        return int(1000 * max(each.waits_s() for each in self._answers))

    def table(self) -> dict[str, str]:
        """Return the numbers by name."""
        return {
            "putMessageFailedTimes": str(self.failed),
            "putMessageEntireTimeMax": str(self.longest_wait_ms),
            "pageCacheLockTimeMills": str(self.waits_ms),
            "sendsRefusedAsBusy": str(self.refused),
            "loopHolds": str(self.holds),
            "loopHoldMillsMax": f"{self.longest_hold_ms:.0f}",
        }

    async def run(self) -> None:
        """Measure the delay of ticks until cancelled."""
        loop = asyncio.get_running_loop()
        due = loop.time()
        while True:
            due = max(due + TICK_S, loop.time())
            await asyncio.sleep(due - loop.time())
            now = loop.time()
            self.ticked(1000 * (now - due), now)

    def ticked(self, late_ms: float, now_s: float) -> None:
        """Note how late a tick came, and log if it is time to."""
        if late_ms >= HOLD_MS:
            self.holds += 1
            self.longest_hold_ms = max(self.longest_hold_ms, late_ms)
            self._longest_since_ms = max(self._longest_since_ms, late_ms)
        if now_s - self._said_s >= SAY_EVERY_S:
            self._say(now_s)

    def _say(self, now_s: float) -> None:
        seen = (self.holds, self.refused, self.failed)
        holds, refused, failed = (new - old for new, old in zip(seen, self._said, strict=True))
        if not (holds or refused or failed):
            return
        longest_ms, self._longest_since_ms = self._longest_since_ms, 0.0
        self._said, self._said_s = seen, now_s
        is_noticed = refused or failed or longest_ms >= LONG_HOLD_MS
        log.log(
            logging.WARNING if is_noticed else logging.INFO,
            "the broker is pressed: %d sends refused as busy, %d failed, %d holds of the loop (the longest %.0f ms) "
            "since this was last said",
            refused,
            failed,
            holds,
            longest_ms,
            extra={"refused": refused, "failed": failed, "holds": holds, "longest_hold_ms": round(longest_ms)},
        )
