"""One file of the operating system, as ``real_disk`` hands it out.

A write loops until the kernel has all bytes; a hot read uses ``RWF_NOWAIT`` and returns None if the kernel refuses.
"""

import errno
import os
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from itertools import repeat
from typing import Final, Protocol, TypeVar

from firearrow.errors import DiskError
from firearrow.runtime.disk.door import Bytes, refusal
from firearrow.runtime.disk.group_commit import SyncTurns
from firearrow.runtime.disk.open_cache import CLOSED, Handle, OpenCache

T = TypeVar("T")

SCRATCH_BYTES: Final = 1 << 20
NOWAIT: Final[int] = getattr(os, "RWF_NOWAIT", 0)
_ZEROS: Final = bytes(1 << 20)
_BUFFERS_PER_CALL: Final = os.sysconf("SC_IOV_MAX") if "SC_IOV_MAX" in os.sysconf_names else 1024


class FileKeeper(Protocol):
    """The methods of a disk that its files use."""

    cache: OpenCache
    scratch: memoryview
    nowait: bool

    def off_loop(self, work: Callable[[], T]) -> Awaitable[T]:
        """Run blocking work in a thread."""
        ...

    def pinned(self, handle: Handle) -> AbstractContextManager[int]:
        """Keep a descriptor open while a thread or another process uses it."""
        ...

    def turns_of(self, handle: Handle) -> SyncTurns:
        """Return the syncs of a file."""
        ...

    def release(self, handle: Handle) -> None:
        """Note that a user of a file has closed it."""
        ...


