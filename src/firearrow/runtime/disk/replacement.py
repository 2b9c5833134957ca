"""Atomic replacement of whole files, the same on every disk.

Written to ``path + ".tmp"``, synced, renamed over the old file, directory synced: a reader sees the old bytes
or the new, also after a power loss. Replacements of one path follow each other in the order of their
calls. A leftover of an earlier crash is removed first: its pages may be ones that a failed sync has dropped.
"""

import asyncio
from contextlib import suppress

from firearrow.errors import DiskError
from firearrow.runtime.disk.door import Bytes, Disk, parent_of


class Replacements:
    """Replaces files of one disk."""

    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        self._turns: dict[str, tuple[asyncio.Lock, int]] = {}

    async def replace(self, path: str, data: Bytes, *, private: bool = False) -> None:
        """Put ``data`` in place of the file's contents, durably and all at once."""
        turn, waiting = self._turns.get(path) or (asyncio.Lock(), 0)
        self._turns[path] = turn, waiting + 1
        try:
            async with turn:
                await self._replace(path, f"{path}.tmp", data, private)
        finally:
            turn, waiting = self._turns[path]
            if waiting == 1:
                del self._turns[path]
            else:
                self._turns[path] = turn, waiting - 1

    async def _replace(self, path: str, fresh: str, data: Bytes, private: bool) -> None:
        if self._disk.exists(fresh):
            await self._disk.unlink(fresh)
        file = self._disk.open(fresh, create=True, private=private)
        try:
            file.write_at(0, [data])
            await file.sync()
        except BaseException:
            file.close()
            with suppress(DiskError):
                await self._disk.unlink(fresh)
            raise
        file.close()
        self._disk.rename(fresh, path)
        await self._disk.sync_directory(parent_of(path))
