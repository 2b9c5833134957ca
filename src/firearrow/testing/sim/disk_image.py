"""The contents of a machine's disk: a tree of names over files, with a journal of names not yet durable.

Create, rename, unlink and make-directory change the visible tree and wait in the journal until every
directory whose names they changed is synced. On power loss each directory keeps a prefix of its waiting
changes; a change that concerns two directories survives whole or not at all. A file that was synced while its
name was not is lost with its name. Contents are ``disk_file``'s business.

The image also knows how much space there is, who holds which lock, and which calls are to fail.
"""

import errno
import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from firearrow.testing.sim.clock import SimClock
from firearrow.testing.sim.disk_file import PAGE_BYTES, FileNode
from firearrow.testing.sim.process import Process
from firearrow.testing.sim.trace import Trace

DEFAULT_CAPACITY_BYTES: Final = 1 << 40
STANDING: Final = 1 << 60
"""So many times: until it is mended."""


class DirectoryNode:
    """A directory: the names seen, and the names that would survive."""

    __slots__ = ("durable", "modified_ms", "names")

    def __init__(self, modified_ms: int) -> None:
        self.names: dict[str, Entry] = {}
        self.durable: dict[str, Entry] = {}
        self.modified_ms = modified_ms


Entry = FileNode | DirectoryNode
Below = tuple[list[FileNode], list[DirectoryNode]]


@dataclass(slots=True, eq=False)
class _Change:
    """One change of the tree, waiting for the directories it concerns to be synced."""

    effects: list[tuple[DirectoryNode, str, Entry | None]]
    waiting: list[DirectoryNode] = field(default_factory=list)


@dataclass(slots=True)
class Failure:
    """A call that is to fail: after so many that pass, so many times."""

    operation: str
    number: int
    after: int
    times: int
    path: str | None = None
    below: str = ""

    def concerns(self, operation: str, path: str) -> bool:
        """Whether a call is one of those."""
        return self.operation == operation and self.path in (None, path) and path.startswith(self.below)


