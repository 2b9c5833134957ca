"""The run file: whether the machine may have lost power while the broker ran.

``firearrow/run.json`` holds the machine's boot id while the broker runs, and an empty one after an orderly end. A start
that finds the id of another boot comes after a loss of power: without SYNC_FLUSH acknowledged records may be missing.
The file stays as it is until the coordinator knows that.
"""

from typing import Final

import msgspec

from firearrow.runtime.disk.door import Disk
from firearrow.store.ours.sealed_json import read_sealed, write_sealed
from firearrow.store.paths import OURS

RUN: Final = f"{OURS}/run.json"


class _Contents(msgspec.Struct):
    boot_id: str


class RunFile:
    """The run file of one directory."""

    def __init__(self, disk: Disk, boot_id: str, found: str) -> None:
        self._disk = disk
        self._boot_id = boot_id
        self.lost_power = found not in ("", boot_id)
        """Whether the last run ended with a loss of power."""

    @classmethod
    async def load(cls, disk: Disk, boot_id: str) -> "RunFile":
        """Read the file of a directory, which is made where it is missing."""
        for name in ("", OURS):
            disk.make_directory(name)
        contents = await read_sealed(disk, RUN, _Contents)
        return cls(disk, boot_id, "" if contents is None else contents.boot_id)

    async def begin(self) -> None:
        """Note that a run has begun, and that nothing is missing, or that the group knows of it."""
        await write_sealed(self._disk, RUN, _Contents(self._boot_id))

    async def end(self) -> None:
        """Note that a run has ended in order."""
        await write_sealed(self._disk, RUN, _Contents(""))
