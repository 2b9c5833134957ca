"""Times and durations as people write them: ``2026-11-15T10:00``, ``-1h``, ``now``, ``30s``. Pure."""

import re
from datetime import datetime
from typing import Final

from firearrow.errors import SettingsError

_UNITS_MS: Final = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_wait = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)").fullmatch


def wait_ms(text: str) -> int:
    """Read ``500ms``, ``10s``, ``5m``, ``2h`` or ``1d``."""
    found = _wait(text.strip())
    if found is None:
        raise SettingsError(f"{text!r} is not a duration; write a number and its unit: 500ms, 10s, 5m, 2h, 1d")
    return int(float(found[1]) * _UNITS_MS[found[2]])


def time_ms(text: str, now_ms: int) -> int:
    """Read a moment: ``now``, ``-1h`` for an hour ago, or a date with a time, local unless it says its zone."""
    text = text.strip()
    if text == "now":
        return now_ms
    if text.startswith("-"):
        return now_ms - wait_ms(text[1:])
    try:
        return int(datetime.fromisoformat(text).timestamp() * 1000)
    except (ValueError, OverflowError):
        raise SettingsError(
            f"{text!r} is not a time; write 2026-11-15T10:00:00 (local, or with Z or +08:00), -1h (an hour ago), or now"
        ) from None


def time_to_come_ms(text: str) -> int:
    """Read a moment at which a message is delivered: a date with a time, local unless it says its zone."""
    try:
        return int(datetime.fromisoformat(text.strip()).timestamp() * 1000)
    except (ValueError, OverflowError):
        raise SettingsError(
            f"{text!r} is not a time to come; write 2026-12-01T08:00 (local, or with Z or +08:00), or give a delay: 90s"
        ) from None
