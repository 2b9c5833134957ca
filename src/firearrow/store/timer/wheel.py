"""The timer wheel: a slot for every time, two weeks of seconds in one file. Java: ``store.timer.TimerWheel``.

Pages of the file are read when a slot of theirs is first used and stay in memory: 37 MB at most, whatever the number of
timers. Changed pages are written by `write`, after the timer log behind them is durable, so the file never names a unit
that a power loss can take away. A page that changes between `take_changed` and its write is copied first: what is
written is the wheel of one moment, and yet no turn copies all of it.

Unlike Apache's, a slot is emptied when it is delivered. So the next slot to deliver may go back after the clock was
set back, and no message is delivered twice for it.
"""

from collections.abc import Collection, Iterator
from itertools import count, groupby
from typing import Final

from firearrow.runtime.disk.door import Disk, File
from firearrow.runtime.turn import Pace
from firearrow.store.timer.layout import NO_POSITION, SLOT, SLOT_BYTES, WHEEL_SLOTS, Slot

PATH: Final = "timerwheel"
PAGE_BYTES: Final = 4096
SLOTS_A_PAGE: Final = PAGE_BYTES // SLOT_BYTES
PAGES_AT_ONCE: Final = 64
"""Pages looked at before the loop runs."""
WRITTEN_AT_ONCE: Final = 16
"""Pages written with one call, if they are neighbours."""
_EMPTY_PAGE: Final = bytes(PAGE_BYTES)
_EMPTY_SLOT: Final = bytes(SLOT_BYTES)

_unpack = SLOT.unpack_from
_pack = SLOT.pack_into


