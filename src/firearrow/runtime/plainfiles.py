"""Small files read and replaced whole, with nothing but what every system has.

For clients that keep a little state of their own, on any system. What needs more (positions, durability that is counted
on, locks) is the business of ``runtime.disk``. A replacement is there whole or not at all: it is written beside the old
file, synced, and renamed over it. The loop waits for it: the files have a few hundred bytes, and a thread that outlives
its work would cost more than it saves.
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
        with suppress(OSError):  # some systems do not open directories: there the rename is all that can be had
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
