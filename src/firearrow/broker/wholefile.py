"""A file of Apache's, whole: written in pieces between turns of the loop, kept twice, and chosen from its two copies.

Both copies, ``x.json`` and ``x.json.bak``, are the same edition (Apache's ``.bak`` is the edition before). Each is
written aside, synced and renamed, so it is one edition or the next, never a mix.

Which one is read (`choose`): the file itself when it is an edition that we wrote. When it is not, it has rotted or
somebody else wrote it. It has rotted when it differs from its whole copy in a few bits and is as long, or holds bytes
that no text has, as blocks of zeros: nobody writes such a file. Then the copy is read. Everything else that can be read
is somebody else's and is believed; its time says nothing, because a backup that is put back brings its old one. What
cannot be read at all, by the disk or by the table, leaves the other copy. Java: ``ConfigManager``,
``MixAll.string2File``.
"""

import asyncio
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Final, NamedTuple
from zlib import crc32

from firearrow.broker.journal import Edition
from firearrow.errors import DiskError, FileMissing
from firearrow.runtime.disk import Disk, parent_of
from firearrow.store.copies import read_copies

ROTTEN_BITS_MAX: Final = 64
"""So many bits may differ for a file of the same length to be taken for its copy, rotten."""
NO_TEXT: Final = bytes(set(range(32)) - set(b"\t\n\f\r"))
"""Control characters: JSON and properties hold them escaped."""
PAUSE_S: Final = 0.002
"""Between two pieces, so that whoever is served meanwhile waits for one piece at most, and seldom."""


class Found(NamedTuple):
    """A file that is there."""

    path: str
    data: bytes


class Choice(NamedTuple):
    """What is read, in the order in which it is to be tried, and what is wrong."""

    files: tuple[Found, ...] = ()
    complaint: str = ""
    is_rotten: bool = False


def copy_of(path: str) -> str:
    """The second copy of a file."""
    return f"{path}.bak"


async def find(disk: Disk, path: str) -> Found | None:
    """A file, if it is there."""
    try:
        return Found(path, await disk.read_whole(path))
    except FileMissing:
        return None


async def find_both(disk: Disk, path: str) -> tuple[Found | None, Found | None, DiskError | None]:
    """Both copies of a file, and what the disk says of one that is there and cannot be read."""
    paths = (path, copy_of(path))
    (file, copy), unreadable = await read_copies(disk, paths)
    return (
        None if file is None else Found(paths[0], file),
        None if copy is None else Found(paths[1], copy),
        unreadable,
    )


def choose(file: Found | None, copy: Found | None, editions: Sequence[Edition]) -> Choice:
    """Which of the two copies to read."""
    if file is None:
        return Choice() if copy is None else Choice((copy,), f"{copy.path} is there alone")
    both = (file,) if copy is None else (file, copy)
    if not editions or any(edition.is_of(file.data) for edition in editions):
        return Choice(both)
    is_ours = copy is not None and any(edition.is_of(copy.data) for edition in editions)
    if copy is not None and is_ours and _is_rotten(file.data, copy.data):
        complaint = f"{file.path} is not what was written: it has rotted, and its copy is read"
        return Choice((copy, file), complaint, is_rotten=True)
    return Choice(both, f"{file.path} was written by somebody else since: it is believed where it can be read")


def _is_rotten(data: bytes, whole: bytes) -> bool:
    if len(data.translate(None, NO_TEXT)) != len(data):
        return True
    if len(data) != len(whole):
        return False
    differing = int.from_bytes(data, "big") ^ int.from_bytes(whole, "big")
    return differing.bit_count() <= ROTTEN_BITS_MAX


class Draft:
    """A new edition, written aside, twice."""

    def __init__(self, disk: Disk, path: str) -> None:
        self._disk = disk
        self._paths = (path, copy_of(path))

    async def write(self, pieces: Iterable[bytes], *, pause_s: float = PAUSE_S) -> Edition:
        """Write both copies aside; they are durable, and not in place, when it returns."""
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
        """Remove what is aside."""
        for path in self._paths:
            with suppress(DiskError):
                await self._disk.unlink(_aside(path))


def _aside(path: str) -> str:
    return f"{path}.tmp"
