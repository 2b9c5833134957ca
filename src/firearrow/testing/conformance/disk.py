"""Checks of the promises of every disk while the power is on.

Each check gets an empty disk. What must survive a power loss cannot be asked of a machine that stays on; the
simulator's own tests ask it.
"""

import asyncio
import errno
from collections.abc import Awaitable, Callable
from typing import Final

from firearrow.errors import DiskError, FileMissing, LockHeld
from firearrow.runtime.disk.door import Disk

DiskCheck = Callable[[Disk], Awaitable[None]]

_PAGE: Final = 4096


async def writes_are_read_back(disk: Disk) -> None:
    """Bytes are where they were written, at once, in every way of reading."""
    file = disk.open("a", create=True)
    assert file.size == 0
    file.write_at(0, [b"hello", bytearray(b", "), memoryview(b"world")])
    assert file.size == 12
    assert file.read_at(0, 12) == b"hello, world"
    assert file.read_at(7, 5) == b"world"
    assert await file.read(0, 5) == b"hello"
    file.write_at(7, [b"there"])
    assert file.read_at(0, 100) == b"hello, there"
    await file.written()
    assert not file.late


async def reads_end_with_the_file(disk: Disk) -> None:
    """A read is short only at the end, and empty beyond it."""
    file = disk.open("a", create=True)
    file.write_at(0, [b"abc"])
    assert file.read_at(1, 10) == b"bc"
    assert file.read_at(3, 10) == b""
    assert file.read_at(10, 10) == b""
    assert await file.read(2, 10) == b"c"
    assert await file.read(9, 10) == b""


async def a_hot_read_tells_the_truth_or_nothing(disk: Disk) -> None:
    """``read_hot`` returns what ``read_at`` does, or None."""
    file = disk.open("a", create=True)
    file.write_at(0, [bytes(range(256)) * 64])
    for position in range(0, 16384, 1000):
        assert file.read_hot(position, 1500) in (None, file.read_at(position, 1500))
    assert file.read_hot(16384, 10) in (None, b"")


async def a_gap_reads_as_zeros(disk: Disk) -> None:
    """Writing beyond the end leaves zeros between."""
    file = disk.open("a", create=True)
    file.write_at(0, [b"x"])
    file.write_at(3 * _PAGE, [b"y"])
    assert file.size == 3 * _PAGE + 1
    assert file.read_at(0, file.size) == b"x" + bytes(3 * _PAGE - 1) + b"y"


async def what_was_never_written_can_be_passed_over(disk: Disk) -> None:
    """``next_data`` never passes a byte that is not zero, and passes over a large hole."""
    file = disk.open("a", create=True)
    file.truncate(1024 * _PAGE)
    file.write_at(700 * _PAGE, [b"x"])
    found = file.next_data(0)
    assert found <= 700 * _PAGE
    assert not any(file.read_at(0, found))
    assert file.next_data(700 * _PAGE) == 700 * _PAGE
    assert file.next_data(file.size) == file.size
    await file.sync()
    after = file.next_data(900 * _PAGE)
    assert 900 * _PAGE <= after <= file.size


async def many_buffers_are_one_write(disk: Disk) -> None:
    """Thousands of buffers go out in order, more than the system takes in one call."""
    file = disk.open("a", create=True)
    buffers = [i.to_bytes(4, "big") for i in range(5000)]
    file.write_at(100, buffers)
    assert file.read_at(100, 20_000) == b"".join(buffers)
    file.write_at(0, [])
    assert file.size == 20_100


async def truncate_cuts_and_lengthens(disk: Disk) -> None:
    """Bytes that were cut off are zeros when the file grows again."""
    file = disk.open("a", create=True)
    file.write_at(0, [b"abcdef" * 1000])
    file.truncate(3)
    assert (file.size, file.read_at(0, 100)) == (3, b"abc")
    file.truncate(10)
    assert file.read_at(0, 100) == b"abc" + bytes(7)


async def allocate_lengthens_with_zeros(disk: Disk) -> None:
    """Both kinds of allocation lengthen, neither shortens or touches what is there."""
    for name, zeroed in (("sparse", False), ("zeroed", True)):
        file = disk.open(name, create=True)
        file.write_at(0, [b"abc"])
        await file.allocate(3 * _PAGE + 7, zeroed=zeroed)
        assert file.size == 3 * _PAGE + 7
        assert file.read_at(0, file.size) == b"abc" + bytes(3 * _PAGE + 4)
        await file.allocate(5, zeroed=zeroed)
        assert file.size == 3 * _PAGE + 7


