"""The kit that the tests of the store share: drafts, a log in a simulated world, and a disk that never waits.

`InstantDisk` is the disk door over a simulated image whose coroutines end without suspending, so that a recovery is a
plain function call (`now`): tens of thousands of crash states are opened a minute. It counts its calls and can die at
any of them, which is how a crash in the middle of a recovery is made.
"""

import copy
import random
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from typing import Any, TypeVar, cast

from firearrow.errors import FireArrowError, LockHeld
from firearrow.model import EpochMs, Host
from firearrow.record.encode import Draft
from firearrow.record.hosts import host_bytes
from firearrow.record.properties import stored_properties
from firearrow.runtime.disk.door import Bytes, Disk, Listings, Status, Usage, checked, parent_of, refusal
from firearrow.store.config import LogConfig
from firearrow.store.placement import QueueTail, Rows
from firearrow.testing.sim.disk_file import PAGE_BYTES, FileNode, SyncInProgress
from firearrow.testing.sim.disk_image import DirectoryNode, DiskImage

T = TypeVar("T")

SEGMENT = 8192
HOST = host_bytes(Host("127.0.0.1", 10911))


def draft(body: bytes = b"hello", topic: str = "T", queue_id: int = 0, properties: str = "", **more: Any) -> Draft:
    """A message without a place."""
    return Draft(topic, queue_id, body, stored_properties(properties), EpochMs(1), HOST, HOST, **more)


def config(*, sync: bool = True, segment: int = SEGMENT, **more: Any) -> LogConfig:
    """A small log."""
    return LogConfig(
        mapped_file_size_commit_log=segment, flush_disk_type="SYNC_FLUSH" if sync else "ASYNC_FLUSH", **more
    )


def no_sink(rows: Rows) -> None:
    """Nobody is interested in the rows."""
    del rows


def one_tail(topic: str, queue_id: int) -> QueueTail:
    """A tail for every queue there is."""
    return QueueTail(topic, queue_id)


class Died(FireArrowError):
    """The process ends here."""


def now(coroutine: Coroutine[Any, Any, T]) -> T:
    """The result of a coroutine that never waits for anybody. Turns that it leaves to others, nobody takes."""
    try:
        while coroutine.send(None) is None:
            pass
    except StopIteration as end:
        result: T = end.value
        return result
    coroutine.close()
    raise AssertionError("the coroutine waited")


class FrozenClock:
    """A clock that stands still."""

    def __init__(self, at_ms: int = 1_700_000_000_000) -> None:
        self.at_ms = at_ms

    def now_ms(self) -> int:
        """The same time always."""
        return self.at_ms

    def now_ns(self) -> int:
        """The same time always."""
        return self.at_ms * 1_000_000

    def ticks(self) -> int:
        """None."""
        return 0

    def cpu_ns(self) -> int:
        """None."""
        return 0


def fresh_image(seed: int = 1) -> DiskImage:
    """An empty disk that belongs to no world."""
    return DiskImage(random.Random(seed), cast("Any", _Silent()), "disk", cast("Any", FrozenClock()))


def clone(image: DiskImage, seed: int) -> DiskImage:
    """A copy of an image with luck of its own and no ordered failures; running syncs and dirty pages included."""
    memo: dict[int, Any] = {id(image._trace): _Silent(), id(image._clock): FrozenClock(), id(image.rng): None}
    memo |= {id(process): process for process in image.locks.values()}
    copied = copy.copy(image)
    copied.rng = random.Random(seed)
    copied.locks = {}
    copied._failures = []
    copied._trace = memo[id(image._trace)]
    copied._clock = memo[id(image._clock)]
    nodes: dict[int, Any] = {}
    copied.root = _copy_entry(image.root, nodes)
    copied._journal = [_copy_change(change, nodes) for change in image._journal]
    return copied


class _Silent:
    def add(self, kind: str, detail: str) -> None:
        """Nothing is remembered."""


