"""Delays: the fixed delays that a message may choose by number, and the properties of a delay to any time.

Level 1 is the first entry of a list such as ``1s 5s 10s``; a level above the last counts as the last. Must agree with
Java's ``ScheduleMessageService.parseDelayLevel``.

A timed message carries a delay in milliseconds, which its broker counts from when it gets the message, or the time of
its delivery in milliseconds since 1970. Java: ``Message.setDelayTimeMs``, ``setDeliverTimeMs``.
"""

import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Final

from firearrow.errors import IllegalMessage, SettingsError
from firearrow.model import keys
from firearrow.model.numbers import whole_number

DEFAULT_DELAY_LEVELS: Final = "1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h"

_UNIT_MS: Final = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_level = re.compile(r"([0-9]{1,9})([smhd])").fullmatch


@lru_cache(8)
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


TIMERS: Final = frozenset({keys.TIMER_DELAY_SEC, keys.TIMER_DELAY_MS, keys.TIMER_DELIVER_MS})
"""The properties that delay a message to any time."""

_DELAYED: Final = TIMERS | {
    keys.DELAY, keys.TIMER_OUT_MS, keys.TIMER_ENQUEUE_MS, keys.TIMER_DEQUEUE_MS, keys.TIMER_ROLL_TIMES,
    keys.TIMER_ROLL_LABEL, keys.TIMER_DEL_UNIQKEY, keys.TIMER_DELAY_LEVEL,
}  # fmt: skip
"""The properties of a delay, with those that brokers set: a message that is sent on has them from its last delay."""

_MILLISECOND: Final = timedelta(milliseconds=1)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_OLDEST_MS: Final = 1_000_000_000_000
"""September 2001: a smaller number was meant in other units."""


def timer_properties(
    delay: timedelta | None, deliver_at: datetime | int | None, delay_level: int = 0
) -> dict[str, str]:
    """Return the property of a timed message, none without a delay; raise ``IllegalMessage`` for a wrong one."""
    given = {"delay": delay is not None, "deliver_at": deliver_at is not None, "delay_level": bool(delay_level)}
    if sum(given.values()) > 1:
        names = " and ".join(name for name, is_given in given.items() if is_given)
        raise IllegalMessage(f"a message has one delay, and this one has {names}; give one of them")
    if delay is not None:
        wait_ms = _delay_ms(delay)
        return {keys.TIMER_DELAY_MS: str(wait_ms)} if wait_ms else {}
    if deliver_at is not None:
        return {keys.TIMER_DELIVER_MS: str(_epoch_ms(deliver_at))}
    return {}


def without_delay(properties: Mapping[str, str] | None) -> dict[str, str]:
    """Return properties without those of any delay."""
    return {name: value for name, value in (properties or {}).items() if name not in _DELAYED}


def due_ms(properties: Mapping[str, str]) -> int | None:
    """Return when a timed message was due, in milliseconds since 1970; None if it was not timed.

    Brokers do not write that down for a message with a delay, but when its slot in the wheel begins: up to
    ``timerPrecisionMs`` earlier.
    """
    text = properties.get(keys.TIMER_DELIVER_MS) or properties.get(keys.TIMER_OUT_MS, "")
    return whole_number(text)


def _delay_ms(delay: object) -> int:
    if not isinstance(delay, timedelta):
        raise IllegalMessage(f"delay={delay!r} is not a duration; write timedelta(seconds=90)")
    if delay < timedelta(0):
        raise IllegalMessage(f"delay={delay!r} is negative; write a timedelta from 0 on")
    return -(-delay // _MILLISECOND)  # rounded up: never early


def _epoch_ms(deliver_at: object) -> int:
    if isinstance(deliver_at, datetime):
        if deliver_at.tzinfo is None:
            raise IllegalMessage(
                f"deliver_at={deliver_at.isoformat()} has no time zone, so its moment is not known; write "
                "datetime(..., tzinfo=UTC), or deliver_at.astimezone() for local time"
            )
        return -((_EPOCH - deliver_at) // _MILLISECOND)
    if not isinstance(deliver_at, int) or isinstance(deliver_at, bool):
        raise IllegalMessage(
            f"deliver_at={deliver_at!r} is not a time; write a datetime with a time zone, or milliseconds since 1970"
        )
    if deliver_at < _OLDEST_MS:
        raise IllegalMessage(
            f"deliver_at={deliver_at} is before 2001 in milliseconds since 1970; write seconds * 1000, or "
            "delay=timedelta(...) for a duration"
        )
    return deliver_at