class DiskImage:
    """The disk of one machine; it outlives the machine's processes."""

    def __init__(self, rng: random.Random, trace: Trace, node: str, clock: SimClock) -> None:
        self.rng = rng
        self.root = DirectoryNode(clock.now_ms())
        self.capacity_bytes = DEFAULT_CAPACITY_BYTES
        self.locks: dict[str, Process] = {}
        self._used_pages = 0
        self._journal: list[_Change] = []
        self._failures: list[Failure] = []
        self._slow: dict[str, float] = {}
        self._trace = trace
        self._node = node
        self._clock = clock

    # -- faults

    def fail(
        self,
        operation: str,
        *,
        number: int = errno.EIO,
        after: int = 0,
        times: int = 1,
        path: str | None = None,
        below: str = "",
    ) -> None:
        """Let the next calls of an operation fail: ``open read write truncate allocate sync create rename unlink
        list make remove sync_directory``; with ``path`` only those on it, with ``below`` those that begin so."""
        self._failures.append(Failure(operation, number, after, times, path, below))

    def slow(self, below: str, seconds: float) -> None:
        """Let syncs of files whose path begins so take longer."""
        self._slow[below] = seconds

    def slowness_s(self, path: str) -> float:
        """Return the seconds by which a sync of this file takes longer."""
        return max((seconds for below, seconds in self._slow.items() if path.startswith(below)), default=0.0)

    def mend(self) -> None:
        """Let nothing fail or be slow any more, and let there be space again."""
        self._failures.clear()
        self._slow.clear()
        self.capacity_bytes = DEFAULT_CAPACITY_BYTES

    def rot(self, path: str, position: int | None = None, bit: int | None = None) -> None:
        """Flip a bit of a file."""
        file = self.file(path)
        if file.size:
            position = self.rng.randrange(file.size) if position is None else position
            file.rot(position, self.rng.randrange(8) if bit is None else bit)
            self.note("rot", path)

    def rot_digit(self, path: str) -> bool:
        """Turn a digit of a file into another one, the kind of rot that a reader of text does not see; whether so."""
        file = self.file(path)
        text = file.read(0, file.size)
        flips = [(at, bit) for at, byte in enumerate(text) for bit in range(4) if _is_digit(byte, byte ^ 1 << bit)]
        if flips:
            self.rot(path, *self.rng.choice(flips))
        return bool(flips)

    def leave_free(self, free_bytes: int) -> None:
        """Make the disk nearly full: only so much is left."""
        self.capacity_bytes = self._used_pages * PAGE_BYTES + free_bytes

    def check(self, operation: str, path: str) -> None:
        """Raise the error that was ordered for this call, if any."""
        for failure in self._failures:
            if not failure.concerns(operation, path):
                continue
            if failure.after > 0:
                failure.after -= 1
                continue
            failure.times -= 1
            if failure.times <= 0:
                self._failures.remove(failure)
            self.note("fault", f"{operation} {path} {errno.errorcode[failure.number]}")
            raise OSError(failure.number, f"ordered failure of {operation}")

    def note(self, kind: str, detail: str) -> None:
        """Add to the world's trace."""
        self._trace.add(kind, f"{self._node} {detail}")

    # -- space

    @property
    def used_bytes(self) -> int:
        """Space taken by every file that has a name or is open."""
        return self._used_pages * PAGE_BYTES

    def reserve(self, pages: int) -> None:
        """Take space, or raise ENOSPC."""
        if pages and (self._used_pages + pages) * PAGE_BYTES > self.capacity_bytes:
            raise OSError(errno.ENOSPC, "no space left on the simulated disk")
        self._used_pages += pages

    def now_ms(self) -> int:
        """Return this machine's wall time, for times of last change."""
        return self._clock.now_ms()

    # -- names

    def find(self, path: str) -> Entry | None:
        """Return what a path leads to."""
        entry: Entry = self.root
        for part in path.split("/") if path else ():
            if not isinstance(entry, DirectoryNode) or part not in entry.names:
                return None
            entry = entry.names[part]
        return entry

    def file(self, path: str) -> FileNode:
        """Return a file, or raise ENOENT or EISDIR."""
        entry = self.find(path)
        if entry is None:
            raise OSError(errno.ENOENT, "no such file")
        if isinstance(entry, DirectoryNode):
            raise OSError(errno.EISDIR, "is a directory")
        return entry

    def directory(self, path: str) -> DirectoryNode:
        """Return a directory, or raise ENOENT or ENOTDIR."""
        entry = self.find(path)
        if entry is None:
            raise OSError(errno.ENOENT, "no such directory")
        if not isinstance(entry, DirectoryNode):
            raise OSError(errno.ENOTDIR, "not a directory")
        return entry

    def create(self, path: str) -> FileNode:
        """Make an empty file."""
        parent, name = self._parent(path)
        file = FileNode(self.now_ms())
        self._change([(parent, name, file)])
        return file

    def make_directory(self, path: str) -> None:
        """Make a directory whose parent exists."""
        parent, name = self._parent(path)
        self._change([(parent, name, DirectoryNode(self.now_ms()))])

    def rename(self, source: str, target: str) -> None:
        """Move a name, replacing the target."""
        entry = self.find(source)
        if entry is None:
            raise OSError(errno.ENOENT, "no such file")
        (old_parent, old_name), (new_parent, new_name) = self._parent(source), self._parent(target)
        if source == target:
            return
        if isinstance(self.find(target), DirectoryNode):
            raise OSError(errno.EISDIR, "the target is a directory")
        self._free(self.find(target))
        self._change([(new_parent, new_name, entry), (old_parent, old_name, None)])

    def unlink(self, path: str) -> None:
        """Remove a file's name."""
        self._free(self.file(path))
        parent, name = self._parent(path)
        self._change([(parent, name, None)])

    def remove_directory(self, path: str) -> None:
        """Remove an empty directory's name."""
        if self.directory(path).names:
            raise OSError(errno.ENOTEMPTY, "directory not empty")
        parent, name = self._parent(path)
        self._change([(parent, name, None)])

    def _parent(self, path: str) -> tuple[DirectoryNode, str]:
        parent, _, name = path.rpartition("/")
        return self.directory(parent), name

    def _free(self, entry: Entry | None) -> None:
        # Space comes back when the name goes: a file that stays open nameless is not counted any more.
        if isinstance(entry, FileNode):
            self._used_pages -= len(entry.pages)
            entry.counted = False

    def _change(self, effects: list[tuple[DirectoryNode, str, Entry | None]]) -> None:
        for parent, name, entry in effects:
            parent.modified_ms = self.now_ms()
            if entry is None:
                parent.names.pop(name, None)
            else:
                parent.names[name] = entry
        waiting = list(dict.fromkeys(parent for parent, _, _ in effects))
        self._journal.append(_Change(effects, waiting))

    # -- durability of names

    def waiting_changes(self, directory: DirectoryNode) -> list[_Change]:
        """Return the changes that a sync of this directory would cover now."""
        return [change for change in self._journal if directory in change.waiting]

    def directory_synced(self, directory: DirectoryNode, changes: list[_Change]) -> None:
        """These changes need that directory no longer."""
        for change in changes:
            if directory in change.waiting:
                change.waiting.remove(directory)
        while self._journal and not self._journal[0].waiting:
            _apply(self._journal.pop(0))

    def below(self, path: str) -> Below:
        """Return the files and directories at any depth below a directory, itself included."""
        files: list[FileNode] = []
        directories: list[DirectoryNode] = [self.directory(path)]
        for directory in directories:
            for name in sorted(directory.names):
                entry = directory.names[name]
                if isinstance(entry, FileNode):
                    files.append(entry)
                else:
                    directories.append(entry)
        return files, directories

    def names_below(self, path: str) -> dict[str, list[str]]:
        """Return the names in every directory directly below a directory, by its name."""
        below = sorted(self.directory(path).names.items())
        return {name: sorted(entry.names) for name, entry in below if isinstance(entry, DirectoryNode)}

    def lose_power(self) -> None:
        """Keep the durable tree and durable contents, and what luck adds."""
        everyone = list(self._entries())
        for change in self._survivors():
            _apply(change)
        self._journal.clear()
        self.locks.clear()
        for entry in everyone:
            if isinstance(entry, DirectoryNode):
                entry.names = dict(entry.durable)
            else:
                entry.lose_power(self.rng)
        self._recount()
        self.note("survived", f"{len(list(self._entries()))} entries, {self.used_bytes} bytes")

    def process_died(self) -> None:
        """The process is gone, the machine is not: syncs that ran are as if they had not."""
        self.locks.clear()
        for entry in self._entries():
            if isinstance(entry, FileNode):
                entry.abandon_syncs()

    def _survivors(self) -> Iterator[_Change]:
        seen: dict[DirectoryNode, int] = {}
        cuts: dict[DirectoryNode, int] = {}
        for change in self._journal:
            kept = True
            for directory in change.waiting:
                if directory not in cuts:
                    cuts[directory] = self.rng.randrange(len(self.waiting_changes(directory)) + 1)
                    seen[directory] = 0
                seen[directory] += 1
                kept = kept and seen[directory] <= cuts[directory]
            if kept:
                yield change

    def _entries(self) -> Iterator[Entry]:
        """Walk everything that is seen, or durable, or waiting in the journal; each once."""
        found: dict[Entry, None] = {self.root: None}
        todo: list[Entry] = [self.root]
        for change in self._journal:
            todo += [entry for _, _, entry in change.effects if entry is not None]
        while todo:
            entry = todo.pop()
            found[entry] = None
            if isinstance(entry, DirectoryNode):
                inside = [*entry.names.values(), *entry.durable.values()]
                todo += [other for other in inside if other not in found]
        return iter(found)

    def _recount(self) -> None:
        self._used_pages = 0
        for entry in self._entries():
            if isinstance(entry, FileNode):
                entry.counted = True
                self._used_pages += len(entry.pages)


def _apply(change: _Change) -> None:
    for parent, name, entry in change.effects:
        if entry is None:
            parent.durable.pop(name, None)
        else:
            parent.durable[name] = entry


def _is_digit(*characters: int) -> bool:
    return all(ord("0") <= character <= ord("9") for character in characters)
