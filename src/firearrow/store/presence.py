"""Who is here, and who was: the lock, the abort file, and whether another program wrote since.

``lock`` is claimed while the store is open, as Apache claims it, so that the two never share a directory. ``abort``
exists while a store is open and is removed after everything was closed in order; found at the start it means that the
last run was not. Apache looks at its existence only, so its content tells ours from theirs. Java:
``DefaultMessageStore.start``, ``createTempFile``.
"""

from typing import Final

from firearrow.errors import FileMissing
from firearrow.runtime.disk import Disk, Lock
from firearrow.store.paths import ABORT, LOCK

_OURS: Final = b"firearrow\n"


class Presence:
    """Our claim on a directory."""

    def __init__(self, disk: Disk, lock: Lock, found: bytes | None) -> None:
        self._disk = disk
        self._lock = lock
        self.died = found is not None
        """Whether the last run, ours or another's, did not end in order."""
        self.died_elsewhere = found is not None and found != _OURS
        """Whether it was another program's."""

    @classmethod
    async def claim(cls, disk: Disk) -> "Presence":
        """Take the lock and look at what the last run left."""
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
        """Say durably that a run has begun."""
        await self._disk.replace(ABORT, _OURS)

    async def leave(self, *, in_order: bool) -> None:
        """Give the directory up; only a run that ends in order takes its mark away."""
        try:
            if in_order:
                await self._disk.unlink(ABORT)
                await self._disk.sync_directory()
        finally:
            self._lock.release()
