"""The run file: whether records that a replica acknowledged may be missing from its log since its last run.

``firearrow/run.json`` holds the machine's boot id while the broker runs, and an empty one after an orderly end. A start
that finds the id of another boot comes after a loss of power. Then records may be missing that the lost run had not
synced, so the file says how that run kept them; the settings of the new run say nothing about it. A file that does not
say so is an older version's, and records may be missing. The file stays as it is until the coordinator knows that.

A run that syncs counts as such once the log that it found is synced: a run before it, which was killed in the same
boot, may have left records in memory.
"""

from typing import Final

import msgspec

from firearrow.runtime.disk.door import Disk
from firearrow.store.paths import OURS
from firearrow.store.sidecars.sealed_json import read_sealed, write_sealed

RUN: Final = f"{OURS}/run.json"


class _RunContents(msgspec.Struct):
    boot_id: str
    is_synced: bool = False
    """Whether everything that was acknowledged is on the device."""


_ENDED: Final = _RunContents("", is_synced=True)


class RunFile:
    """The run file of one directory."""

    def __init__(self, disk: Disk, boot_id: str, found: _RunContents, *, syncs: bool) -> None:
        self._disk = disk
        self._boot_id = boot_id
        self._syncs = syncs
        self._noted = found
        self.may_lack = found.boot_id not in ("", boot_id) and not found.is_synced
        """Whether the last run ended with a loss of power that may have taken acknowledged records."""

    @classmethod
    async def load(cls, disk: Disk, boot_id: str, *, syncs: bool) -> "RunFile":
        """Read the file of a directory, which is made where it is missing. ``syncs`` is for the run that begins."""
        for name in ("", OURS):
            disk.make_directory(name)
        return cls(disk, boot_id, await read_sealed(disk, RUN, _RunContents) or _ENDED, syncs=syncs)

    async def begin(self) -> None:
        """Note that a run has begun, and that nothing is missing, or that the group knows of it."""
        is_same_boot = self._noted.boot_id == self._boot_id
        await self._write(_RunContents(self._boot_id, self._syncs and (self._noted.is_synced or not is_same_boot)))

    async def opened(self) -> None:
        """Note that the log is open, and so that all of it is synced."""
        if self._syncs and self._noted == _RunContents(self._boot_id):
            await self._write(_RunContents(self._boot_id, is_synced=True))

    async def end(self) -> None:
        """Note that a run has ended in order."""
        await self._write(_ENDED)

    async def _write(self, contents: _RunContents) -> None:
        await write_sealed(self._disk, RUN, contents)
        self._noted = contents
