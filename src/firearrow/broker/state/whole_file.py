"""A whole file in Apache's format: written in pieces between turns of the loop, and kept in two copies.

Both copies, ``x.json`` and ``x.json.bak``, are the same edition (Apache's ``.bak`` is the previous one). Each copy is
written aside, synced and renamed, so a copy is one edition or the next, never a mix.

Which copy is read (`choose`): the file itself when we wrote it, that is, when it matches an edition. Otherwise it has
rotted, or another program wrote it. It has rotted when it differs from its intact copy in a few bits only, or holds
bytes that no text file holds, such as blocks of zeros; then the copy is read. Any other readable file was written by
another program and is accepted. Its modification time says nothing: a restored backup has its old time. When the disk
or the table cannot read one copy, the other is read. Java: ``ConfigManager``, ``MixAll.string2File``.
"""

import asyncio
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Final, NamedTuple
from zlib import crc32

from firearrow.broker.state.journal import Edition
from firearrow.errors import DiskError, FileMissing
from firearrow.runtime.disk.door import Disk, parent_of
from firearrow.store.sidecars.copies import read_copies

ROTTEN_BITS_MAX: Final = 64
"""A file that has the length of its copy and differs in at most so many bits has rotted."""
NO_TEXT: Final = bytes(set(range(32)) - set(b"\t\n\f\r"))
"""Control characters that a text file never holds: JSON and properties escape them."""
PAUSE_S: Final = 0.002
"""The pause between two pieces, so that a request waits for one piece at most, and seldom."""


class FoundFile(NamedTuple):
    """A file that exists, with its bytes."""

    path: str
    data: bytes


class FileChoice(NamedTuple):
    """The files to read, in the order in which to try them, and the fault for the log."""

    files: tuple[FoundFile, ...] = ()
    complaint: str = ""
    is_rotten: bool = False


def copy_of(path: str) -> str:
    """Return the path of the second copy."""
    return f"{path}.bak"


async def find(disk: Disk, path: str) -> FoundFile | None:
    """Read a file; return None when it does not exist."""
    try:
        return FoundFile(path, await disk.read_whole(path))
    except FileMissing:
        return None


async def find_both(disk: Disk, path: str) -> tuple[FoundFile | None, FoundFile | None, DiskError | None]:
    """Read both copies of a file; return them and the error of a copy that exists and cannot be read."""
    paths = (path, copy_of(path))
    (file, copy), unreadable = await read_copies(disk, paths)
    return (
        None if file is None else FoundFile(paths[0], file),
        None if copy is None else FoundFile(paths[1], copy),
        unreadable,
    )


def choose(file: FoundFile | None, copy: FoundFile | None, editions: Sequence[Edition]) -> FileChoice:
    """Choose which of the two copies to read."""
    if file is None:
        return FileChoice() if copy is None else FileChoice((copy,), f"{copy.path} is there alone")
    both = (file,) if copy is None else (file, copy)
    if not editions or any(edition.is_of(file.data) for edition in editions):
        return FileChoice(both)
    is_ours = copy is not None and any(edition.is_of(copy.data) for edition in editions)
    if copy is not None and is_ours and _is_rotten(file.data, copy.data):
        complaint = f"{file.path} is not what was written: it has rotted, and its copy is read"
        return FileChoice((copy, file), complaint, is_rotten=True)
    return FileChoice(both, f"{file.path} was written by somebody else since: it is believed where it can be read")


def _is_rotten(data: bytes, whole: bytes) -> bool:
    if len(data.translate(None, NO_TEXT)) != len(data):
        return True
    if len(data) != len(whole):
        return False
    differing = int.from_bytes(data, "big") ^ int.from_bytes(whole, "big")
    return differing.bit_count() <= ROTTEN_BITS_MAX


class EditionDraft:
    """A new edition: two copies written aside."""

    def __init__(self, disk: Disk, path: str) -> None:
        self._disk = disk
        self._paths = (path, copy_of(path))

    async def write(self, pieces: Iterable[bytes], *, pause_s: float = PAUSE_S) -> Edition:
        """Write both copies aside, durably but not yet in place."""
        for path in self._paths:
            if self._disk.exists(_aside(path)):
                await self._disk.unlink(_aside(path))
        files = [self._disk.open(_aside(path), create=True) for path in self._paths]
        size = crc = 0
        try:
            for piece in pieces:
                for file in files:
                    file.write_at(size, [piece])
                size, crc = size + len(piece), crc32(piece, crc)
                await asyncio.sleep(pause_s)
            for file in files:
                await file.sync()
        finally:
            for file in files:
                file.close()
        return Edition(size, crc)

    async def put_in_place(self) -> None:
        """Replace the file, then its copy."""
        for path in self._paths:
            self._disk.rename(_aside(path), path)
            await self._disk.sync_directory(parent_of(path))

    async def discard(self) -> None:
        """Remove the copies that were written aside."""
        for path in self._paths:
            with suppress(DiskError):
                await self._disk.unlink(_aside(path))


def _aside(path: str) -> str:
    return f"{path}.tmp"