class Wheel:
    """The slots of one wheel. Its file is made when the first slot is written."""

    def __init__(self, disk: Disk, precision_ms: int, slots: int = WHEEL_SLOTS) -> None:
        self._disk = disk
        self._file: File | None = disk.open(PATH) if disk.exists(PATH) else None
        self.is_new = self._file is None or self._file.size == 0
        """Whether there was no wheel."""
        self.precision_ms = precision_ms
        self.slots = slots
        self._pages: dict[int, bytearray] = {}
        self._changed: set[int] = set()
        self._taken: dict[int, bytes | None] = {}  # to be written; with their bytes if they have changed since
        self._is_synced = False  # the process before this one may have been killed between a write and its sync
        self.used = 0
        """The number of slots with units, as far as `count` has looked and since."""

    def _page(self, number: int) -> bytearray:
        page = self._pages.get(number)
        if page is None:
            data = b"" if self._file is None else self._file.read_at(number * PAGE_BYTES, PAGE_BYTES)
            page = self._pages[number] = bytearray(data + _EMPTY_PAGE[len(data) :])
        return page

    def _changing(self, number: int) -> None:
        """Note that a page is about to change; keep its bytes if they are to be written."""
        self._changed.add(number)
        if number in self._taken and self._taken[number] is None:
            self._taken[number] = bytes(self._pages[number])

    def get(self, time_ms: int) -> Slot | None:
        """Return the slot of a time; None when it has no units."""
        time = time_ms // self.precision_ms
        number, at = divmod(time % self.slots, SLOTS_A_PAGE)
        slot = Slot._make(_unpack(self._page(number), at * SLOT_BYTES))
        return slot if slot.time == time and slot.last != NO_POSITION else None

    def occupant_ms(self, time_ms: int) -> int | None:
        """Return the time whose units are in the slot that ``time_ms`` would use; None when the slot is empty."""
        number, at = divmod(time_ms // self.precision_ms % self.slots, SLOTS_A_PAGE)
        slot = Slot._make(_unpack(self._page(number), at * SLOT_BYTES))
        return None if slot.time <= 0 else slot.time * self.precision_ms

    def put(self, time_ms: int, first: int, last: int, number_of_units: int) -> None:
        """Set the slot of a time."""
        time = time_ms // self.precision_ms
        number, at = divmod(time % self.slots, SLOTS_A_PAGE)
        page = self._page(number)
        self._changing(number)
        if page[at * SLOT_BYTES : (at + 1) * SLOT_BYTES] == _EMPTY_SLOT:
            self.used += 1
        _pack(page, at * SLOT_BYTES, time, first, last, number_of_units, 0)

    def add(self, time_ms: int, position: int, *, deletes: bool) -> int:
        """Add a unit at a position to the slot of a time; return the position before it, -1 for none."""
        slot = self.get(time_ms)
        step = -1 if deletes else 1
        if slot is None:
            self.put(time_ms, position, position, step)
            return NO_POSITION
        first = position if slot.first == NO_POSITION else slot.first
        self.put(time_ms, first, position, slot.number + step)
        return slot.last

    def clear(self, time_ms: int) -> None:
        """Empty the slot of a time, if it holds that time."""
        time = time_ms // self.precision_ms
        number, at = divmod(time % self.slots, SLOTS_A_PAGE)
        page = self._page(number)
        if _unpack(page, at * SLOT_BYTES)[0] == time:
            self._changing(number)
            page[at * SLOT_BYTES : (at + 1) * SLOT_BYTES] = _EMPTY_SLOT
            self.used -= 1

    def restore(self, time_ms: int, slot: Slot | None) -> None:
        """Set the slot of a time to what it was before."""
        if slot is None:
            self.clear(time_ms)
        else:
            self.put(time_ms, slot.first, slot.last, slot.number)

    async def used_pages(self) -> list[int]:
        """Return the numbers of the pages that may have slots with units. Yields to the loop."""
        found: set[int] = set()
        if self._file is not None:
            pace = Pace(PAGES_AT_ONCE)
            at, size = 0, min(self._file.size, self.slots * SLOT_BYTES)
            while (at := self._file.next_data(at)) < size:
                found.add(at // PAGE_BYTES)
                at = (at // PAGE_BYTES + 1) * PAGE_BYTES
                await pace.did()
        return sorted(found.union(self._pages))

    def slots_of_page(self, number: int) -> list[Slot]:
        """Return the slots of a page that are not empty."""
        page = self._pages.get(number)
        if page is None:
            if self._file is None:
                return []
            data = self._file.read_at(number * PAGE_BYTES, PAGE_BYTES)
            if data == _EMPTY_PAGE:
                return []
            page = bytearray(data + _EMPTY_PAGE[len(data) :])
        elif page == _EMPTY_PAGE:
            return []
        return [Slot._make(one) for one in SLOT.iter_unpack(page) if one[0] > 0]

    def load_page(self, number: int, data: bytes) -> None:
        """Put the bytes of another copy of the wheel in place of a page."""
        if data != _EMPTY_PAGE[: len(data)] or number in self._pages or self.slots_of_page(number):
            self._pages[number] = bytearray(data + _EMPTY_PAGE[len(data) :])
            self._changed.add(number)  # only while the files are opened, when nothing is being written

    @property
    def pages(self) -> int:
        """The number of pages."""
        return -(-self.slots // SLOTS_A_PAGE)

    # ---- writing

    @property
    def is_changed(self) -> bool:
        """Whether a page has changed since it was last taken."""
        return bool(self._changed)

    def take_changed(self) -> Collection[int]:
        """Take the changed pages as they are now, for `write`; return their numbers.

        They count as unchanged from now on.
        """
        taken = sorted(self._changed)
        self._taken = dict.fromkeys(taken)
        self._changed = set()
        return taken

    def give_back(self, numbers: Collection[int]) -> None:
        """Count pages that were taken as changed again, after they could not be written."""
        self._taken = {}
        self._changed.update(numbers)

    async def write(self, numbers: Collection[int]) -> None:
        """Write the pages that were taken, and return once the file is durable. Yields to the loop."""
        if not numbers and (self._is_synced or self._file is None):
            return
        file = self._file = self._file or self._disk.open(PATH, create=True)
        if file.size < self.slots * SLOT_BYTES:
            file.truncate(self.slots * SLOT_BYTES)
        pace = Pace(PAGES_AT_ONCE)
        for some in _neighbours(numbers):
            pages = [self._taken.pop(number) or bytes(self._pages[number]) for number in some]
            at = some[0] * PAGE_BYTES
            pages[-1] = pages[-1][: self.slots * SLOT_BYTES - some[-1] * PAGE_BYTES]
            file.write_at(at, pages)
            await pace.did(len(some))
        await file.sync()
        if not self._is_synced:
            await self._disk.sync_directory()
            self._is_synced = True

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()


def _neighbours(numbers: Collection[int]) -> Iterator[list[int]]:
    """Return ascending numbers in lists of consecutive ones, `WRITTEN_AT_ONCE` at most in each."""
    steps = count()
    for _, some in groupby(numbers, lambda number: number - next(steps)):
        run = list(some)
        for first in range(0, len(run), WRITTEN_AT_ONCE):
            yield run[first : first + WRITTEN_AT_ONCE]
