"""Checks of the promises of every disk when the operating system refuses a call, for any call and any reason.

Each check gets a disk and a way to have system calls refused for a while. A refusal is a ``DiskError`` that keeps the
errno, never the operating system's own exception; what was there before stays; and the same call works as soon as it is
refused no more, unless it was a sync: then the file is fenced, and others are not.
"""

import errno
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AbstractContextManager
from typing import Final, NamedTuple

from firearrow.errors import DiskError, DiskFull, SyncFailed
from firearrow.runtime.disk.door import Disk, File

NUMBERS: Final = (errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.EIO)
SPACE: Final = (errno.ENOSPC, errno.EDQUOT)
OLD: Final = b"what was there before"

Refuse = Callable[[str, int], AbstractContextManager[object]]
"""Refuse system calls of a kind within a block: open, read, write, truncate, allocate, sync, sync_directory, rename,
unlink, list or make."""
Ask = Callable[[Disk, File], Awaitable[object]]


class Case(NamedTuple):
    """A call of the door, and the kinds of system calls behind it."""

    name: str
    ask: Ask
    kinds: tuple[str, ...]
    may_be_cold: bool = False
    """Whether None is an answer too."""


async def _read_at(_disk: Disk, file: File) -> object:
    return file.read_at(0, 4)


async def _read_hot(_disk: Disk, file: File) -> object:
    return file.read_hot(0, 4)


async def _gather_at(_disk: Disk, file: File) -> object:
    return file.gather_at((0, 8), (4, 4))


async def _gather_hot(_disk: Disk, file: File) -> object:
    return file.gather_hot((0, 8), (4, 4))


async def _read(_disk: Disk, file: File) -> object:
    return await file.read(0, 4)


async def _write(_disk: Disk, file: File) -> None:
    file.write_at(len(OLD), [b"more", b" and more"])


async def _truncate(_disk: Disk, file: File) -> None:
    file.truncate(len(OLD) + 10)


async def _create(disk: Disk, _file: File) -> object:
    return disk.open("new", create=True)


async def _rename(disk: Disk, _file: File) -> None:
    disk.rename("other", "another")
    disk.rename("another", "other")


async def _unlink(disk: Disk, _file: File) -> object:
    await disk.unlink("other")
    return disk.open("other", create=True)


async def _list(disk: Disk, _file: File) -> object:
    return await disk.list()


async def _make(disk: Disk, _file: File) -> None:
    disk.make_directory("made/here")


async def _read_whole(disk: Disk, _file: File) -> object:
    return await disk.read_whole("file")


CASES: Final = (
    Case("read_at", _read_at, ("read",)),
    Case("read_hot", _read_hot, ("read",), may_be_cold=True),
    Case("gather_at", _gather_at, ("read",)),
    Case("gather_hot", _gather_hot, ("read",), may_be_cold=True),
    Case("read", _read, ("read",)),
    Case("write_at", _write, ("write",)),
    Case("truncate", _truncate, ("truncate",)),
    Case("open", _create, ("open",)),
    Case("rename", _rename, ("rename",)),
    Case("unlink", _unlink, ("unlink",)),
    Case("list", _list, ("list",)),
    Case("make_directory", _make, ("make",)),
    Case("read_whole", _read_whole, ("read", "open")),
)


async def _prepared(disk: Disk) -> File:
    file = disk.open("file", create=True)
    file.write_at(0, [OLD])
    disk.open("other", create=True)
    await file.sync()
    return file


async def _refused(disk: Disk, file: File, case: Case) -> DiskError | None:
    try:
        answer = await case.ask(disk, file)
    except DiskError as error:
        return error
    assert answer is None, f"{case.name} answered {answer!r} though it was refused"
    assert case.may_be_cold, f"{case.name} did not say that it was refused"
    return None


def _check(error: DiskError, number: int, what: str) -> None:
    assert error.errno == number, f"{what} says {error.errno}, not {number}: {error}"
    assert isinstance(error, DiskFull) == (number in SPACE), f"{what}: {type(error).__name__} for {number}"


