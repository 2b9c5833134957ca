"""The claim on a directory: the lock, the abort file, and whether another program wrote since.

``lock`` is claimed while the store is open, as Apache claims it, so that the two never share a directory. ``abort``
exists while a store is open and is removed after an orderly close; if it exists at the start, the last run was not
closed. Apache only checks that the file exists, so its content tells our runs from Apache's. Java:
``DefaultMessageStore.start``, ``createTempFile``.
"""

from typing import Final

from firearrow.errors import FileMissing
from firearrow.runtime.disk.door import Disk, Lock
from firearrow.store.paths import ABORT, LOCK

_OURS: Final = b"firearrow\n"


class Presence:
    """Our claim on a directory."""

    def __init__(self, disk: Disk, lock: Lock, found: bytes | None) -> None:
        self._disk = disk
        self._lock = lock
        self._found = found
        self.died = found is not None
        """Whether the last run, ours or another program's, did not end in order."""
        self.died_elsewhere = found is not None and found != _OURS
        """Whether the last run did not end in order and was another program's."""

    @classmethod
    async def claim(cls, disk: Disk) -> "Presence":
        """Take the lock and read the abort file of the last run."""
        lock = disk.lock(LOCK)
        try:
            found = await disk.read_whole(ABORT)
        except FileMissing:
            found = None
        except BaseException:
            lock.release()
            raise
        return cls(disk, lock, found)

    async def enter(self) -> None:
        """Write the abort file, durably: a run has begun. One of a run of ours that did not end in order stays."""
        if self._found != _OURS:
            await self._disk.replace(ABORT, _OURS)

    async def leave(self, *, in_order: bool) -> None:
        """Release the lock; only a run that ends in order removes the abort file."""
        try:
            if in_order:
                await self._disk.unlink(ABORT)
                await self._disk.sync_directory()
        finally:
            self._lock.release()
