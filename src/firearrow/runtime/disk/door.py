"""Files, with durability made explicit: the protocols every disk keeps.

Paths are ``/``-separated strings relative to the disk's root: ``"commitlog/00000000000000000000"``. A disk
refuses absolute paths and ``..``.

What survives what:

==================================  ==================  =================================================
after                               process crash       power loss
==================================  ==================  =================================================
``write_at``                        once ``written()``  any subset of its 4 KiB pages, in any order
``truncate``, ``allocate``          yes                 maybe, until ``File.sync``
``sync`` returned                   yes                 bytes and size yes; the name needs its directory's
``open(create=True)``, ``rename``,  yes                 maybe, until ``sync_directory`` of every directory
``unlink``, ``make_directory``                          whose names changed
``replace`` returned                yes                 whole: the old bytes or the new, never a mix
==================================  ==================  =================================================

Rules the implementations keep and the callers rely on:

* ``write_at`` hands bytes over and every later read sees them at once. On the real disk they are with the
  operating system when it returns (``written()`` is done already); an implementation may hand them over
  later.
* A failed sync raises ``SyncFailed`` and fences the file: the kernel has dropped the dirty pages and would
  answer OK next time, so every later sync of that file raises too. What was unsynced must be taken for lost.
* No space is ``DiskFull``, a missing name ``FileMissing``, no descriptor or memory ``ResourceShortage``, everything
  else ``DiskError`` with ``errno`` kept.
* A sync that could not begin, because there was no descriptor for it, does not count as failed: it raises the reason,
  nothing is lost, and the next sync may succeed.
* Plain methods take microseconds. Methods that can take longer are coroutines and do that work off the loop.
* A ``File`` is a name for a file, not a descriptor: thousands may be open while few descriptors are, and it
  stays valid until closed. Opening the same path twice gives two names for one file.
"""

import errno
from collections.abc import Sequence
from typing import Final, NamedTuple, Protocol

from firearrow.errors import DiskError, DiskFull, FileMissing, ResourceShortage

SHORTAGES: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM})
"""Error numbers for a process or machine without free descriptors or memory."""

Bytes = bytes | bytearray | memoryview

Listings = dict[str, list[str]]
"""Names in directories, by the directory's name."""


class Usage(NamedTuple):
    """Bytes of the file system below the disk's root."""

    total: int
    free: int


class Status(NamedTuple):
    """Size, time and kind of a path, read without opening it."""

    size: int
    modified_ms: int
    is_directory: bool


class File(Protocol):
    """A file read and written at absolute positions."""

    @property
    def path(self) -> str:
        """The path it was opened under."""
        ...

    @property
    def size(self) -> int:
        """Length in bytes, counting writes that are not durable yet."""
        ...

    def read_at(self, position: int, length: int) -> bytes:
        """Return up to ``length`` bytes, fewer only at the file's end. Blocks on a cold page."""
        ...

    def read_hot(self, position: int, length: int) -> bytes | None:
        """Return what ``read_at`` would, or None when it would wait for the device. Never blocks."""
        ...

    def gather_at(self, positions: Sequence[int], lengths: Sequence[int]) -> list[bytes]:
        """Return the bytes at several positions, as ``read_at`` would. Blocks on cold pages.

        For many small pieces that are known to be in memory: it needs a tenth of the system calls.
        """
        ...

    def gather_hot(self, positions: Sequence[int], lengths: Sequence[int]) -> list[bytes] | None:
        """Return what ``gather_at`` would, or None if the first or the last piece is cold. Positions ascend.

        Pieces between two hot positions were written between them and count as hot too, because asking for each costs
        more than reading it. If the kernel has dropped one nevertheless, this blocks.
        """
        ...

    async def read(self, position: int, length: int) -> bytes:
        """Return what ``read_at`` would; a cold read happens off the loop."""
        ...

    def next_data(self, position: int) -> int:
        """Return where bytes that may not be zero begin, at or after ``position``; the size when none do.

        Parts that were never written take no space and are zero without being read.
        """
        ...

    def write_at(self, position: int, buffers: Sequence[Bytes]) -> None:
        """Write all the buffers one after the other from ``position`` on; reads see them at once.

        After an error an unknown part of the bytes may be in place; the caller writes the same range again or
        truncates.
        """
        ...

    @property
    def late(self) -> bool:
        """Whether `written` would wait, or fail; False says that every earlier write is with the operating system."""
        ...

    async def written(self) -> None:
        """Return once every earlier write would survive the end of this process."""
        ...

    def truncate(self, size: int) -> None:
        """Cut the file to ``size`` bytes, or lengthen it with zeros that take no space."""
        ...

    async def allocate(self, size: int, *, zeroed: bool = False) -> None:
        """Lengthen the file to ``size`` bytes of zeros; never shortens it.

        Without ``zeroed`` the new part takes no space yet. With it the zeros are really written, off the
        loop, so that later writes inside need no new space and a later sync no new metadata. No caller may write
        beyond the old end until this returns, and on ``DiskFull`` the old size is back.
        """
        ...

    async def sync(self) -> None:
        """Return once every write, truncate and allocate that came before this call is durable."""
        ...

    def close(self) -> None:
        """Close the file. Closing does not sync."""
        ...


