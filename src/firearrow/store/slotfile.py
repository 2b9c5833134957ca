"""The file that says how far the log is durable: written after each successful sync, never ahead of one.

There are two slots. A note is written over the one that was not synced last, so at every moment a whole slot is
durable, whatever becomes of the note. The file has its full length before the first note, so a note needs no space.
Nobody waits for a note: recovery is right with any older one, it only calls less of the log promised. It is synced at
least every `SYNC_SECONDS` while it changes, and at close.
"""

from collections import deque
from contextlib import suppress
from typing import Final

from firearrow.errors import DiskError, ResourceShortage
from firearrow.runtime.disk import Disk, File
from firearrow.store.paths import FLUSH_SLOT, OURS
from firearrow.store.sidecar import SLOT_FILE_BYTES, SLOT_SPACING, FlushSlot, newest_slot, older_position

SYNC_SECONDS: Final = 1.0
_MARKS: Final = 4


class SlotFile:
    """The flush slots on disk."""

    def __init__(self, file: File, last: FlushSlot | None, position: int, boot_id: str, window: int) -> None:
        self.found = last
        """What the file said when it was opened."""
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
        """Open the file, making it durably when it is not there."""
        file = disk.open(FLUSH_SLOT, create=True)
        data = await file.read(0, SLOT_FILE_BYTES)
        if len(data) < SLOT_FILE_BYTES:
            file.write_at(len(data), [bytes(SLOT_FILE_BYTES - len(data))])
            await file.sync()
            await disk.sync_directory(OURS)
        return cls(file, newest_slot(data), older_position(data), boot_id, window)

    def note(self, flushed: int) -> None:
        """Say that everything below ``flushed`` is durable."""
        marks = self._marks
        if flushed - marks[-1] >= self._window // _MARKS:
            marks.append(flushed)
            while len(marks) > 1 and flushed - marks[0] > self._window:
                marks.popleft()
        try:
            self._write(flushed, closed=False, checkpoint_crc=0)
        except ResourceShortage:
            # An older note is as true. The bytes written over are there on any disk but a copy-on-write one.
            return

    async def begin(self, flushed: int, boundary: int) -> None:
        """Say durably that a run begins with a log that ends at ``flushed`` and was checked from ``boundary``."""
        self._marks = deque([boundary])
        self._write(flushed, closed=False, checkpoint_crc=0)
        await self.sync()

    def distrust(self) -> None:
        """Say that a sync failed: pages above the flushed offset may be gone, as after a loss of power."""
        self._boot_id = ""
        with suppress(DiskError):
            self._write(self._flushed, closed=False, checkpoint_crc=0)

    async def finish(self, flushed: int, checkpoint_crc: int) -> None:
        """Say durably that the log ends at ``flushed`` and was closed in order."""
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
        """Give the file up."""
        self._file.close()

    def _write(self, flushed: int, *, closed: bool, checkpoint_crc: int) -> None:
        self._number += 1
        slot = FlushSlot(self._number, flushed, min(self._marks[0], flushed), closed, checkpoint_crc, self._boot_id)
        self._file.write_at(self._position, [slot.encode()])
        self._flushed = flushed
        self._unsynced = True
