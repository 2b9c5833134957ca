"""The timer wheel: a slot for every time, two weeks of seconds in one file. Java: ``store.timer.TimerWheel``.

Pages of the file are read when a slot of theirs is first used and stay in memory: 37 MB at most, whatever the number of
timers. Changed pages are written by `write`, after the timer log behind them is durable, so the file never names a unit
that a power loss can take away.

Unlike Apache's, a slot is emptied when it is delivered. So the next slot to deliver may go back after the clock was
set back, and no message is delivered twice for it.
"""

from collections.abc import Mapping
from typing import Final

from firearrow.runtime.disk.door import Disk, File
from firearrow.store.timer.layout import NO_POSITION, SLOT, SLOT_BYTES, WHEEL_SLOTS, Slot

PATH: Final = "timerwheel"
PAGE_BYTES: Final = 4096
SLOTS_A_PAGE: Final = PAGE_BYTES // SLOT_BYTES
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
        self._is_synced = False  # the process before this one may have been killed between a write and its sync
        self.used = 0
        """The number of slots with units, as far as `count` has looked and since."""

    def _page(self, number: int) -> bytearray:
        page = self._pages.get(number)
        if page is None:
            data = b"" if self._file is None else self._file.read_at(number * PAGE_BYTES, PAGE_BYTES)
            page = self._pages[number] = bytearray(data + _EMPTY_PAGE[len(data) :])
        return page

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

    def put(self, time_ms: int, first: int, last: int, count: int) -> None:
        """Set the slot of a time."""
        time = time_ms // self.precision_ms
        number, at = divmod(time % self.slots, SLOTS_A_PAGE)
        page = self._page(number)
        if page[at * SLOT_BYTES : (at + 1) * SLOT_BYTES] == _EMPTY_SLOT:
            self.used += 1
        _pack(page, at * SLOT_BYTES, time, first, last, count, 0)
        self._changed.add(number)

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
            page[at * SLOT_BYTES : (at + 1) * SLOT_BYTES] = _EMPTY_SLOT
            self._changed.add(number)
            self.used -= 1

    def restore(self, time_ms: int, slot: Slot | None) -> None:
        """Set the slot of a time to what it was before."""
        if slot is None:
            self.clear(time_ms)
        else:
            self.put(time_ms, slot.first, slot.last, slot.number)

    def used_pages(self) -> list[int]:
        """Return the numbers of the pages that may have slots with units."""
        found = set(self._pages)
        if self._file is not None:
            at, size = 0, min(self._file.size, self.slots * SLOT_BYTES)
            while (at := self._file.next_data(at)) < size:
                found.add(at // PAGE_BYTES)
                at = (at // PAGE_BYTES + 1) * PAGE_BYTES
        return sorted(found)

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
        return [Slot._make(one) for one in SLOT.iter_unpack(page) if one[0] > 0]

    def load_page(self, number: int, data: bytes) -> None:
        """Put the bytes of another copy of the wheel in place of a page."""
        if data != _EMPTY_PAGE[: len(data)] or number in self._pages or self.slots_of_page(number):
            self._pages[number] = bytearray(data + _EMPTY_PAGE[len(data) :])
            self._changed.add(number)

    @property
    def pages(self) -> int:
        """The number of pages."""
        return -(-self.slots // SLOTS_A_PAGE)

    # ---- writing

    @property
    def is_changed(self) -> bool:
        """Whether a page has changed since it was last taken."""
        return bool(self._changed)

    def take_changed(self) -> dict[int, bytes]:
        """Return copies of the changed pages; they count as unchanged from now on."""
        taken = {number: bytes(self._pages[number]) for number in sorted(self._changed)}
        self._changed.clear()
        return taken

    def give_back(self, pages: Mapping[int, bytes]) -> None:
        """Count pages as changed again, after they could not be written."""
        self._changed.update(pages)

    async def write(self, pages: Mapping[int, bytes]) -> None:
        """Write copies of pages and return once the file is durable."""
        if not pages and (self._is_synced or self._file is None):
            return
        file = self._file = self._file or self._disk.open(PATH, create=True)
        if file.size < self.slots * SLOT_BYTES:
            file.truncate(self.slots * SLOT_BYTES)
        for number, page in pages.items():
            at = number * PAGE_BYTES
            file.write_at(at, [page[: min(PAGE_BYTES, self.slots * SLOT_BYTES - at)]])
        await file.sync()
        if not self._is_synced:
            await self._disk.sync_directory()
            self._is_synced = True

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()