def _copy_entry(entry: Any, nodes: dict[int, Any]) -> Any:
    if id(entry) in nodes:
        return nodes[id(entry)]
    if isinstance(entry, DirectoryNode):
        directory = nodes[id(entry)] = DirectoryNode(entry.modified_ms)
        directory.names = {name: _copy_entry(other, nodes) for name, other in entry.names.items()}
        directory.durable = {name: _copy_entry(other, nodes) for name, other in entry.durable.items()}
        return directory
    file = nodes[id(entry)] = FileNode(entry.modified_ms)
    file.pages = {number: bytearray(page) for number, page in entry.pages.items()}
    file.size, file.durable_size, file.counted = entry.size, entry.durable_size, entry.counted
    file.durable, file.dirty, file.resizes = dict(entry.durable), dict(entry.dirty), list(entry.resizes)
    file.syncing = [SyncInProgress(dict(sync.pages), list(sync.resizes)) for sync in entry.syncing]
    return file


def _copy_change(change: Any, nodes: dict[int, Any]) -> Any:
    copied = copy.copy(change)
    copied.effects = [
        (_copy_entry(parent, nodes), name, None if entry is None else _copy_entry(entry, nodes))
        for parent, name, entry in change.effects
    ]
    copied.waiting = [_copy_entry(directory, nodes) for directory in change.waiting]
    return copied


class InstantFile:
    """A file of an instant disk."""

    def __init__(self, disk: "InstantDisk", node: FileNode, path: str) -> None:
        self._disk = disk
        self._node = node
        self.path = path

    @property
    def size(self) -> int:
        """Length in bytes."""
        return self._node.size

    def read_at(self, position: int, length: int) -> bytes:
        """Up to ``length`` bytes."""
        return self._node.read(position, length)

    def read_hot(self, position: int, length: int) -> bytes | None:
        """Everything is hot."""
        return self._node.read(position, length)

    def gather_at(self, positions: Sequence[int], lengths: Sequence[int]) -> list[bytes]:
        """The bytes of several places."""
        return [self._node.read(position, length) for position, length in zip(positions, lengths, strict=True)]

    def gather_hot(self, positions: Sequence[int], lengths: Sequence[int]) -> list[bytes] | None:
        """Everything is hot."""
        return self.gather_at(positions, lengths)

    async def read(self, position: int, length: int) -> bytes:
        """Up to ``length`` bytes."""
        return self._node.read(position, length)

    def next_data(self, position: int) -> int:
        """The position of the next written page."""
        pages = [number for number in self._node.pages if (number + 1) * PAGE_BYTES > position]
        return min(max(position, min(pages) * PAGE_BYTES), self.size) if pages else self.size

    def write_at(self, position: int, buffers: Sequence[Bytes]) -> None:
        """Write all the buffers."""
        self._disk.step("write", self.path)
        self._node.write(position, b"".join(buffers))

    late = False

    async def written(self) -> None:
        """At once."""

    def truncate(self, size: int) -> None:
        """Cut or lengthen."""
        self._disk.step("truncate", self.path)
        self._node.truncate(size)

    async def allocate(self, size: int, *, zeroed: bool = False) -> None:
        """Lengthen."""
        self._disk.step("allocate", self.path)
        if zeroed and size > self._node.size:
            self._node.write(self._node.size, bytes(size - self._node.size))
        elif size > self._node.size:
            self._node.truncate(size)

    async def sync(self) -> None:
        """Durable at once."""
        self._disk.step("sync", self.path)
        self._node.finish_sync(self._node.begin_sync())

    def close(self) -> None:
        """Nothing to give up."""


class _InstantLock:
    def __init__(self, disk: "InstantDisk", path: str) -> None:
        self._disk = disk
        self._path = path

    def release(self) -> None:
        self._disk.held.discard(self._path)


