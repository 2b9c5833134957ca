"""Frequent events, damped for the log: all are counted, the first is logged at once, repeats now and then with a count.

number = refusals.count(loop.time())
if number:
    log.warning("%d connections refused: ...", number)
"""

import logging
from collections.abc import Mapping
from typing import Final

EVERY_S: Final = 10.0
"""The interval at which repeats are logged."""
MOST_KINDS: Final = 256
"""The most kinds of warnings that are counted apart; then all counts begin anew."""


class DampedEvents:
    """Counts events of one kind. Time is an argument, in seconds."""

    __slots__ = ("_said", "_said_at", "total")

    def __init__(self) -> None:
        self.total = 0
        """The number of events."""
        self._said = 0
        self._said_at = -EVERY_S

    def count(self, now: float) -> int:
        """Count an event; return the number to log now: the events since the last log line, or 0."""
        self.total += 1
        if now - self._said_at < EVERY_S:
            return 0
        self._said_at = now
        number, self._said = self.total - self._said, self.total
        return number

    def warn(self, log: logging.Logger, now: float, event: str, values: Mapping[str, object]) -> None:
        """Count an event, and log it with its values and the number of ``times`` since it was last logged."""
        times = self.count(now)
        if times:
            log.warning(event, extra={**values, "times": times})


class Trouble:
    """The warnings of one client, by kind."""

    def __init__(self, log: logging.Logger) -> None:
        self._log = log
        self._kinds: dict[str, DampedEvents] = {}

    def say(self, now: float, kind: str, text: str, *values: object, **extra: object) -> None:
        """Count one more of ``kind``, and warn if it is time to."""
        if len(self._kinds) > MOST_KINDS:
            self._kinds.clear()
        count = self._kinds.setdefault(kind, DampedEvents()).count(now)
        if count > 1:
            self._log.warning(
                f"{text} (repeated %d times since the last line)", *values, count, extra={**extra, "times": count}
            )
        elif count:
            self._log.warning(text, *values, extra=extra)