async def several_places_are_read_at_once(disk: Disk) -> None:
    """Gathered bytes are those of single reads."""
    file = disk.open("a", create=True)
    file.write_at(0, [bytes(range(200))])
    positions, lengths = (0, 3, 100, 198), [1, 2, 5, 9]
    expected = [b"\0", b"\x03\x04", b"defgh", b"\xc6\xc7"]
    assert file.gather_at(positions, lengths) == expected
    assert file.gather_hot(positions, lengths) in (None, expected)
    assert file.gather_hot(positions[:3], lengths[:3]) in (None, expected[:3])
    assert file.gather_at([], []) == file.gather_hot([], []) == []


async def syncs_return(disk: Disk) -> None:
    """A sync of a clean file, a dirty one, and many at once all return."""
    file = disk.open("a", create=True)
    await file.sync()
    file.write_at(0, [b"abc"])
    await file.sync()
    for count in range(5):
        file.write_at(count, [b"x"])
        await asyncio.gather(*(file.sync() for _ in range(20)))
    file.truncate(1)
    await file.sync()
    await disk.sync_directory()
    disk.make_directory("d/e")
    disk.open("d/e/f", create=True).write_at(0, [b"abc"])
    await asyncio.gather(disk.sync_below("d"), disk.sync_below(""), disk.sync_below("d/e"))


async def a_cancelled_sync_harms_nobody(disk: Disk) -> None:
    """Cancelling one waiting sync does not affect the others."""
    file = disk.open("a", create=True)
    file.write_at(0, [b"abc"])
    async with asyncio.TaskGroup() as group:
        impatient = [group.create_task(file.sync()) for _ in range(5)]
        patient = [group.create_task(file.sync()) for _ in range(5)]
        await asyncio.sleep(0)
        for task in impatient:
            task.cancel()
    assert all(task.done() and not task.cancelled() for task in patient)
    await file.sync()


async def two_names_of_one_file_agree(disk: Disk) -> None:
    """Opening twice gives one file; closing one of them leaves the other."""
    first = disk.open("a", create=True)
    second = disk.open("a")
    first.write_at(0, [b"abc"])
    assert (second.size, second.read_at(0, 3)) == (3, b"abc")
    first.close()
    second.write_at(3, [b"def"])
    assert disk.open("a").read_at(0, 6) == b"abcdef"


async def a_closed_file_refuses(disk: Disk) -> None:
    """A closed file says so, and closing twice is harmless."""
    file = disk.open("a", create=True)
    file.close()
    file.close()
    for use in (lambda: file.read_at(0, 1), lambda: file.write_at(0, [b"x"]), lambda: file.truncate(0)):
        _refuses(use, DiskError)


async def missing_files_are_missing(disk: Disk) -> None:
    """A call for a missing file or directory raises ``FileMissing``, with the errno."""
    assert not disk.exists("a")
    error = _refuses(lambda: disk.open("a"), FileMissing)
    assert error.errno == errno.ENOENT
    _refuses(lambda: disk.open("no/directory", create=True), FileMissing)
    _refuses(lambda: disk.rename("a", "b"), FileMissing)
    _refuses(lambda: disk.status("a"), FileMissing)
    syncs = (disk.sync_directory("a"), disk.sync_below("a"))
    for missing in (disk.read_whole("a"), disk.unlink("a"), disk.list("a"), disk.list_below("a"), *syncs):
        await _refuses_later(missing, FileMissing)


async def paths_stay_below_the_root(disk: Disk) -> None:
    """Nothing climbs out."""
    for path in ("/etc/passwd", "../a", "a/../../b", "a//b", "./a", "a/", "a\0b"):
        _refuses(lambda path=path: disk.open(path, create=True), DiskError)  # type: ignore[misc]


async def directories_nest_and_list_sorted(disk: Disk) -> None:
    """Directories are made with their parents; listings are sorted and hold names only."""
    disk.make_directory("x/y/z")
    disk.make_directory("x/y")
    for name in ("c", "a", "b"):
        disk.open(f"x/y/{name}", create=True)
    assert await disk.list("x/y") == ["a", "b", "c", "z"]
    assert await disk.list() == ["x"]
    assert disk.exists("x/y")
    assert disk.status("x/y").is_directory
    disk.make_directory("x/e")
    disk.open("x/file", create=True)
    assert await disk.list_below("x") == {"e": [], "y": ["a", "b", "c", "z"]}
    assert list(await disk.list_below("x")) == ["e", "y"]
    await _refuses_later(disk.remove_directory("x/y"), DiskError)
    await disk.remove_directory("x/y/z")
    assert await disk.list("x/y") == ["a", "b", "c"]


