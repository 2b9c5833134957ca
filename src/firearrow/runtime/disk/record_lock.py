"""The lock on a store directory, the same that Apache's store takes.

A POSIX record lock on the first byte of a file (``DefaultMessageStore``: ``tryLock(0, 1, false)`` on a file
called ``lock``, into which it writes that word), so that neither starts on the other's directory. Where the
system has them, the lock belongs to the open file description: a plain one would be lost as soon as this
process closes any other descriptor of the file, and would not keep this process from taking it twice.
"""

import errno
import fcntl
import os
import struct

from firearrow.errors import LockHeld


class RecordLock:
    """An exclusive claim on a file, held until released or until the process ends."""

    def __init__(self, path: str) -> None:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            _claim_first_byte(descriptor)
            os.pwrite(descriptor, b"lock", 0)
        except OSError as error:
            os.close(descriptor)
            if error.errno in (errno.EAGAIN, errno.EACCES):
                advice = "a broker runs on this directory already; stop it, or choose another directory (--store)"
                raise LockHeld(f"{path} is held by another process: {advice}", error.errno) from error
            raise
        self._descriptor: int | None = descriptor

    def release(self) -> None:
        """Release the lock."""
        if self._descriptor is not None:
            descriptor, self._descriptor = self._descriptor, None
            os.close(descriptor)


def _claim_first_byte(descriptor: int) -> None:
    if hasattr(fcntl, "F_OFD_SETLK"):
        claim = struct.pack("hhqqi", fcntl.F_WRLCK, os.SEEK_SET, 0, 1, 0)
        fcntl.fcntl(descriptor, fcntl.F_OFD_SETLK, claim)
    else:
        fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 0)
