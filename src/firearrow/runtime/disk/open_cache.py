"""A bounded set of open descriptors behind any number of open files.

50,000 queue files may be in use while a process may hold a few thousand descriptors. Each ``Handle`` stands
for one file; its descriptor is opened when needed and closed when others need the room. Eviction is second
chance: a handle used since the hand last passed is spared once. A pinned handle keeps its descriptor: while a
thread or another process works on it, or when the file has lost its name and could not be opened again.

If the process has no free descriptor (connections use them), the cache closes one of its own to open the wanted file:
the disk still works with two descriptors, slowly.
"""

import errno
import os
from collections import deque

CLOSED = -1


class Handle:
    """One file of the disk, shared by all users that have it open."""

    __slots__ = ("descriptor", "identity", "path", "pins", "references", "size", "unsynced", "used")

    def __init__(self, path: str, descriptor: int) -> None:
        status = os.fstat(descriptor)
        self.path = path  # absolute
        self.descriptor = descriptor
        self.identity = (status.st_dev, status.st_ino)
        self.size = status.st_size
        self.unsynced = 0  # bytes written since the last sync began
        self.pins = 0
        self.references = 0
        self.used = True


class OpenCache:
    """Keeps at most ``limit`` descriptors open, pinned ones aside."""

    def __init__(self, limit: int, flags: int) -> None:
        self._limit = limit
        self._flags = flags
        self._hand: deque[Handle] = deque()
        self.open_count = 0

    def opened(self, path: str, flags: int, mode: int = 0o644) -> int:
        """Open a descriptor that the caller closes; if none is free, close one of the cache's."""
        while True:
            try:
                return os.open(path, flags, mode)
            except OSError as error:
                if error.errno not in (errno.EMFILE, errno.ENFILE) or not self._give_one_back():
                    raise

    def _give_one_back(self) -> bool:
        """Close an unpinned descriptor, preferably one that was not used recently."""
        idle = [handle for handle in self._hand if not handle.pins]
        if not idle:
            return False
        self._close(next((handle for handle in idle if not handle.used), idle[0]))
        return True

    def adopt(self, handle: Handle) -> None:
        """Add a handle whose descriptor was just opened."""
        self.open_count += 1
        self._make_room()
        self._hand.append(handle)

    def descriptor(self, handle: Handle) -> int:
        """Return an open descriptor of a handle, valid until the next call that opens one."""
        handle.used = True
        if handle.descriptor == CLOSED:
            self._reopen(handle)
        return handle.descriptor

    def drop(self, handle: Handle) -> None:
        """Close a handle's descriptor."""
        if handle.descriptor != CLOSED:
            self._close(handle)

    def _close(self, handle: Handle) -> None:
        descriptor, handle.descriptor = handle.descriptor, CLOSED
        self.open_count -= 1
        self._hand.remove(handle)
        os.close(descriptor)

    def drop_all(self) -> None:
        """Close every descriptor."""
        for handle in list(self._hand):
            self.drop(handle)

    def _reopen(self, handle: Handle) -> None:
        descriptor = self.opened(handle.path, self._flags)
        status = os.fstat(descriptor)
        if (status.st_dev, status.st_ino) != handle.identity:
            os.close(descriptor)
            raise OSError(errno.ESTALE, "the file was replaced by another program while in use")
        handle.descriptor = descriptor
        self.adopt(handle)

    def _make_room(self) -> None:
        # Two rounds: the first may only clear second chances. If all are pinned, the limit gives
        # way.
        for _ in range(2 * len(self._hand)):
            if self.open_count <= self._limit:
                return
            handle = self._hand[0]
            if handle.pins or handle.used:
                handle.used = False
                self._hand.rotate(-1)
            else:
                self._hand.popleft()
                self.open_count -= 1
                descriptor, handle.descriptor = handle.descriptor, CLOSED
                os.close(descriptor)
