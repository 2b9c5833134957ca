"""Delay levels: the fixed delays that a message may choose by number.

Level 1 is the first entry of a list such as ``1s 5s 10s``; a level above the last counts as the last. Must agree with
Java's ``ScheduleMessageService.parseDelayLevel``.
"""

import re
from typing import Final

from firearrow.errors import SettingsError

DEFAULT_DELAY_LEVELS: Final = "1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h"

_UNIT_MS: Final = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_level = re.compile(r"([0-9]{1,9})([smhd])").fullmatch


def parse_delay_levels(text: str) -> tuple[int, ...]:
    """Return the delay of each level in milliseconds; level ``n`` is element ``n - 1``."""
    levels = []
    for number, word in enumerate(text.split(), 1):
        found = _level(word)
        if found is None:
            raise SettingsError(f"delay level {number} is {word!r}; write a number and one of s m h d, such as 30s")
        levels.append(int(found[1]) * _UNIT_MS[found[2]])
    if not levels:
        raise SettingsError("the list of delay levels is empty; write for example 1s 5s 10s")
    return tuple(levels)


def delay_of_level(levels: tuple[int, ...], level: int) -> int:
    """Return the delay of ``level`` in milliseconds: 0 at level 0 or below, the longest above the last level."""
    return levels[min(level, len(levels)) - 1] if level > 0 else 0
