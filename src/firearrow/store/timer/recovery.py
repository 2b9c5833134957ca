"""Opens the timer files of a directory, whoever wrote them and however they ended.

The wheel may miss the last units of the timer log, and after a power loss it may name units that are lost. So the end
of the timer log is found first: units behind it are not whole, or name records that the commit log does not hold. Then
slots that are delivered are emptied, slots that name units behind the end are taken apart, and the units since the
checkpoint are laid over the wheel. The entries of the timers' queue from the checkpoint on are read again, without
those whose units are in the log. Java: ``TimerMessageStore.recover``.

A broker of 5.5.0 with ``timerWheelSnapshotFlush`` keeps the wheel in ``timerwheel.<end of the timer log>`` instead; the
newest of them is read when there is one, and they are deleted once the wheel is written.
"""

from typing import Final, NamedTuple

from firearrow.errors import FileMissing
from firearrow.runtime.disk.door import Disk
from firearrow.runtime.turn import Pace
from firearrow.store.timer.layout import (
    DELETES,
    FILLER_MAGIC,
    NO_POSITION,
    PRECISIONS_MS,
    UNIT_BYTES,
    TimerCheck,
    unit_at,
)
from firearrow.store.timer.timer_log import TimerLog
from firearrow.store.timer.wheel import PAGE_BYTES, PATH, Wheel

CHECK_PATH: Final = "config/timercheck"
READ_BYTES: Final = 8192 * UNIT_BYTES
NEVER_MS: Final = 2**63 - 1
_WORK_AT_ONCE: Final = 2048


class RecoveredTimerLog(NamedTuple):
    """The timer log after recovery."""

    end: int
    """The position behind the last good unit of the timer log."""
    units: int
    """The units laid over the wheel."""
    first_ms: int
    """The earliest slot with units; `NEVER_MS` when there is none."""
    in_log: frozenset[int]
    """Physical offsets from ``asked_from`` on of messages whose units are in the timer log."""


async def read_check(disk: Disk) -> TimerCheck:
    """Return the checkpoint of a directory; all zeros without one."""
    try:
        return TimerCheck.decode(await disk.read_whole(CHECK_PATH))
    except FileMissing:
        return TimerCheck()


async def snapshots(disk: Disk) -> list[int]:
    """Return the numbers of the wheel's snapshots, ascending."""
    names = [name.removeprefix(f"{PATH}.") for name in await disk.list() if name.startswith(f"{PATH}.")]
    return sorted(int(name) for name in names if name.isascii() and name.isdigit())


async def load_snapshot(disk: Disk, wheel: Wheel) -> int | None:
    """Lay the newest snapshot over the wheel; return the end of the timer log that it covers, None without one."""
    found = await snapshots(disk)
    if not found:
        return None
    data = await disk.read_whole(f"{PATH}.{found[-1]}")
    pace = Pace(_WORK_AT_ONCE)
    for number in range(wheel.pages):
        wheel.load_page(number, data[number * PAGE_BYTES : (number + 1) * PAGE_BYTES])
        await pace.did(16)
    return found[-1]


async def recover(
    log: TimerLog, wheel: Wheel, check: TimerCheck, *, covered: int, log_tail: int, asked_from: int
) -> RecoveredTimerLog:
    """Bring wheel and timer log into agreement. ``covered`` is the end of the timer log that the wheel holds for
    certain, ``log_tail`` the end of the commit log, ``asked_from`` the physical offset of the checkpoint's entry."""
    covered = max(covered, log.start)
    end = await _find_end(log, covered, log_tail)
    broken_from, first_ms = await _clean(wheel, check.read_ms, end)
    replay_from = max(min(covered, broken_from), log.start)
    found = await _replay(log, wheel, check, replay_from, covered, end, asked_from)
    return found._replace(first_ms=min(found.first_ms, first_ms))


