"""Finds the units of the timer log that are pending: those whose slot of the wheel still has them.

Units stand in the timer log in the order of their records. So a search for the pending units of some records begins at
the first of their units, or at the first unit that any slot has when that is later: units that were delivered before
are not looked at. A step of the search looks at `UNITS_AT_ONCE` units and yields to the loop.
"""

from collections.abc import AsyncIterator
from typing import Final, NamedTuple

from firearrow.runtime.turn import Pace
from firearrow.store.timer.layout import UNIT_BYTES, Unit, unit_at
from firearrow.store.timer.timer_log import TimerLog
from firearrow.store.timer.wheel import Wheel

UNITS_AT_ONCE: Final = 512
"""Units looked at before the loop runs."""
SLOTS_AT_ONCE: Final = 1024
"""Slots of the wheel looked at before the loop runs."""


class PlacedUnit(NamedTuple):
    """A unit and its position in the timer log."""

    position: int
    unit: Unit


def is_pending(wheel: Wheel, placed: PlacedUnit) -> bool:
    """Whether the slot of a unit has it now."""
    slot = wheel.get(placed.unit.due_ms)
    return slot is not None and slot.first <= placed.position <= slot.last


async def pending_units(log: TimerLog, wheel: Wheel, start: int, end: int) -> AsyncIterator[list[PlacedUnit]]:
    """Return the pending units of the records from the physical offset ``start`` to before ``end``, in order.

    Slots may be delivered meanwhile: ask `is_pending` again in the turn that relies on it.
    """
    first = await _first_pending(log, wheel)
    if first is None:
        return
    position = max(first, await _position_of(log, start), log.start)
    pace = Pace(UNITS_AT_ONCE, rests=True)
    while (file := log.file_start(position)) is not None and position < log.end:
        data = await log.read(position, min(UNITS_AT_ONCE * UNIT_BYTES, log.end - position))
        found, looked, is_over = _look(wheel, data, position, start, end)
        if found:
            yield found
        if is_over:
            return
        position += looked * UNIT_BYTES
        if position + UNIT_BYTES > file + log.file_bytes or not looked:
            position = file + log.file_bytes  # the filler at the end of the file
        await pace.did(UNITS_AT_ONCE)


def _look(wheel: Wheel, data: bytes, position: int, start: int, end: int) -> tuple[list[PlacedUnit], int, bool]:
    """Return the pending units among some, how many were looked at, and whether the search is over."""
    found: list[PlacedUnit] = []
    spans: dict[int, tuple[int, int]] = {}  # first and last position of slots, which do not change within a turn
    looked = 0
    for into in range(0, len(data) - UNIT_BYTES + 1, UNIT_BYTES):
        unit = unit_at(data, into)
        looked += 1
        if not unit.is_valid or unit.physical < start:
            continue  # a damaged unit hides none behind it
        if unit.physical >= end:
            return found, looked, True
        due_ms, at = unit.written_ms + unit.delay_ms, position + into
        span = spans.get(due_ms)
        if span is None:
            slot = wheel.get(due_ms)
            span = spans[due_ms] = (0, -1) if slot is None else (slot.first, slot.last)
        if span[0] <= at <= span[1]:
            found.append(PlacedUnit(at, unit))
    return found, looked, False


async def _first_pending(log: TimerLog, wheel: Wheel) -> int | None:
    """Return the position of the first unit that a slot has; None when the wheel is empty. Yields to the loop."""
    if not wheel.used:
        return None
    first, pace = log.end, Pace(SLOTS_AT_ONCE, rests=True)
    for number in await wheel.used_pages():
        slots = wheel.slots_of_page(number)
        first = min(first, min((slot.first for slot in slots), default=first))
        await pace.did(1 + len(slots))
    return max(first, 0)


async def _position_of(log: TimerLog, physical: int) -> int:
    """Return a position before which every unit names a record below a physical offset: the last one, mostly."""
    file = log.start
    for start in log.starts[1:]:
        unit = await log.unit(start)
        if unit is None or unit.physical >= physical:
            break
        file = start
    low, high = 0, (min(log.end, file + log.file_bytes) - file) // UNIT_BYTES
    while low < high:
        middle = (low + high) // 2
        unit = await log.unit(file + middle * UNIT_BYTES)
        if unit is None or unit.physical >= physical:
            high = middle
        else:
            low = middle + 1
    return file + low * UNIT_BYTES