async def a_refused_call_says_why_and_works_again(disk: Disk, refuse: Refuse) -> None:
    """Refuse each call for each reason; check the error, then make the call again."""
    file = await _prepared(disk)
    for case, kind, number in _every(CASES):
        with refuse(kind, number):
            error = await _refused(disk, file, case)
        if error is not None:
            _check(error, number, f"{case.name} ({kind})")
        assert file.read_at(0, len(OLD)) == OLD, f"{case.name} changed what was there"
        await case.ask(disk, file)
    await file.sync()


async def a_refused_directory_sync_says_why(disk: Disk, refuse: Refuse) -> None:
    """The names may be lost: the caller gets an error. Other directories are not affected."""
    for number in NUMBERS:
        for name in ("refused", "other"):
            disk.make_directory(f"{name}{number}")
            disk.open(f"{name}{number}/file", create=True)
        with refuse("sync_directory", number):
            error = await _raises(disk.sync_directory(f"refused{number}"), DiskError)
        assert error.errno == number
        await disk.sync_directory(f"other{number}")


async def a_refused_sync_fences_one_file(disk: Disk, refuse: Refuse) -> None:
    """Unsynced bytes are lost for certain; other files are as good as before."""
    for number in (errno.EIO, errno.ENOSPC, errno.EDQUOT):
        name = f"file{number}"
        file, other = disk.open(name, create=True), disk.open(f"other{number}", create=True)
        file.write_at(0, [OLD])
        with refuse("sync", number):
            error = await _raises(file.sync(), SyncFailed)
        assert error.errno == number
        await _raises(file.sync(), SyncFailed)
        other.write_at(0, [OLD])
        await other.sync()


async def a_refused_allocation_leaves_the_old_size(disk: Disk, refuse: Refuse) -> None:
    """Space that could not be had is not part of the file."""
    file = await _prepared(disk)
    for number in NUMBERS:
        with refuse("allocate", number):
            await _raises(file.allocate(1 << 20, zeroed=True), DiskError)
        assert file.size == len(OLD), f"{file.size} bytes after a refused allocation"
        assert file.read_at(0, 100) == OLD
    await file.allocate(1 << 16, zeroed=True)
    assert file.size == 1 << 16


async def a_refused_replacement_leaves_a_whole_file(disk: Disk, refuse: Refuse) -> None:
    """The old contents or the new, never less, and the next replacement leaves no litter."""
    disk.make_directory("state")
    await disk.replace("state/table", b"old" * 100)
    for count, (kind, number) in enumerate((k, n) for k in ("open", "write", "sync", "rename") for n in NUMBERS):
        new = b"new%d" % count * 100
        with refuse(kind, number):
            await _raises(disk.replace("state/table", new), DiskError)
        found = await disk.read_whole("state/table")
        assert found == b"old" * 100 or found.startswith(b"newer"), f"{kind} refused with {number}: {found[:20]!r}"
        await disk.replace("state/table", b"newer%d" % count * 100)
        assert await disk.list("state") == ["table"]


def _every(cases: tuple[Case, ...]) -> Iterator[tuple[Case, str, int]]:
    for case in cases:
        for kind in case.kinds:
            for number in NUMBERS:
                yield case, kind, number


async def _raises(action: Awaitable[object], kind: type[DiskError]) -> DiskError:
    try:
        await action
    except kind as error:
        return error
    raise AssertionError(f"it should have been refused with {kind.__name__}")


RefusalCheck = Callable[[Disk, Refuse], Awaitable[None]]
REFUSAL_CHECKS: Final[tuple[RefusalCheck, ...]] = (
    a_refused_call_says_why_and_works_again,
    a_refused_directory_sync_says_why,
    a_refused_sync_fences_one_file,
    a_refused_allocation_leaves_the_old_size,
    a_refused_replacement_leaves_a_whole_file,
)
