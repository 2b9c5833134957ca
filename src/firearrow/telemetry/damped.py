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


class Damped:
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
