"""The disk of the operating system.

Writes are ``pwritev`` and are with the kernel when they return. Hot reads are ``preadv(RWF_NOWAIT)``; cold
ones, zero-filling, unlinking and listing go to a small pool of threads, syncs where ``sync_route`` says.
Descriptors come from a bounded cache. The size of a file is remembered: while a process holds the lock no other
process writes, and ``open`` reads the size again.
"""

import asyncio
import errno
import os
import resource
import stat
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from typing import Final, TypeVar

from firearrow.runtime.clock import Clock, SystemClock
from firearrow.runtime.disk.door import Bytes, Listings, Status, Usage, checked, refusal
from firearrow.runtime.disk.group_commit import SyncEnded, SyncTurns
from firearrow.runtime.disk.open_cache import Handle, OpenCache
from firearrow.runtime.disk.real_file import NOWAIT, SCRATCH_BYTES, RealFile
from firearrow.runtime.disk.record_lock import RecordLock
from firearrow.runtime.disk.replacement import Replacements
from firearrow.runtime.disk.sync_choice import SyncChoice
from firearrow.runtime.disk.sync_file_system import sync_file_system
from firearrow.runtime.disk.sync_route import SyncRoute

T = TypeVar("T")

DESCRIPTORS_MAX: Final = 4096
THREADS: Final = 4
_DIRECTORY_FLAGS: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC


