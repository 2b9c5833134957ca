"""Small files that are read and replaced as a whole, on every operating system.

For clients that keep a little state. Positions, guaranteed durability and locks are in ``runtime.disk.door``. A
replacement is atomic: it is written beside the old file, synced, and renamed over it. The loop waits for it, because
the files have a few hundred bytes and a thread would cost more.
"""

import os
from contextlib import suppress
from typing import Final

from firearrow.errors import DiskError, FileMissing


class PlainFiles:
    """Files below one directory, which is made when the first is written."""

    def __init__(self, root: str) -> None:
        self._root: Final = root

    def _path(self, path: str) -> str:
        return os.path.join(self._root, *path.split("/"))

    def make_directory(self, path: str) -> None:
        """Make a directory and those above it, unless they are there."""
        try:
            os.makedirs(self._path(path), exist_ok=True)
        except OSError as error:
            raise DiskError(f"cannot make directory {path}: {error.strerror}", error.errno) from error

    async def read_whole(self, path: str) -> bytes:
        """All bytes of a file; raise ``FileMissing`` when there is none."""
        try:
            return _read(self._path(path))
        except FileNotFoundError as error:
            raise FileMissing(f"there is no file {path}", error.errno) from error
        except OSError as error:
            raise DiskError(f"cannot read {path}: {error.strerror}", error.errno) from error

    async def replace(self, path: str, data: bytes) -> None:
        """Put these bytes in place of a file."""
        target = self._path(path)
        try:
            _write(f"{target}.tmp", data)
            os.replace(f"{target}.tmp", target)
        except OSError as error:
            raise DiskError(f"cannot write {path}: {error.strerror}", error.errno) from error
        with suppress(OSError):  # some systems cannot open directories: there the rename is not synced
            _sync_directory(os.path.dirname(target))


def _read(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()


def _write(path: str, data: bytes) -> None:
    with open(path, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def _sync_directory(directory: str) -> None:
    handle = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
