"""The slot of a message when the place of its own slot in the wheel is taken. Pure but for reading the wheel.

A place of the wheel serves times that lie two weeks apart (at a precision of one second). Two of them wait at once only
after the clock was set back, or when the broker was down for long. The later message then goes to a free slot before
its time, and is stored again from there; without one before its time, it goes to the first free slot behind.
"""

from typing import Final

from firearrow.store.timer.layout import SlotTime, slot_span
from firearrow.store.timer.wheel import Wheel

MOST_STEPS: Final = 4096
"""Slots that are looked at on either side."""


def free_span(wheel: Wheel, due_ms: int, now_ms: int, window_slots: int, precision_ms: int) -> SlotTime | None:
    """Return the slot for a message that is due in the slot ``due_ms``; None when no place near it is free.

    Slots from ``now_ms`` on, the slot of this moment, are not over.
    """
    span = slot_span(due_ms, now_ms, window_slots, precision_ms)
    if _is_free(wheel, span.due_ms):
        return span
    first_ms = max(now_ms, span.due_ms - MOST_STEPS * precision_ms)
    for time_ms in range(span.due_ms - precision_ms, first_ms, -precision_ms):
        if _is_free(wheel, time_ms):
            return SlotTime(time_ms, rolls=True)
    later_ms = max(span.due_ms, now_ms)
    for time_ms in range(later_ms + precision_ms, later_ms + MOST_STEPS * precision_ms, precision_ms):
        if _is_free(wheel, time_ms):
            return SlotTime(time_ms, rolls=span.rolls)
    return None


def _is_free(wheel: Wheel, time_ms: int) -> bool:
    occupant = wheel.occupant_ms(time_ms)
    return occupant is None or occupant == time_ms