class RealDisk:
    """A directory of the operating system."""

    def __init__(
        self,
        root: str,
        *,
        clock: Clock | None = None,
        descriptors_max: int = DESCRIPTORS_MAX,
        read_only: bool = False,
        choice: SyncChoice | None = None,
    ) -> None:
        self._root = os.path.abspath(root)
        self._read_only = read_only
        if not read_only:
            _make_root(self._root)
        self._flags = (os.O_RDONLY if read_only else os.O_RDWR) | os.O_CLOEXEC
        allowed = resource.getrlimit(resource.RLIMIT_NOFILE)[0] // 2
        self.cache = OpenCache(min(descriptors_max, max(16, allowed)), self._flags)
        self.scratch = memoryview(bytearray(SCRATCH_BYTES))
        self.nowait = bool(NOWAIT)
        self._pool = ThreadPoolExecutor(THREADS, thread_name_prefix="disk")
        self.route = SyncRoute(clock or SystemClock(), self._pool, choice)
        self._handles: dict[tuple[int, int], Handle] = {}
        self._turns: dict[tuple[int, int], SyncTurns] = {}
        self._directory_turns: dict[str, SyncTurns] = {}
        self._everything: dict[str, int] = {}
        self._everything_turns: dict[str, SyncTurns] = {}
        self._replacements = Replacements(self)

    async def close(self) -> None:
        """Close descriptors, end threads and the side process that syncs."""
        await self.route.close()
        self._pool.shutdown(wait=True)
        self.cache.drop_all()
        self._handles.clear()
        while self._everything:
            os.close(self._everything.popitem()[1])

    # -- for files

    async def off_loop(self, work: Callable[[], T]) -> T:
        """Run blocking work in a thread."""
        return await asyncio.get_running_loop().run_in_executor(self._pool, work)

    @contextmanager
    def pinned(self, handle: Handle) -> Iterator[int]:
        """Keep a descriptor open while a thread or another process uses it."""
        descriptor = self.cache.descriptor(handle)
        handle.pins += 1
        handle.references += 1  # or closing the file now would close the descriptor
        try:
            yield descriptor
        finally:
            handle.pins -= 1
            self.release(handle)

    def turns_of(self, handle: Handle) -> SyncTurns:
        """Return the syncs of a file; a fence outlives the file's closing."""
        turns = self._turns.get(handle.identity)
        if turns is None:
            turns = SyncTurns(handle.path, lambda ended: self._begin_sync(handle.identity, ended))
            self._turns[handle.identity] = turns
        return turns

    def _begin_sync(self, identity: tuple[int, int], ended: SyncEnded) -> None:
        handle = self._handles[identity]

        def unpin(error: OSError | None) -> None:
            handle.pins -= 1
            ended(error)
            self._forget_if_idle(handle)

        descriptor = self.cache.descriptor(handle)
        handle.pins += 1
        unsynced, handle.unsynced = handle.unsynced, 0
        self.route.begin(descriptor, unsynced, unpin)

    def release(self, handle: Handle) -> None:
        """Note that a user of a file has closed it."""
        handle.references -= 1
        self._forget_if_idle(handle)

    def _forget_if_idle(self, handle: Handle) -> None:
        turns = self._turns.get(handle.identity)
        if handle.references or (turns is not None and turns.busy):
            return
        self.cache.drop(handle)
        self._handles.pop(handle.identity, None)
        if turns is not None and not turns.fenced:
            del self._turns[handle.identity]

    # -- files

    def open(self, path: str, *, create: bool = False, private: bool = False) -> RealFile:
        """Open a file; with ``create`` make it empty when absent, for its owner alone if it is ``private``."""
        where = self._absolute(path)
        mode = 0o600 if private else 0o644
        try:
            descriptor = self.cache.opened(where, self._flags | (os.O_CREAT if create else 0), mode)
        except OSError as error:
            raise refusal(error, f"open {path}") from error
        handle = Handle(where, descriptor)
        known = self._handles.get(handle.identity)
        if known is None:
            self._handles[handle.identity] = handle
            self.cache.adopt(handle)
            return RealFile(self, handle, path)
        os.close(descriptor)
        known.size = handle.size
        return RealFile(self, known, path)

    def exists(self, path: str) -> bool:
        """Whether a file or directory of that name is there."""
        return os.path.exists(self._absolute(path))

    def status(self, path: str) -> Status:
        """Return size, time of the last change, and kind."""
        try:
            status = os.stat(self._absolute(path))
        except OSError as error:
            raise refusal(error, f"look at {path}") from error
        is_directory = stat.S_ISDIR(status.st_mode)
        return Status(0 if is_directory else status.st_size, status.st_mtime_ns // 1_000_000, is_directory)

    async def read_whole(self, path: str) -> bytes:
        """Return the whole contents."""
        file = self.open(path)
        try:
            return await file.read(0, file.size)
        finally:
            file.close()

    def rename(self, source: str, target: str) -> None:
        """Give a file a new name, replacing what had it. Files open under the old name follow."""
        old, new = self._absolute(source), self._absolute(target)
        try:
            self._lose_name(new)
            os.rename(old, new)
        except OSError as error:
            raise refusal(error, f"rename {source} to {target}") from error
        self._follow(old, new)

    def _follow(self, old: str, new: str) -> None:
        """Update the paths of moved files, so that they can be opened again."""
        status = os.stat(new)
        if not stat.S_ISDIR(status.st_mode):
            moved = self._handles.get((status.st_dev, status.st_ino))
            if moved is not None:
                moved.path = new
            return
        for handle in self._handles.values():
            if handle.path.startswith(f"{old}/"):
                handle.path = new + handle.path[len(old) :]

    async def unlink(self, path: str) -> None:
        """Remove a file's name."""
        where = self._absolute(path)
        try:
            self._lose_name(where)
            await self.off_loop(lambda: os.unlink(where))
        except OSError as error:
            raise refusal(error, f"unlink {path}") from error

    def _lose_name(self, where: str) -> None:
        """Keep the descriptor of a file about to lose its name, or drop its fence if no user has it open."""
        try:
            status = os.stat(where)
        except FileNotFoundError:
            return
        identity = (status.st_dev, status.st_ino)
        handle = self._handles.get(identity)
        if handle is None:
            self._turns.pop(identity, None)  # the inode number may be reused for another file
        else:
            self.cache.descriptor(handle)
            handle.pins += 1

    async def replace(self, path: str, data: Bytes, *, private: bool = False) -> None:
        """Put ``data`` in place of the file's contents, durably and all at once."""
        await self._replacements.replace(path, data, private=private)

    # -- directories

    async def list(self, path: str = "") -> list[str]:
        """Return the names in a directory, sorted."""
        where = self._absolute(path)
        try:
            return await self.off_loop(lambda: sorted(os.listdir(where)))
        except OSError as error:
            raise refusal(error, f"list {path or 'the root'}") from error

    async def list_below(self, path: str) -> Listings:
        """Return the names in every directory directly below a directory, by its name."""
        where = self._absolute(path)
        try:
            return await self.off_loop(lambda: _listed_below(where))
        except OSError as error:
            raise refusal(error, f"list {path or 'the root'}") from error

    def make_directory(self, path: str) -> None:
        """Make a directory and its parents."""
        try:
            os.makedirs(self._absolute(path), exist_ok=True)
        except OSError as error:
            raise refusal(error, f"make {path}") from error

    async def remove_directory(self, path: str) -> None:
        """Remove an empty directory."""
        where = self._absolute(path)
        try:
            await self.off_loop(lambda: os.rmdir(where))
        except OSError as error:
            raise refusal(error, f"remove {path}") from error

    async def sync_directory(self, path: str = "") -> None:
        """Return once every earlier change of the directory's names is durable."""
        where = self._absolute(path)
        if not self._is_directory(where):
            raise refusal(OSError(errno.ENOENT, "no such directory"), f"sync {path}")
        if where not in self._directory_turns:
            turns = SyncTurns(where, lambda ended: self._begin_directory_sync(where, ended))
            self._directory_turns[where] = turns
        await self._directory_turns[where].sync()

    def _begin_directory_sync(self, where: str, ended: SyncEnded) -> None:
        descriptor = self.cache.opened(where, _DIRECTORY_FLAGS)

        def closing(error: OSError | None) -> None:
            os.close(descriptor)
            ended(error)
            turns = self._directory_turns[where]
            if not turns.busy and not turns.fenced:
                del self._directory_turns[where]

        self.route.begin(descriptor, 0, closing, is_directory=True)

    async def sync_below(self, path: str) -> None:
        """Return once everything below a directory is durable: the whole file system that holds it is synced."""
        where = self._absolute(path)
        if not self._is_directory(where):
            raise refusal(OSError(errno.ENOENT, "no such directory"), f"sync {path}")
        if where not in self._everything:
            # One descriptor for good: the kernel reports a failure once to every descriptor that was open then.
            descriptor = self._everything[where] = self._opened_directory(where)
            begin = partial(self._begin_everything, descriptor)
            self._everything_turns[where] = SyncTurns(f"everything below {where}", begin)
        await self._everything_turns[where].sync()

    def _opened_directory(self, where: str) -> int:
        try:
            return self.cache.opened(where, _DIRECTORY_FLAGS)
        except OSError as error:
            raise refusal(error, f"open {where}") from error

    def _begin_everything(self, descriptor: int, ended: SyncEnded) -> None:
        work = asyncio.get_running_loop().run_in_executor(self._pool, sync_file_system, descriptor)
        work.add_done_callback(lambda done: ended(done.result()))

    # -- the whole disk

    def usage(self) -> Usage:
        """Return total and free space. Space reserved for the superuser does not count as free, as in ``df``."""
        status = os.statvfs(self._root)
        ours = status.f_blocks - status.f_bfree + status.f_bavail
        return Usage(ours * status.f_frsize, status.f_bavail * status.f_frsize)

    def lock(self, path: str) -> RecordLock:
        """Claim a lock file exclusively."""
        try:
            return RecordLock(self._absolute(path))
        except OSError as error:
            raise refusal(error, f"lock {path}") from error

    def _is_directory(self, where: str) -> bool:
        return os.path.isdir(where)

    def _absolute(self, path: str) -> str:
        return f"{self._root}/{checked(path)}" if path else self._root


def _make_root(root: str) -> None:
    """Make the directory and its parents, and sync each name in the directory above."""
    missing = []
    while not os.path.isdir(root):
        missing.append(root)
        root = os.path.dirname(root)
    for path in reversed(missing):
        try:
            os.makedirs(path, exist_ok=True)
            _sync_names(os.path.dirname(path))
        except OSError as error:
            raise refusal(error, f"make {path}") from error


def _sync_names(directory: str) -> None:
    try:
        descriptor = os.open(directory, _DIRECTORY_FLAGS)
    except PermissionError:
        return  # a directory without read permission cannot be synced
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _listed_below(where: str) -> Listings:
    with os.scandir(where) as entries:
        names = sorted(entry.name for entry in entries if entry.is_dir())
    return {name: sorted(os.listdir(os.path.join(where, name))) for name in names}
