"""The flush slot: the file that says how far the log is durable, written after each successful sync, never before.

There are two slots. A note overwrites the slot that was not synced last, so one slot is always durable. The file has
its full length before the first note, so a note needs no space. No acknowledgement waits for a note: recovery is right
with an older one too. The file is synced at least every `SYNC_SECONDS` while it changes, and at close.
"""

from collections import deque
from contextlib import suppress
from typing import Final

from firearrow.errors import DiskError, ResourceShortage
from firearrow.runtime.disk.door import Disk, File
from firearrow.store.paths import FLUSH_SLOT, OURS
from firearrow.store.sidecars.sidecar import SLOT_FILE_BYTES, SLOT_SPACING, FlushSlot, newest_slot, older_position

SYNC_SECONDS: Final = 1.0
_MARKS: Final = 4


class SlotFile:
    """The flush slots on disk."""

    def __init__(self, file: File, last: FlushSlot | None, position: int, boot_id: str, window: int) -> None:
        self.found = last
        """The newest slot when the file was opened."""
        self._file = file
        self._boot_id = boot_id
        self._window = window
        self._number = last.number if last else 0
        self._position = position
        self._marks: deque[int] = deque([last.boundary if last else 0])
        self._flushed = last.flushed if last else 0
        self._unsynced = False

    @classmethod
    async def open(cls, disk: Disk, boot_id: str, window: int) -> "SlotFile":
        """Open the file; create it, durably, if it does not exist."""
        file = disk.open(FLUSH_SLOT, create=True)
        data = await file.read(0, SLOT_FILE_BYTES)
        if len(data) < SLOT_FILE_BYTES:
            file.write_at(len(data), [bytes(SLOT_FILE_BYTES - len(data))])
            await file.sync()
            await disk.sync_directory(OURS)
        return cls(file, newest_slot(data), older_position(data), boot_id, window)

    def note(self, flushed: int) -> None:
        """Write that everything below ``flushed`` is durable."""
        marks = self._marks
        if flushed - marks[-1] >= self._window // _MARKS:
            marks.append(flushed)
            while len(marks) > 1 and flushed - marks[0] > self._window:
                marks.popleft()
        try:
            self._write(flushed, closed=False, checkpoint_crc=0)
        except ResourceShortage:
            # The older note stays valid. Overwriting needs no space, except on a copy-on-write file system.
            return

    async def begin(self, flushed: int, boundary: int) -> None:
        """Write durably that a run begins with a log that ends at ``flushed`` and was checked from ``boundary``."""
        self._marks = deque([boundary])
        self._write(flushed, closed=False, checkpoint_crc=0)
        await self.sync()

    def distrust(self) -> None:
        """Write that a sync failed: pages above the flushed offset may be missing, as after a power loss."""
        self._boot_id = ""
        with suppress(DiskError):
            self._write(self._flushed, closed=False, checkpoint_crc=0)

    async def finish(self, flushed: int, checkpoint_crc: int) -> None:
        """Write durably that the log ends at ``flushed`` and was closed in order."""
        self._write(flushed, closed=True, checkpoint_crc=checkpoint_crc)
        await self.sync()

    async def sync(self) -> None:
        """Make the last note durable."""
        if self._unsynced:
            self._unsynced = False
            position = self._position
            try:
                await self._file.sync()
            except ResourceShortage:
                self._unsynced = True
                raise
            self._position = SLOT_SPACING - position

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _write(self, flushed: int, *, closed: bool, checkpoint_crc: int) -> None:
        self._number += 1
        slot = FlushSlot(self._number, flushed, min(self._marks[0], flushed), closed, checkpoint_crc, self._boot_id)
        self._file.write_at(self._position, [slot.encode()])
        self._flushed = flushed
        self._unsynced = True
