"""Repeated warnings, damped: the first is logged at once, repeats now and then with a count.

The text of a line names the thing and the reason; the same values stand in ``extra`` for machines.
"""

import logging
from typing import Final

from firearrow.telemetry.damped import Damped

MOST_KINDS: Final = 256


class Trouble:
    """The warnings of one client, by kind."""

    def __init__(self, log: logging.Logger) -> None:
        self._log = log
        self._kinds: dict[str, Damped] = {}

    def say(self, now: float, kind: str, text: str, *values: object, **extra: object) -> None:
        """Count one more of ``kind``, and warn if it is time to."""
        if len(self._kinds) > MOST_KINDS:
            self._kinds.clear()
        count = self._kinds.setdefault(kind, Damped()).count(now)
        if count > 1:
            self._log.warning(
                f"{text} (repeated %d times since the last line)", *values, count, extra={**extra, "times": count}
            )
        elif count:
            self._log.warning(text, *values, extra=extra)
