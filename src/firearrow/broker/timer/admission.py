"""The queue of a message with a delay: that of the timers, or, if it is due already, its own. Pure.

A message asks for a time by TIMER_DELAY_SEC, else TIMER_DELAY_MS (both from now), else TIMER_DELIVER_MS (since 1970).
TIMER_OUT_MS is the start of its slot; a slot is delivered at its end, so a message is never early and late by one slot
at most. Java: ``HookUtils.handleScheduleMessage``, ``transformTimerMessage``.
"""

from collections.abc import Callable, Mapping

from firearrow.broker.send.incoming import TIMERS, Destination
from firearrow.model import keys
from firearrow.model.flags import COMMIT, TRANSACTION_MASK
from firearrow.model.names import TIMER_TOPIC
from firearrow.model.numbers import LONG_MAX, whole_number
from firearrow.protocol.codes import ResponseCode
from firearrow.protocol.refusal import Refused
from firearrow.store.timer.config import TimerConfig

Congestion = Callable[[int], bool]
"""Whether a message for a slot is refused because the slot is too full."""


def never_congested(_slot_ms: int) -> bool:
    """Refuse no message."""
    return False


def is_timed(topic: str, properties: Mapping[str, str]) -> bool:
    """Whether a message asks for a time that it has not waited for yet."""
    return topic != TIMER_TOPIC and keys.TIMER_OUT_MS not in properties and any(key in properties for key in TIMERS)


def wanted_ms(properties: Mapping[str, str], now_ms: int) -> int | None:
    """Return the time that a timed message asks for; None when it is not a number."""
    for key, unit_ms in ((keys.TIMER_DELAY_SEC, 1000), (keys.TIMER_DELAY_MS, 1)):
        if key in properties:
            delay = _long(properties[key])
            return None if delay is None else now_ms + delay * unit_ms
    return _long(properties.get(keys.TIMER_DELIVER_MS, ""))


def _long(text: str) -> int | None:
    """Return the number in a text as ``Long.parseLong`` reads it; None when it is not one."""
    if not text.startswith("-"):
        return whole_number(text.removeprefix("+"))
    number = whole_number(text[1:], LONG_MAX + 1)
    return None if number is None else -number


def slot_ms(deliver_ms: int, precision_ms: int) -> int:
    """Return the slot at whose end a message is delivered: the one before, for a time between two slots."""
    rest = deliver_ms % precision_ms
    return deliver_ms - (rest or precision_ms)


def parked(
    given: Destination,
    sys_flag: int,
    config: TimerConfig,
    now_ms: int,
    is_congested: Congestion = never_congested,
) -> Destination:
    """Return where a message is stored: ``given`` unless it is timed and not due yet.

    Messages of a transaction are parked when they are committed.
    """
    if sys_flag & TRANSACTION_MASK not in (0, COMMIT) or not is_timed(given.topic, given.properties):
        return given
    if not config.timer_wheel_enable:
        raise Refused(ResponseCode.SYSTEM_ERROR, "accurate timer message is not enabled, timerWheelEnable is false")
    deliver_ms = wanted_ms(given.properties, now_ms)
    if deliver_ms is None:
        raise _illegal(config)
    if deliver_ms <= now_ms:
        if keys.TIMER_DEL_UNIQKEY in given.properties:
            raise _illegal(config)
        return given
    if deliver_ms - now_ms > config.timer_max_delay_sec * 1000:
        raise _illegal(config)
    out_ms = slot_ms(deliver_ms, config.timer_precision_ms)
    if is_congested(out_ms):
        raise _congested(config)
    properties = {
        **given.properties,
        keys.TIMER_OUT_MS: str(out_ms),
        keys.REAL_TOPIC: given.topic,
        keys.REAL_QID: str(given.queue_id),
    }
    return Destination(TIMER_TOPIC, 0, properties)


def _illegal(config: TimerConfig) -> Refused:
    return Refused(
        ResponseCode.MESSAGE_ILLEGAL,
        "timer message illegal, the delay time should not be bigger than the max delay "
        f"{config.timer_max_delay_sec * 1000}ms; or if set del msg, the delay time should be bigger than the "
        "current time",
    )


def _congested(config: TimerConfig) -> Refused:
    limit = config.timer_congest_num_each_slot
    return Refused(
        ResponseCode.SYSTEM_ERROR,
        f"timer message is under flow control, max num limit is {limit * 2} or the current value is greater than "
        f"{limit} and less than {limit * 2}, trigger random flow control",
    )


def is_refused(count: int, limit: int, chance: float) -> bool:
    """Whether a message for a slot of ``count`` messages is refused; ``chance`` is from 0 up to 1. Java: ``isReject``.

    Apache's formula refuses the less the fuller the slot is; here it is the more.
    """
    return count > limit and (count >= 2 * limit or chance < (count - limit) / limit)
