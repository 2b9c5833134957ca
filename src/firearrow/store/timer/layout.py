"""The bytes of the timer files. Pure. Java: ``store.timer.TimerLog``, ``TimerWheel``, ``Slot``, ``TimerCheckpoint``.

A unit of ``timerlog/``, 52 bytes, names one timed message; the units of a slot are chained from the last to the first::

    0 size 4   4 position before 8   12 magic 4   16 written at, ms 8   24 due after, ms 4
    28 physical offset 8   36 size of the record 4   40 hash of its topic 4   44 reserved 8

A slot of ``timerwheel``, 32 bytes, is the chain of one time::

    0 time in units of the precision 8   8 first position 8   16 last position 8   24 count 4   28 magic 4

``config/timercheck``, 4096 bytes, of which seven numbers of 8 bytes are used::

    0 next slot, ms   8 end of the synced timer log   16 next entry of the timers' queue   24 the master's next entry
    32 state version   40 time of the version   48 counter of the version

The reserved bytes are 0 in Apache's files. This broker writes the exact due time there when it delivers to the
millisecond; Apache ignores it.
"""

import struct
from typing import Final, NamedTuple

from msgspec import Struct

UNIT: Final = struct.Struct(">iqiqiqiiq")
UNIT_BYTES: Final = UNIT.size
SLOT: Final = struct.Struct(">qqqii")
SLOT_BYTES: Final = SLOT.size
CHECK: Final = struct.Struct(">7q")
CHECK_BYTES: Final = 4096
_OLD_CHECK: Final = struct.Struct(">4q")

MAGIC: Final = 1
ROLLS: Final = 2
"""The message is due later than the wheel reaches: it is stored again when the slot is due."""
DELETES: Final = 4
"""The message takes back another one of the same slot."""
MAGIC_BITS: Final = 0xF
"""The bits that the magic of a unit may have (Java: ``isMagicOK``)."""

FILLER: Final = struct.Struct(">iqi")
FILLER_BYTES: Final = FILLER.size
FILLER_MAGIC: Final = 0xCBD43194 - (1 << 32)

NO_POSITION: Final = -1
WHEEL_SLOTS: Final = 7 * 86_400 * 2
"""Slots of a wheel, whatever its precision."""
WHEEL_BYTES: Final = WHEEL_SLOTS * SLOT_BYTES
PRECISIONS_MS: Final = (100, 200, 500, 1000)
"""The values of ``timerPrecisionMs`` that 5.5.0 allows."""


class Unit(NamedTuple):
    """One timed message in the timer log."""

    size: int
    before: int
    magic: int
    written_ms: int
    delay_ms: int
    physical: int
    record_bytes: int
    topic_hash: int
    exact_ms: int

    @property
    def due_ms(self) -> int:
        """The time of its slot."""
        return self.written_ms + self.delay_ms

    @property
    def is_valid(self) -> bool:
        """Whether the bytes are a unit (Java: ``isMagicOK``)."""
        return self.size == UNIT_BYTES and self.magic | MAGIC_BITS == MAGIC_BITS


class Slot(NamedTuple):
    """The units of one time. ``time`` counts in units of the precision."""

    time: int
    first: int
    last: int
    number: int
    magic: int = 0


class TimerCheck(Struct, frozen=True):
    """The progress of the timers."""

    read_ms: int = 0
    """The first slot that is not delivered."""
    log_end: int = 0
    """The wheel holds every unit below this position of the timer log."""
    queue_offset: int = 0
    """The first entry of the timers' queue that is not in the wheel."""
    master_offset: int = 0
    """``queue_offset`` at the master; Apache's recovery does not go beyond it."""
    state_version: int = 0
    version_ms: int = 0
    counter: int = 0

    @property
    def is_copied(self) -> bool:
        """Whether a slave kept this checkpoint of its master: the wheel is to be made from the timers' queue."""
        return self.queue_offset == 0 < self.master_offset

    def encode(self) -> bytes:
        """The seven numbers, as the file and request 60 have them."""
        return CHECK.pack(
            self.read_ms,
            self.log_end,
            self.queue_offset,
            self.master_offset,
            self.state_version,
            self.version_ms,
            self.counter,
        )

    @classmethod
    def decode(cls, data: bytes) -> "TimerCheck":
        """Return the checkpoint in a file; all zeros when the file is too short."""
        if len(data) >= CHECK.size:
            return cls(*CHECK.unpack_from(data))
        return cls(*_OLD_CHECK.unpack_from(data)) if len(data) >= _OLD_CHECK.size else cls()


def unit_at(data: bytes, position: int) -> Unit:
    """Return the unit at a position of a buffer."""
    return Unit._make(UNIT.unpack_from(data, position))


def filler(left: int) -> bytes:
    """Return what fills the end of a file that has no room for another unit."""
    return FILLER.pack(left, 0, FILLER_MAGIC)


class SlotTime(NamedTuple):
    """The slot of a message: its time, and whether the message is stored again then."""

    due_ms: int
    rolls: bool


def slot_span(due_ms: int, now_ms: int, window_slots: int, precision_ms: int) -> SlotTime:
    """Return the slot of a message that is due at ``due_ms``, a multiple of the precision. Java: ``doEnqueue``.

    A message beyond the window goes to the end of the window, or to its middle when only a third of a window or less is
    left behind it, and is stored again from there.
    """
    window_ms = window_slots * precision_ms
    left_ms = due_ms - now_ms
    if left_ms < window_ms:
        return SlotTime(due_ms, rolls=False)
    if left_ms - window_ms < window_slots // 3 * precision_ms:
        return SlotTime(now_ms + window_slots // 2 * precision_ms, rolls=True)
    return SlotTime(now_ms + window_ms, rolls=True)
