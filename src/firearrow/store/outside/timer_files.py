"""The timers of Apache's broker: its wheel, its log of timers and its checkpoint. Read-only.

``timerwheel`` holds 32 bytes a slot, for two times seven days, by default one slot a second::

    0 time in units of the precision 8   8 first place 8   16 last place 8   24 count 4   28 magic 4

A place is a position in ``timerlog/``, whose units of 52 bytes are chained from the last of a slot back to its first::

    0 size 4   4 place before 8   12 magic 4   16 set out at, ms 8   24 due after, ms 4
    28 physical offset 8   36 size of the record 4   40 hash of its topic 4   44 reserved 8

``config/timercheck`` says which slot is next (everything before it is delivered) and which entry of the timers' queue
is set out next. Wheel and log are written before it, so what they miss still lies in the queue from that entry on.
Java: ``store.timer.TimerWheel``, ``TimerLog``, ``TimerCheckpoint``, ``TimerMessageStore``.
"""

import struct
from bisect import bisect_right
from collections.abc import AsyncIterator
from typing import Final, NamedTuple

from firearrow.errors import FileMissing
from firearrow.runtime.disk.door import Disk, File
from firearrow.store.outside.queues import starts_in
from firearrow.store.pacing import Pace
from firearrow.store.paths import segment_name

WHEEL: Final = "timerwheel"
LOG: Final = "timerlog"
CHECK: Final = "config/timercheck"

SLOT = struct.Struct(">qqqii")
UNIT = struct.Struct(">iqiqiqiiq")
CHECK_FIELDS = struct.Struct(">qqq")
PRECISIONS_MS: Final = (100, 200, 500, 1000)
"""The values of ``timerPrecisionMs``. The wheel does not hold the precision; `_in_ms` infers it from the times."""

_DELETES: Final = 4
_MAGIC_BITS: Final = 0xF
_NO_PLACE: Final = -1
_SLOTS_AT_ONCE: Final = 16_384
_UNITS_AT_ONCE: Final = 256


class TimerCheck(NamedTuple):
    """The checkpoint of Apache's timers."""

    next_ms: int = 0
    """The time of the first slot that is not delivered."""
    next_offset: int = 0
    """The first entry of the timers' queue that is not in the wheel."""


class Timer(NamedTuple):
    """A message in the wheel."""

    physical: int
    size: int
    topic_hash: int


class Slot(NamedTuple):
    """Messages due at one time, as the wheel has them."""

    last: int
    """Place of the newest unit."""
    number: int


async def read_check(disk: Disk) -> TimerCheck:
    """The checkpoint of a directory; without one, nothing is delivered and nothing is in the wheel."""
    try:
        data = await disk.read_whole(CHECK)
    except FileMissing:
        return TimerCheck()
    if len(data) < CHECK_FIELDS.size:
        return TimerCheck()
    next_ms, _, next_offset = CHECK_FIELDS.unpack_from(data)
    return TimerCheck(next_ms, next_offset)


async def slots_due(disk: Disk, next_ms: int) -> AsyncIterator[Slot]:
    """The slots of the wheel that are not delivered."""
    try:
        wheel = disk.open(WHEEL)
    except FileMissing:
        return
    try:
        piece_bytes = _SLOTS_AT_ONCE * SLOT.size
        oldest = max(next_ms // PRECISIONS_MS[-1], 1)  # whatever the precision is
        at = 0
        while (at := wheel.next_data(at)) < wheel.size:
            at -= at % SLOT.size
            piece = await wheel.read(at, piece_bytes)
            for time, _, last, number, _ in SLOT.iter_unpack(piece[: len(piece) // SLOT.size * SLOT.size]):
                if time >= oldest and last >= 0 and _in_ms(time, next_ms) >= next_ms:
                    yield Slot(last, number)
            at += piece_bytes
    finally:
        wheel.close()


def _in_ms(time: int, near_ms: int) -> int:
    """A time of the wheel in milliseconds, in the only precision that puts it near ``near_ms``."""
    return min((time * precision for precision in PRECISIONS_MS), key=lambda ms: abs(ms - near_ms))


class TimerLog:
    """The units of ``timerlog/``."""

    def __init__(self, disk: Disk, starts: list[int]) -> None:
        self._disk = disk
        self._starts = starts
        self._files: dict[int, File] = {}
        self._pace = Pace(_UNITS_AT_ONCE)

    @classmethod
    async def open(cls, disk: Disk) -> "TimerLog":
        """Open the log of timers in a directory."""
        return cls(disk, await starts_in(disk, LOG))

    async def timers(self, slot: Slot) -> list[Timer] | None:
        """The messages of a slot, newest first, without those that recall another; None when it has no units."""
        at, found, read = slot.last, [], 0
        while (unit := self._unit(at)) is not None:
            size, before, magic, _, _, physical, record_bytes, topic_hash, _ = unit
            if size != UNIT.size or magic | _MAGIC_BITS != _MAGIC_BITS:
                break
            read += 1
            if not magic & _DELETES:
                found.append(Timer(physical, record_bytes, topic_hash))
            if before == _NO_PLACE or before >= at:
                break
            at = before
            await self._pace.did()
        return found if read else None

    def _unit(self, place: int) -> tuple[int, ...] | None:
        index = bisect_right(self._starts, place) - 1
        if place < 0 or index < 0:
            return None
        start = self._starts[index]
        try:
            file = self._files.get(start) or self._disk.open(f"{LOG}/{segment_name(start)}")
        except FileMissing:
            return None
        self._files[start] = file
        data = file.read_at(place - start, UNIT.size)
        return UNIT.unpack(data) if len(data) == UNIT.size else None

    def close(self) -> None:
        """Close every file."""
        for file in self._files.values():
            file.close()
        self._files.clear()