async def _find_end(log: TimerLog, covered: int, log_tail: int) -> int:
    """Return the position behind the last good unit, looking from the file that holds ``covered`` on."""
    pace = Pace(_WORK_AT_ONCE)
    end = log.start
    begin = log.file_start(max(covered - 1, log.start))
    for start in [start for start in log.starts if begin is not None and start >= begin]:
        at = start
        while data := await log.read(at, READ_BYTES):
            for into in range(0, len(data) - UNIT_BYTES + 1, UNIT_BYTES):
                unit = unit_at(data, into)
                if unit.magic == FILLER_MAGIC:
                    break
                if not unit.is_valid or unit.physical < 0 or unit.physical + unit.record_bytes > log_tail:
                    return max(end, start)
                end = at + into + UNIT_BYTES
            else:
                at += len(data) - len(data) % UNIT_BYTES
                await pace.did(len(data) // UNIT_BYTES)
                if len(data) < READ_BYTES:
                    break
                continue
            break
    return end


async def _clean(wheel: Wheel, read_ms: int, end: int) -> tuple[int, int]:
    """Empty delivered slots and slots that name units behind the end; return the first position of the latter, and
    the time of the first slot that is left."""
    pace = Pace(_WORK_AT_ONCE)
    replay_from, first_ms = end, NEVER_MS
    used = 0
    for number in await wheel.used_pages():
        slots = wheel.slots_of_page(number)
        for slot in slots:
            time_ms = slot.time * wheel.precision_ms
            if time_ms < read_ms or slot.last == NO_POSITION:
                wheel.clear(time_ms)
            elif slot.last >= end:
                wheel.clear(time_ms)
                replay_from = min(replay_from, max(slot.first, 0))
            else:
                used += 1
                first_ms = min(first_ms, time_ms)
        await pace.did(1 + len(slots))
    wheel.used = used
    return replay_from, first_ms


async def _replay(
    log: TimerLog, wheel: Wheel, check: TimerCheck, position: int, covered: int, end: int, asked_from: int
) -> RecoveredTimerLog:
    """Lay the units from ``position`` on over the wheel.

    A unit since the checkpoint may be due before the checkpoint's time: there was none yet, or the clock was set back.
    """
    pace = Pace(_WORK_AT_ONCE)
    in_log: list[int] = []
    counted: dict[int, int] = {}
    laid, first_ms = 0, NEVER_MS
    while position < end and (start := log.file_start(position)) is not None:
        data = await log.read(position, min(READ_BYTES, end - position))
        for into in range(0, len(data) - UNIT_BYTES + 1, UNIT_BYTES):
            unit = unit_at(data, into)
            if not unit.is_valid:
                position = start + log.file_bytes
                break
            if unit.physical >= asked_from:
                in_log.append(unit.physical)
            is_new = position >= covered
            is_open = unit.due_ms >= check.read_ms or is_new
            deletes = bool(unit.magic & DELETES)
            if is_open and _lay(wheel, counted, unit.due_ms, position, is_new=is_new, deletes=deletes):
                laid += 1
                first_ms = min(first_ms, unit.due_ms)
            position += UNIT_BYTES
        else:
            if len(data) < UNIT_BYTES:
                position = start + log.file_bytes
        await pace.did(1 + len(data) // UNIT_BYTES)
    return RecoveredTimerLog(end, laid, first_ms, frozenset(in_log))


def _lay(wheel: Wheel, counted: dict[int, int], due_ms: int, position: int, *, is_new: bool, deletes: bool) -> bool:
    """Add a unit to its slot unless the slot has it already; return whether it was added.

    A unit since the checkpoint becomes the last of its slot whatever the slot says: 5.5.0 may have been killed while it
    wrote the slot. The units before it are chained to it.

    ``counted`` keeps the last unit of each slot as the wheel's file has it: units up to there are in the slot's number
    already. Units since the checkpoint are among them when the wheel was written and the checkpoint was not.
    """
    slot = wheel.get(due_ms)
    if slot is not None and position <= counted.setdefault(slot.time, slot.last):
        if is_new:
            wheel.put(due_ms, min(slot.first, position), position, slot.number)
        return is_new
    wheel.add(due_ms, position, deletes=deletes)
    return True


def precision_of(times: list[int], near_ms: int) -> int | None:
    """Return the precision of a wheel with slots of these times, of which ``near_ms`` is near; None for no times."""
    if not times:
        return None
    middle = sorted(times)[len(times) // 2]
    return min(PRECISIONS_MS, key=lambda precision: abs(middle * precision - near_ms))
