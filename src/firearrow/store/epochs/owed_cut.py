"""The owed cut: removes the bytes that the master does not have; a crash at any step is resumed at the next start.

The steps, each durable before the next:

1. ``firearrow/cut.json`` says where the log will be cut; from then on the cut is owed, and nothing is appended;
2. the store is opened again: the flush slot is set back, the bytes are copied to quarantine and cut off the files;
3. the epoch file loses the epochs behind the cut;
4. queues and index are cut and their snapshot is written;
5. the broker lowers offsets and timers that are ahead of the cut;
6. ``firearrow/cut.json`` is removed.

A start after a crash between any two steps finds the file and does all steps again. Without the file, an offset or a
queue entry from before the cut could outlive the cut, and would name other messages as soon as the log has grown again.
"""

from typing import Final

import msgspec

from firearrow.runtime.disk.door import Disk
from firearrow.store.paths import OURS
from firearrow.store.sidecars.sealed_json import read_sealed, write_sealed

CUT: Final = f"{OURS}/cut.json"


class _CutContents(msgspec.Struct):
    offset: int


class OwedCut:
    """The cut that a log owes, on disk."""

    def __init__(self, disk: Disk, offset: int | None) -> None:
        self._disk = disk
        self.offset = offset
        """The offset at which the log must be cut before anything else happens; None when no cut is owed."""

    @classmethod
    async def load(cls, disk: Disk) -> "OwedCut":
        """Read the file; no cut is owed without one.

        A file without a good copy was being written when the process died, so its cut has not begun.
        """
        contents = await read_sealed(disk, CUT, _CutContents)
        return cls(disk, None if contents is None else contents.offset)

    async def owe(self, offset: int) -> None:
        """Note, durably, that the log must be cut at an offset. The store must be opened again before it is used."""
        await write_sealed(self._disk, CUT, _CutContents(offset))
        self.offset = offset

    async def paid(self) -> None:
        """Remove the file: log, views and tables are cut, durably."""
        if self.offset is not None:
            for path in (CUT, f"{CUT}.bak"):
                if self._disk.exists(path):
                    await self._disk.unlink(path)
            await self._disk.sync_directory(OURS)
            self.offset = None
