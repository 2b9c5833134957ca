"""The timers of a directory, read from outside: those that a broker, Apache's or this one, has still to deliver.

The wheel is read from ``timerwheel`` or from its newest snapshot ``timerwheel.<end of the timer log>``, and the units
of the timer log since the checkpoint are laid over it: a broker that was killed wrote them there first. What is in
neither still lies in the timers' queue from the checkpoint's entry on. ``store.timer.layout`` describes the files.
"""

import struct
from collections.abc import AsyncIterator
from typing import Final, NamedTuple

from firearrow.errors import FileMissing
from firearrow.runtime.disk.door import Disk
from firearrow.runtime.turn import Pace
from firearrow.store.timer.layout import (
    DELETES,
    NO_POSITION,
    PRECISIONS_MS,
    SLOT,
    SLOT_BYTES,
    UNIT_BYTES,
    TimerCheck,
    unit_at,
)
from firearrow.store.timer.recovery import READ_BYTES, snapshots
from firearrow.store.timer.timer_log import TimerLog
from firearrow.store.timer.wheel import PATH

_TIMER_OF_UNIT: Final = struct.Struct(">28xqii8x")
"""Physical offset, size and topic hash of a unit."""
_SLOTS_AT_ONCE: Final = 16_384
_UNITS_AT_ONCE: Final = 256


class Timer(NamedTuple):
    """A message in the wheel."""

    physical: int
    size: int
    topic_hash: int


class TimerColumns(NamedTuple):
    """Units of the timer log by columns, whatever their slot."""

    physicals: tuple[int, ...]
    sizes: tuple[int, ...]
    topic_hashes: tuple[int, ...]


async def columns_of(log: TimerLog) -> AsyncIterator[TimerColumns]:
    """Return all units of the timer log, also bytes behind the last one, thousands at once."""
    pace = Pace(1)
    for start in log.starts:
        at = start
        while data := await log.read(at, READ_BYTES):
            whole = data[: len(data) // UNIT_BYTES * UNIT_BYTES]
            if not whole or not any(whole[:UNIT_BYTES]):
                break  # zeros behind the last unit
            yield TimerColumns(*zip(*_TIMER_OF_UNIT.iter_unpack(whole), strict=True))
            at += len(whole)
            await pace.did()


class SlotView(NamedTuple):
    """Messages due at one time."""

    last: int
    """Position of the newest unit."""
    number: int


async def slots_due(disk: Disk, log: TimerLog, check: TimerCheck) -> list[SlotView]:
    """Return the slots that are not delivered."""
    found = await snapshots(disk)
    covered = found[-1] if found else check.log_end
    path = f"{PATH}.{found[-1]}" if found else PATH
    slots = {time_ms: slot async for time_ms, slot in _wheel(disk, path, check.read_ms)}
    pace = Pace(_UNITS_AT_ONCE)
    async for position, time_ms, step in _units(log, covered):
        old = slots.get(time_ms)
        if time_ms >= check.read_ms and (old is None or old.last < position):
            slots[time_ms] = SlotView(position, (0 if old is None else old.number) + step)
        await pace.did()
    return list(slots.values())


async def _wheel(disk: Disk, path: str, read_ms: int) -> AsyncIterator[tuple[int, SlotView]]:
    try:
        wheel = disk.open(path)
    except FileMissing:
        return
    try:
        piece_bytes = _SLOTS_AT_ONCE * SLOT_BYTES
        oldest = max(read_ms // PRECISIONS_MS[-1], 1)  # whatever the precision is
        at = 0
        while (at := wheel.next_data(at)) < wheel.size:
            at -= at % SLOT_BYTES
            piece = await wheel.read(at, piece_bytes)
            for time, _, last, number, _ in SLOT.iter_unpack(piece[: len(piece) // SLOT_BYTES * SLOT_BYTES]):
                if time >= oldest and last >= 0 and (time_ms := _in_ms(time, read_ms)) >= read_ms:
                    yield time_ms, SlotView(last, number)
            at += piece_bytes
    finally:
        wheel.close()


def _in_ms(time: int, near_ms: int) -> int:
    """A time of the wheel in milliseconds, in the only precision that puts it near ``near_ms``."""
    return min((time * precision for precision in PRECISIONS_MS), key=lambda ms: abs(ms - near_ms))


async def _units(log: TimerLog, position: int) -> AsyncIterator[tuple[int, int, int]]:
    """Return position, time and count of the units from a position on, up to the first bytes that are not a unit."""
    starts = [start for start in log.starts if start + log.file_bytes > position]
    for start in starts:
        at = max(position, start)
        while at < start + log.file_bytes and (data := await log.read(at, READ_BYTES)):
            whole = len(data) // UNIT_BYTES * UNIT_BYTES
            for into in range(0, whole, UNIT_BYTES):
                unit = unit_at(data, into)
                if not unit.is_valid:
                    break
                yield at + into, unit.due_ms, -1 if unit.magic & DELETES else 1
            else:
                at += max(whole, UNIT_BYTES)
                continue
            break


async def timers_of(log: TimerLog, slot: SlotView) -> list[Timer] | None:
    """The messages of a slot, newest first, without those that recall another; None when it has no units."""
    at, found, read = slot.last, [], 0
    pace = Pace(_UNITS_AT_ONCE)
    while at != NO_POSITION and (unit := await log.unit(at)) is not None:
        read += 1
        if not unit.magic & DELETES:
            found.append(Timer(unit.physical, unit.record_bytes, unit.topic_hash))
        if unit.before >= at:
            break
        at = unit.before
        await pace.did()
    return found if read else None