class RealFile:
    """A file of the operating system."""

    late = False

    def __init__(self, disk: FileKeeper, handle: Handle, path: str) -> None:
        self._disk = disk
        self._handle: Handle | None = handle
        self._path = path
        handle.references += 1

    @property
    def path(self) -> str:
        """The path it was opened under."""
        return self._path

    @property
    def size(self) -> int:
        """Length in bytes."""
        return self._held().size

    def _held(self) -> Handle:
        if self._handle is None:
            raise DiskError(f"{self._path} is closed", errno.EBADF)
        return self._handle

    @contextmanager
    def _doing(self, what: str) -> Iterator[Handle]:
        try:
            yield self._held()
        except OSError as error:
            raise refusal(error, f"{what} {self._path}") from error

    # -- reading

    def read_at(self, position: int, length: int) -> bytes:
        """Return up to ``length`` bytes, fewer only at the file's end."""
        handle = self._held()
        try:
            return _read(self._disk.cache.descriptor(handle), position, length)
        except OSError as error:
            raise refusal(error, f"read {self._path}") from error

    def read_hot(self, position: int, length: int) -> bytes | None:
        """Return bytes from memory, or None if the read would wait for the device."""
        handle, disk = self._handle or self._held(), self._disk
        wanted = handle.size - position
        if wanted > length:
            wanted = length
        if wanted < 0 or not disk.nowait:
            return self.read_at(position, length)
        buffer = disk.scratch[:wanted] if wanted <= SCRATCH_BYTES else memoryview(bytearray(wanted))
        try:
            got = os.preadv(disk.cache.descriptor(handle), [buffer], position, NOWAIT)
        except BlockingIOError:
            return None
        except OSError as error:
            if error.errno != errno.EOPNOTSUPP:
                raise refusal(error, f"read {self._path}") from error
            disk.nowait = False  # this file system cannot tell: every read counts as hot
            return self.read_at(position, length)
        return bytes(buffer) if got == wanted else None

    def gather_at(self, positions: Sequence[int], lengths: Sequence[int]) -> list[bytes]:
        """Return the bytes at several positions."""
        handle = self._held()
        try:
            descriptor = self._disk.cache.descriptor(handle)
            return list(map(os.pread, repeat(descriptor), lengths, positions))
        except OSError as error:
            raise refusal(error, f"read {self._path}") from error

    def gather_hot(self, positions: Sequence[int], lengths: Sequence[int]) -> list[bytes] | None:
        """Return the bytes at several positions from memory, or None if the read would wait for the device."""
        if not positions:
            return []
        if not self._in_memory(positions[0], positions[-1] + lengths[-1] - 1):
            return None
        return self.gather_at(positions, lengths)

    def _in_memory(self, *positions: int) -> bool:
        """Whether the bytes at all these positions are in memory."""
        disk = self._disk
        for position in positions if disk.nowait else ():
            try:
                os.preadv(disk.cache.descriptor(self._held()), (disk.scratch[:1],), position, NOWAIT)
            except BlockingIOError:
                return False
            except OSError as error:
                if error.errno != errno.EOPNOTSUPP:
                    raise refusal(error, f"read {self._path}") from error
                disk.nowait = False  # this file system cannot tell: every read counts as hot
                return True
        return True

    async def read(self, position: int, length: int) -> bytes:
        """Return up to ``length`` bytes; a cold read happens in a thread."""
        hot = self.read_hot(position, length)
        if hot is not None:
            return hot
        with self._doing("read") as handle, self._disk.pinned(handle) as descriptor:
            return await self._disk.off_loop(lambda: _read(descriptor, position, length))

    def next_data(self, position: int) -> int:
        """Return where the file system has stored something, at or after ``position``."""
        handle = self._held()
        if position >= handle.size:
            return handle.size
        try:
            return os.lseek(self._disk.cache.descriptor(handle), position, os.SEEK_DATA)
        except OSError as error:
            if error.errno == errno.ENXIO:
                return handle.size
            if error.errno in (errno.EINVAL, errno.EOPNOTSUPP):
                return position  # this file system cannot tell
            raise refusal(error, f"look at {self._path}") from error

    # -- writing

    def write_at(self, position: int, buffers: Sequence[Bytes]) -> None:
        """Write all the buffers one after the other."""
        handle = self._handle or self._held()
        handle.used = True
        total = len(buffers[0]) if len(buffers) == 1 else sum(map(len, buffers))
        try:
            descriptor = handle.descriptor
            if descriptor == CLOSED:
                descriptor = self._disk.cache.descriptor(handle)
            if len(buffers) > _BUFFERS_PER_CALL or os.pwritev(descriptor, buffers, position) != total:
                _write_all(descriptor, position, buffers)
        except OSError as error:
            with suppress(OSError):  # the size of a failed disk cannot be read
                handle.size = os.fstat(self._disk.cache.descriptor(handle)).st_size
            raise refusal(error, f"write {self._path}") from error
        handle.unsynced += total
        if position + total > handle.size:
            handle.size = position + total

    async def written(self) -> None:
        """Return at once: the kernel has every write."""
        self._held()

    def truncate(self, size: int) -> None:
        """Cut the file, or lengthen it with zeros that take no space."""
        with self._doing("truncate") as handle:
            os.ftruncate(self._disk.cache.descriptor(handle), size)
            handle.size = size

    async def allocate(self, size: int, *, zeroed: bool = False) -> None:
        """Lengthen the file to ``size`` bytes of zeros."""
        before = self._held().size
        if size <= before:
            return
        if not zeroed:
            self.truncate(size)
            return
        with self._doing("allocate") as handle, self._disk.pinned(handle) as descriptor:
            await self._disk.off_loop(lambda: _fill(descriptor, before, size))
            handle.size = max(size, handle.size)
            handle.unsynced += size - before

    async def sync(self) -> None:
        """Return once everything before this call is durable."""
        await self._disk.turns_of(self._held()).sync()

    def close(self) -> None:
        """Close the file."""
        if self._handle is not None:
            handle, self._handle = self._handle, None
            self._disk.release(handle)


def _read(descriptor: int, position: int, length: int) -> bytes:
    data = os.pread(descriptor, length, position)
    while data and len(data) < length:
        more = os.pread(descriptor, length - len(data), position + len(data))
        if not more:
            break
        data += more
    return data


def _write_all(descriptor: int, position: int, buffers: Sequence[Bytes]) -> None:
    """Write all bytes in as many calls as needed: a short write is not an error."""
    views = [memoryview(buffer) for buffer in buffers if len(buffer)]
    while views:
        written = os.pwritev(descriptor, views[:_BUFFERS_PER_CALL], position)
        if written == 0:
            raise OSError(errno.EIO, "the device takes no more bytes")
        position += written
        while views and written >= len(views[0]):
            written -= len(views.pop(0))
        if written:
            views[0] = views[0][written:]


def _fill(descriptor: int, start: int, end: int) -> None:
    """Write zeros; truncate again if the space does not suffice."""
    position = start
    try:
        while position < end:
            position += os.pwrite(descriptor, _ZEROS[: min(len(_ZEROS), end - position)], position)
    except OSError:
        os.ftruncate(descriptor, start)
        raise