async def rename_replaces_and_open_files_follow(disk: Disk) -> None:
    """The new name has the old contents; who has the file open still has it."""
    old, target = disk.open("old", create=True), disk.open("new", create=True)
    old.write_at(0, [b"old"])
    target.write_at(0, [b"target"])
    disk.rename("old", "new")
    assert await disk.list() == ["new"]
    assert await disk.read_whole("new") == b"old"
    old.write_at(3, [b"er"])
    assert await disk.read_whole("new") == b"older"
    assert target.read_at(0, 6) == b"target"
    await old.sync()


async def unlinked_files_live_while_open(disk: Disk) -> None:
    """The name goes at once, the contents with the last who has the file open; the name is free again."""
    file = disk.open("a", create=True)
    file.write_at(0, [b"abc"])
    await disk.unlink("a")
    assert not disk.exists("a")
    file.write_at(3, [b"def"])
    assert file.read_at(0, 6) == b"abcdef"
    again = disk.open("a", create=True)
    assert again.size == 0
    again.write_at(0, [b"new"])
    assert file.read_at(0, 6) == b"abcdef"
    file.close()
    assert again.read_at(0, 3) == b"new"


async def replace_is_whole(disk: Disk) -> None:
    """Replacement makes or replaces, leaves no litter, and the last of several wins."""
    disk.make_directory("config")
    await disk.replace("config/topics.json", b"one")
    assert await disk.read_whole("config/topics.json") == b"one"
    await asyncio.gather(*(disk.replace("config/topics.json", f"{i}".encode() * 50) for i in range(10)))
    assert await disk.read_whole("config/topics.json") == b"9" * 50
    assert await disk.list("config") == ["topics.json"]


async def replace_survives_an_old_leftover(disk: Disk) -> None:
    """A temporary file left by an earlier crash does not leak into the new contents."""
    disk.open("a.tmp", create=True).write_at(0, [b"leftover of an earlier crash"])
    await disk.replace("a", b"new")
    assert await disk.read_whole("a") == b"new"


async def status_tells_size_and_time(disk: Disk) -> None:
    """Size and time of the last change are there without opening."""
    file = disk.open("a", create=True)
    file.write_at(0, [b"abc"])
    status = disk.status("a")
    assert status.size == 3
    assert not status.is_directory
    assert status.modified_ms > 1_500_000_000_000


async def usage_is_plausible(disk: Disk) -> None:
    """Free space is part of the total."""
    usage = disk.usage()
    assert 0 <= usage.free <= usage.total
    assert usage.total > 0


async def the_lock_is_exclusive(disk: Disk) -> None:
    """One holder at a time; the word in the file is Apache's."""
    lock = disk.lock("lock")
    _refuses(lambda: disk.lock("lock"), LockHeld)
    assert await disk.read_whole("lock") == b"lock"
    _refuses(lambda: disk.lock("lock"), LockHeld)  # reading the file has not given the lock away
    lock.release()
    lock.release()
    disk.lock("lock").release()


async def thousands_of_files_stay_open(disk: Disk) -> None:
    """Files outnumber descriptors and stay valid."""
    disk.make_directory("queues")
    files = [disk.open(f"queues/{i}", create=True) for i in range(2000)]
    for number, file in enumerate(files):
        file.write_at(0, [b"%d" % number])
    for number, file in enumerate(files):
        file.write_at(8, [b"again"])
        assert file.read_at(0, 8).rstrip(b"\0") == b"%d" % number
    await asyncio.gather(*(file.sync() for file in files[::100]))
    for file in files:
        file.close()


def _refuses(action: Callable[[], object], error_type: type[DiskError]) -> DiskError:
    try:
        action()
    except error_type as error:
        return error
    raise AssertionError(f"it should have been refused with {error_type.__name__}")


async def _refuses_later(action: Awaitable[object], error_type: type[DiskError]) -> None:
    try:
        await action
    except error_type:
        return
    raise AssertionError(f"it should have been refused with {error_type.__name__}")


DISK_CHECKS: Final[tuple[DiskCheck, ...]] = (
    writes_are_read_back,
    reads_end_with_the_file,
    a_hot_read_tells_the_truth_or_nothing,
    a_gap_reads_as_zeros,
    many_buffers_are_one_write,
    truncate_cuts_and_lengthens,
    allocate_lengthens_with_zeros,
    syncs_return,
    a_cancelled_sync_harms_nobody,
    two_names_of_one_file_agree,
    a_closed_file_refuses,
    missing_files_are_missing,
    paths_stay_below_the_root,
    directories_nest_and_list_sorted,
    rename_replaces_and_open_files_follow,
    unlinked_files_live_while_open,
    replace_is_whole,
    replace_survives_an_old_leftover,
    status_tells_size_and_time,
    usage_is_plausible,
    the_lock_is_exclusive,
    thousands_of_files_stay_open,
)
