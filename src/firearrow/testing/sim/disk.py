"""The disk door of one simulated process, over the image of its machine.

The door keeps the rules of ``runtime.disk.door``; the image supplies the faults. Times are drawn from the
machine's generator: every coroutine takes a while, so that others run in between. With ``late_writes`` bytes
stay in the process for a while after ``write_at``: its own reads see them, ``written`` and ``sync`` wait for
them, and a crash of the process loses them.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TypeVar

from firearrow.errors import DiskError, LockHeld
from firearrow.runtime.disk.door import Bytes, Listings, Status, Usage, checked, refusal
from firearrow.runtime.disk.group_commit import SyncEnded, SyncTurns
from firearrow.runtime.disk.replacement import Replacements
from firearrow.testing.sim.disk_file import PAGE_BYTES, FileNode
from firearrow.testing.sim.disk_image import Below, DirectoryNode, DiskImage
from firearrow.testing.sim.loop import SimLoop
from firearrow.testing.sim.process import Process

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class DiskProfile:
    """The behaviour of the disks while no fault is ordered."""

    sync_mean_s: float = 0.002
    call_mean_s: float = 0.0005
    cold_chance: float = 0.05
    write_back_chance: float = 0.02
    late_writes: bool = False
    late_mean_s: float = 0.002


class _Open:
    """An open file of a process: the bytes that it still holds back, and the waiters of its syncs."""

    def __init__(self, disk: "SimDisk", file: FileNode, path: str) -> None:
        self.disk = disk
        self.file = file
        self.path = path
        self.held: deque[tuple[int, bytes]] = deque()
        self.handing_over = False
        self.late_error: OSError | None = None
        self.waiters: list[asyncio.Future[None]] = []
        self.turns = SyncTurns(path, self._begin_sync)

    @property
    def size(self) -> int:
        return max([self.file.size, *(position + len(data) for position, data in self.held)])

    def read(self, position: int, length: int) -> bytes:
        if not self.held:
            return self.file.read(position, length)
        length = max(0, min(length, self.size - position))
        result = bytearray(self.file.read(position, length).ljust(length, b"\0"))
        for start, data in self.held:
            low, high = max(start, position), min(start + len(data), position + length)
            if low < high:
                result[low - position : high - position] = data[low - start : high - start]
        return bytes(result)

    def write(self, position: int, data: bytes) -> None:
        if self.disk.profile.late_writes:
            self.held.append((position, data))
            self._hand_over_later()
        else:
            self.store(position, data)

    def store(self, position: int, data: bytes) -> None:
        """Give bytes to the operating system."""
        image, file = self.disk.image, self.file
        if file.counted:
            image.reserve(file.missing_pages(position, len(data)))
        file.write(position, data)
        file.modified_ms = image.now_ms()
        if file.dirty and image.rng.random() < self.disk.profile.write_back_chance:
            file.write_back(image.rng)

    def hand_over(self) -> None:
        """Give everything held back to the operating system."""
        while self.held:
            self.store(*self.held[0])
            self.held.popleft()

    def _hand_over_later(self) -> None:
        if not self.handing_over:
            self.handing_over = True
            delay = self.disk.draw(self.disk.profile.late_mean_s)
            self.disk.loop.call_later(delay, self._hand_over_now, context=self.disk.context)

    def _hand_over_now(self) -> None:
        self.handing_over = False
        try:
            self.hand_over()
        except OSError as error:
            self.held.clear()
            self.late_error = error
        waiters, self.waiters = self.waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)

    async def written(self) -> None:
        if self.held:
            waiter = self.disk.loop.create_future()
            self.waiters.append(waiter)
            await waiter
        if self.late_error is not None:
            raise refusal(self.late_error, f"write {self.path}")

    def _begin_sync(self, ended: SyncEnded) -> None:
        disk, file = self.disk, self.file
        sync = file.begin_sync()
        disk.image.note("sync", f"{self.path} {file.size} {len(sync.pages)}")

        def finish() -> None:
            try:
                disk.image.check("sync", self.path)
            except OSError as error:
                file.fail_sync(sync, disk.image.rng)
                ended(error)
            else:
                file.finish_sync(sync)
                disk.image.note("synced", self.path)
                ended(None)

        delay = disk.draw(disk.profile.sync_mean_s) + disk.image.slowness_s(self.path)
        disk.loop.call_later(delay, finish, context=disk.context)


class SimFile:
    """A file of a simulated disk."""

    def __init__(self, state: _Open, path: str) -> None:
        self._state = state
        self._path = path
        self._closed = False

    @property
    def path(self) -> str:
        """The path it was opened under."""
        return self._path

    @property
    def size(self) -> int:
        """Length in bytes."""
        return self._state.size

    def read_at(self, position: int, length: int) -> bytes:
        """Return up to ``length`` bytes."""
        return self._do("read", lambda: self._state.read(position, length))

    def read_hot(self, position: int, length: int) -> bytes | None:
        """Return bytes, or None by the throw of a die: everything may be cold."""
        disk = self._state.disk
        if disk.image.rng.random() < disk.profile.cold_chance:
            return None
        return self.read_at(position, length)

    def gather_at(self, positions: Sequence[int], lengths: Sequence[int]) -> list[bytes]:
        """Return the bytes of several places."""
        return [self.read_at(position, length) for position, length in zip(positions, lengths, strict=True)]

    def gather_hot(self, positions: Sequence[int], lengths: Sequence[int]) -> list[bytes] | None:
        """Return bytes, or None by the throw of a die."""
        gathered = [self.read_hot(position, length) for position, length in zip(positions, lengths, strict=True)]
        whole = [data for data in gathered if data is not None]
        return whole if len(whole) == len(gathered) else None

    async def read(self, position: int, length: int) -> bytes:
        """Return up to ``length`` bytes, after a while when they are cold."""
        hot = self.read_hot(position, length)
        if hot is not None:
            return hot
        await self._state.disk.pause()
        return self.read_at(position, length)

    def next_data(self, position: int) -> int:
        """Return where the next page that was written begins, at or after ``position``."""
        self._check()
        state = self._state
        if state.held:
            return min(position, state.size)
        pages = [number for number in state.file.pages if (number + 1) * PAGE_BYTES > position]
        return min(max(position, min(pages) * PAGE_BYTES), state.size) if pages else state.size

    def write_at(self, position: int, buffers: Sequence[Bytes]) -> None:
        """Write all the buffers; a write that fails leaves some of the first bytes in place."""
        data = b"".join(buffers)
        state = self._state
        self._check()
        try:
            state.disk.image.check("write", state.path)
            state.write(position, data)
        except OSError as error:
            with suppress(OSError):
                state.store(position, data[: state.disk.image.rng.randrange(len(data) + 1)])
            raise refusal(error, f"write {self._path}") from error

    @property
    def late(self) -> bool:
        """Whether some writes have not reached the operating system."""
        return bool(self._state.held) or self._state.late_error is not None

    async def written(self) -> None:
        """Return once every earlier write would survive the end of this process."""
        self._check()
        await self._state.written()

    def truncate(self, size: int) -> None:
        """Cut the file, or lengthen it with zeros that take no space."""
        self._do("truncate", lambda: self._truncate(size))

    def _truncate(self, size: int) -> None:
        state = self._state
        state.hand_over()
        freed = state.file.truncate(size)
        state.file.modified_ms = state.disk.image.now_ms()
        if state.file.counted:
            state.disk.image.reserve(-freed)

    async def allocate(self, size: int, *, zeroed: bool = False) -> None:
        """Lengthen the file to ``size`` bytes of zeros."""
        await self._state.disk.pause()
        self._do("allocate", lambda: self._allocate(size, zeroed=zeroed))

    def _allocate(self, size: int, *, zeroed: bool) -> None:
        state = self._state
        state.hand_over()
        before = state.file.size
        if zeroed and size > before:
            state.store(before, bytes(size - before))
        elif size > before:
            state.file.truncate(size)

    async def sync(self) -> None:
        """Return once everything before this call is durable."""
        self._check()
        await self._state.written()
        await self._state.turns.sync()

    def close(self) -> None:
        """Give the name up."""
        self._closed = True

    def _check(self) -> None:
        self._state.disk.check_alive(f"use {self._path}")
        if self._closed:
            raise DiskError(f"{self._path} is closed")

    def _do(self, operation: str, action: Callable[[], T]) -> T:
        self._check()
        try:
            self._state.disk.image.check(operation, self._state.path)
            return action()
        except OSError as error:
            raise refusal(error, f"{operation} {self._path}") from error


class _SimLock:
    def __init__(self, image: DiskImage, path: str, process: Process) -> None:
        self._image = image
        self._path = path
        self._process = process

    def release(self) -> None:
        if self._image.locks.get(self._path) is self._process:
            del self._image.locks[self._path]


class SimDisk:
    """The disk of one simulated process."""

    def __init__(self, image: DiskImage, loop: SimLoop, process: Process, profile: DiskProfile) -> None:
        self.image = image
        self.loop = loop
        self.profile = profile
        self.context = process.context()
        self._process = process
        self._dead = False
        self._open: dict[FileNode, _Open] = {}
        self._directories: dict[DirectoryNode, SyncTurns] = {}
        self._replacements = Replacements(self)

    def unplug(self) -> None:
        """The process is dead: nothing it still tries reaches the image."""
        self._dead = True
        self.image.process_died()

    def check_alive(self, doing: str) -> None:
        """Refuse a dead process."""
        if self._dead:
            raise DiskError(f"cannot {doing}: {self._process} is dead")

    def draw(self, mean_s: float) -> float:
        """Return how long something takes."""
        return self.image.rng.expovariate(1.0) * mean_s

    async def pause(self) -> None:
        """Let a call take its while."""
        await asyncio.sleep(self.draw(self.profile.call_mean_s))

    # -- files

    def open(self, path: str, *, create: bool = False, private: bool = False) -> SimFile:  # noqa: ARG002 - one user
        """Open a file; with ``create`` make it empty when absent."""
        return self._do("open", path, lambda: self._opened(path, create=create))

    def _opened(self, path: str, *, create: bool) -> SimFile:
        if create and self.image.find(path) is None:
            self.image.check("create", path)
            self.image.create(path)
            self.image.note("create", path)
        file = self.image.file(path)
        if file not in self._open:
            self._open[file] = _Open(self, file, path)
        return SimFile(self._open[file], path)

    def exists(self, path: str) -> bool:
        """Whether a file or directory of that name is there."""
        return self._do("look at", path, lambda: self.image.find(path) is not None)

    def status(self, path: str) -> Status:
        """Return size, time of the last change, and kind."""
        return self._do("look at", path, lambda: self._status(path))

    def _status(self, path: str) -> Status:
        entry = self.image.find(path)
        if isinstance(entry, DirectoryNode):
            return Status(0, entry.modified_ms, is_directory=True)
        file = self.image.file(path)
        size = self._open[file].size if file in self._open else file.size
        return Status(size, file.modified_ms, is_directory=False)

    async def read_whole(self, path: str) -> bytes:
        """Return the whole contents."""
        await self.pause()
        file = self.open(path)
        return file.read_at(0, file.size)

    async def unlink(self, path: str) -> None:
        """Remove a file's name."""
        await self.pause()
        self._do("unlink", path, lambda: self.image.unlink(path))
        self.image.note("unlink", path)

    def rename(self, source: str, target: str) -> None:
        """Give a file a new name, replacing what had it."""
        checked(target)
        self._do("rename", source, lambda: self._renamed(source, target))
        self.image.note("rename", f"{source} {target}")

    def _renamed(self, source: str, target: str) -> None:
        file = self.image.find(source)
        self.image.rename(source, target)
        if isinstance(file, FileNode) and file in self._open:
            self._open[file].path = target  # faults are ordered for the names that files have

    async def replace(self, path: str, data: Bytes, *, private: bool = False) -> None:
        """Put ``data`` in place of the file's contents, durably and all at once."""
        await self._replacements.replace(path, data, private=private)

    # -- directories

    async def list(self, path: str = "") -> list[str]:
        """Return the names in a directory, sorted."""
        await self.pause()
        return self._do("list", path, lambda: sorted(self.image.directory(path).names))

    async def list_below(self, path: str) -> Listings:
        """Return the names in every directory directly below a directory, by its name."""
        await self.pause()
        return self._do("list", path, lambda: self.image.names_below(path))

    def make_directory(self, path: str) -> None:
        """Make a directory and its parents."""
        self._do("make", path, lambda: self._make(path))

    def _make(self, path: str) -> None:
        parts = path.split("/") if path else []
        for count in range(1, len(parts) + 1):
            prefix = "/".join(parts[:count])
            if self.image.find(prefix) is None:
                self.image.make_directory(prefix)
        self.image.directory(path)

    async def remove_directory(self, path: str) -> None:
        """Remove an empty directory."""
        await self.pause()
        self._do("remove", path, lambda: self.image.remove_directory(path))

    async def sync_directory(self, path: str = "") -> None:
        """Return once every earlier change of the directory's names is durable."""
        directory = self._do("sync", path, lambda: self.image.directory(path))
        if directory not in self._directories:
            self._directories[directory] = SyncTurns(
                f"directory {path or '/'}", lambda ended: self._begin_directory_sync(directory, path, ended)
            )
        await self._directories[directory].sync()

    def _begin_directory_sync(self, directory: DirectoryNode, path: str, ended: SyncEnded) -> None:
        changes = self.image.waiting_changes(directory)

        def finish() -> None:
            try:
                self.image.check("sync_directory", path)
            except OSError as error:
                ended(error)
            else:
                self.image.directory_synced(directory, changes)
                self.image.note("synced", f"{path}/")
                ended(None)

        self.loop.call_later(self.draw(self.profile.sync_mean_s), finish, context=self.context)

    async def sync_below(self, path: str) -> None:
        """Return once everything below a directory is durable."""
        below = self._do("sync", path, lambda: self.image.below(path))
        for file in below[0]:
            if file in self._open:
                await self._open[file].written()
        turns = SyncTurns(f"everything below {path}", lambda ended: self._begin_sync_below(below, path, ended))
        await turns.sync()

    def _begin_sync_below(self, below: Below, path: str, ended: SyncEnded) -> None:
        files, directories = below
        syncs = [(file, file.begin_sync()) for file in files]
        changes = [(directory, self.image.waiting_changes(directory)) for directory in directories]

        def finish() -> None:
            try:
                self.image.check("sync", path)
            except OSError as error:
                for file, sync in syncs:
                    file.fail_sync(sync, self.image.rng)
                ended(error)
                return
            for file, sync in syncs:
                file.finish_sync(sync)
            for directory, waiting in changes:
                self.image.directory_synced(directory, waiting)
            self.image.note("synced", f"{path}/**")
            ended(None)

        self.loop.call_later(self.draw(self.profile.sync_mean_s), finish, context=self.context)

    # -- the whole disk

    def usage(self) -> Usage:
        """Return how much space there is."""
        self.check_alive("look at the disk")
        total = self.image.capacity_bytes
        return Usage(total, max(0, total - self.image.used_bytes))

    def lock(self, path: str) -> _SimLock:
        """Claim a lock file exclusively."""
        self.open(path, create=True).write_at(0, [b"lock"])
        if path in self.image.locks:
            raise LockHeld(f"{path} is held by another process: is one already running on this directory?")
        self.image.locks[path] = self._process
        return _SimLock(self.image, path, self._process)

    def _do(self, operation: str, path: str, action: Callable[[], T]) -> T:
        self.check_alive(f"{operation} {path}")
        checked(path)
        try:
            self.image.check(operation, path)
            return action()
        except OSError as error:
            raise refusal(error, f"{operation} {path or 'the root'}") from error