class InstantDisk:
    """A disk on which nothing takes time."""

    def __init__(self, image: DiskImage, *, dies_at: int | None = None) -> None:
        self.image = image
        self.calls = 0
        self.held: set[str] = set()
        self._dies_at = dies_at

    def step(self, operation: str, path: str) -> None:
        """Count a call that changes something; die when its time has come."""
        self.calls += 1
        if self._dies_at is not None and self.calls > self._dies_at:
            raise Died(f"before {operation} {path}")

    def _do(self, operation: str, path: str, action: Callable[[], T]) -> T:
        checked(path)
        try:
            return action()
        except OSError as error:
            raise refusal(error, f"{operation} {path}") from error

    def open(self, path: str, *, create: bool = False, private: bool = False) -> InstantFile:  # noqa: ARG002 - one user
        """Open a file."""
        if create and self.image.find(path) is None:
            self.step("create", path)
            self._do("create", path, lambda: self.image.create(path))
        return InstantFile(self, self._do("open", path, lambda: self.image.file(path)), path)

    def exists(self, path: str) -> bool:
        """Whether the name is there."""
        return self.image.find(path) is not None

    def status(self, path: str) -> Status:
        """Size, time, kind."""
        entry = self.image.find(path)
        if isinstance(entry, DirectoryNode):
            return Status(0, entry.modified_ms, is_directory=True)
        file = self._do("look at", path, lambda: self.image.file(path))
        return Status(file.size, file.modified_ms, is_directory=False)

    async def list(self, path: str = "") -> list[str]:
        """Names, sorted."""
        return sorted(self._do("list", path, lambda: self.image.directory(path)).names)

    async def list_below(self, path: str) -> Listings:
        """Names in every directory below, sorted."""
        return self._do("list", path, lambda: self.image.names_below(path))

    def make_directory(self, path: str) -> None:
        """Make a directory and its parents."""
        parts = path.split("/") if path else []
        for count in range(1, len(parts) + 1):
            prefix = "/".join(parts[:count])
            if self.image.find(prefix) is None:
                self.step("make", prefix)
                self.image.make_directory(prefix)

    async def remove_directory(self, path: str) -> None:
        """Remove an empty directory."""
        self.step("remove", path)
        self._do("remove", path, lambda: self.image.remove_directory(path))

    def rename(self, source: str, target: str) -> None:
        """Give a file a new name."""
        self.step("rename", source)
        self._do("rename", source, lambda: self.image.rename(source, target))

    async def unlink(self, path: str) -> None:
        """Remove a name."""
        self.step("unlink", path)
        self._do("unlink", path, lambda: self.image.unlink(path))

    async def sync_directory(self, path: str = "") -> None:
        """Durable at once."""
        self.step("sync_directory", path)
        directory = self._do("sync", path, lambda: self.image.directory(path))
        self.image.directory_synced(directory, self.image.waiting_changes(directory))

    async def sync_below(self, path: str) -> None:
        """Durable at once."""
        self.step("sync_below", path)
        files, directories = self._do("sync", path, lambda: self.image.below(path))
        for file in files:
            file.finish_sync(file.begin_sync())
        for directory in directories:
            self.image.directory_synced(directory, self.image.waiting_changes(directory))

    async def replace(self, path: str, data: Bytes, *, private: bool = False) -> None:
        """Put new contents in place."""
        fresh = f"{path}.tmp"
        if self.exists(fresh):
            await self.unlink(fresh)
        file = self.open(fresh, create=True, private=private)
        file.write_at(0, [data])
        await file.sync()
        self.rename(fresh, path)
        await self.sync_directory(parent_of(path))

    async def read_whole(self, path: str) -> bytes:
        """The whole contents."""
        file = self.open(path)
        return file.read_at(0, file.size)

    def usage(self) -> Usage:
        """Plenty."""
        return Usage(1 << 40, 1 << 40)

    def lock(self, path: str) -> _InstantLock:
        """Claim a lock."""
        with suppress(Died):
            self.open(path, create=True)
        if path in self.held:
            raise LockHeld(f"{path} is held")
        self.held.add(path)
        return _InstantLock(self, path)


async def files_below(disk: Disk, *directories: str) -> dict[str, bytes]:
    """Every file of some directories, at any depth, with what it holds."""
    found: dict[str, bytes] = {}
    for directory in directories:
        for name in await disk.list(directory) if disk.exists(directory) else []:
            path = f"{directory}/{name}"
            if disk.status(path).is_directory:
                found |= await files_below(disk, path)
            else:
                found[path] = await disk.read_whole(path)
    return found