class Lock(Protocol):
    """An exclusive claim, held until released or until the process ends."""

    def release(self) -> None:
        """Release the lock."""
        ...


class Disk(Protocol):
    """A directory tree."""

    def open(self, path: str, *, create: bool = False, private: bool = False) -> File:
        """Open a file; with ``create`` make it empty when absent (its directory must exist).

        Only the owner may read a file that is made ``private``.
        """
        ...

    def exists(self, path: str) -> bool:
        """Whether a file or directory of that name is there."""
        ...

    def status(self, path: str) -> Status:
        """Return size, time of the last change, and kind."""
        ...

    async def list(self, path: str = "") -> list[str]:
        """Return the names in a directory, sorted; ``""`` is the root."""
        ...

    async def list_below(self, path: str) -> Listings:
        """Return the names in every directory directly below a directory, by its name, all sorted.

        For thousands of directories: one call instead of one for each. Files directly below are left out.
        """
        ...

    def make_directory(self, path: str) -> None:
        """Make a directory and its parents; nothing happens when it is there."""
        ...

    async def remove_directory(self, path: str) -> None:
        """Remove an empty directory."""
        ...

    def rename(self, source: str, target: str) -> None:
        """Rename a file, replacing a file of the new name. Files open under the old name follow."""
        ...

    async def unlink(self, path: str) -> None:
        """Remove a file's name. Files open under it go on reading and writing the nameless file."""
        ...

    async def sync_directory(self, path: str = "") -> None:
        """Return once every earlier create, rename and unlink of names in that directory is durable."""
        ...

    async def sync_below(self, path: str) -> None:
        """Return once everything in a directory, at any depth, is durable: bytes, sizes and names.

        For thousands of files: one call instead of one for each. It may wait for other files too, and fails when
        anything of the file system fails. The directory's own name must be synced in its parent.
        """
        ...

    async def replace(self, path: str, data: Bytes, *, private: bool = False) -> None:
        """Put ``data`` in place of the file's contents, durably and all at once; ``private`` as for ``open``.

        Written to ``path + ".tmp"``, synced, renamed, directory synced. After ``SyncFailed``, or when
        the directory cannot be synced because no descriptor is free, the file has the old or the new contents; after
        any other error the old.
        """
        ...

    async def read_whole(self, path: str) -> bytes:
        """Return the whole contents."""
        ...

    def usage(self) -> Usage:
        """Return how much space there is."""
        ...

    def lock(self, path: str) -> Lock:
        """Claim a lock file exclusively, making it when absent; raise ``LockHeld`` when another holds it."""
        ...


def refusal(error: OSError, doing: str) -> DiskError:
    """Turn the operating system's error into ours, saying what was being done."""
    message = f"cannot {doing}: {error.strerror or error}"
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return DiskFull(f"{message}; free some space and try again", error.errno)
    if error.errno in SHORTAGES:
        return ResourceShortage(f"{message}; close connections, or let the process open more files", error.errno)
    if error.errno == errno.ENOENT:
        return FileMissing(message, error.errno)
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return DiskError(f"{message}; let this user write there, or choose another directory (--store)", error.errno)
    if error.errno in (errno.ENOTDIR, errno.EEXIST):
        return DiskError(f"{message}, and it is not a directory; choose another one (--store)", error.errno)
    return DiskError(message, error.errno)


def checked(path: str) -> str:
    """Return the path if it stays below the root; raise if it would leave it."""
    parts = path.split("/")
    if path and ("\0" in path or any(part in ("", ".", "..") for part in parts)):
        advice = "write names joined by '/'"
        raise DiskError(f"{path!r} is not a path below the disk's root: {advice}", errno.EINVAL)
    return path


def parent_of(path: str) -> str:
    """Return the directory that holds a path's name."""
    return path.rpartition("/")[0]
