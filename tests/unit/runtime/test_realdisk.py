"""Behaviour of the real disk alone: errors of the kernel, fences, descriptors, the lock between processes."""

import asyncio
import errno
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from firearrow.errors import DiskError, DiskFull, SyncFailed
from firearrow.runtime.disk import real_disk as realdisk
from firearrow.runtime.disk import sync_route as syncroute
from firearrow.runtime.disk import sync_server as syncserver
from firearrow.runtime.disk.door import Bytes
from firearrow.runtime.disk.real_disk import RealDisk
from firearrow.runtime.disk.sync_choice import SyncPlace
from tests.unit.runtime.test_disk_conformance import Always, run


def fails(number: int, after: int = 0) -> Callable[..., Any]:
    """Return a stand-in for a system call that fails after so many good calls, every time."""
    calls = 0

    def call(*_: Any) -> int:
        nonlocal calls
        calls += 1
        if calls > after:
            raise OSError(number, os.strerror(number))
        return 0

    return call


@pytest.mark.parametrize("route", [SyncPlace.INLINE, SyncPlace.THREAD])
def test_a_failed_sync_fences_the_file_for_good(
    route: SyncPlace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def check(disk: RealDisk) -> None:
        file, other = disk.open("a", create=True), disk.open("b", create=True)
        with monkeypatch.context() as patch:
            patch.setattr(os, "fdatasync", fails(errno.EIO))
            file.write_at(0, [b"lost"])
            with pytest.raises(SyncFailed) as caught:
                await file.sync()
            assert caught.value.errno == errno.EIO
        with pytest.raises(SyncFailed):  # the kernel would say OK now
            await file.sync()
        file.close()
        disk.rename("a", "c")
        with pytest.raises(SyncFailed):  # the fence outlives closing and renaming
            await disk.open("c").sync()
        await other.sync()
        await disk.unlink("c")
        await disk.open("c", create=True).sync()

    run(check, RealDisk(str(tmp_path), choice=Always(route)))  # type: ignore[arg-type]


def test_those_who_wait_for_the_next_sync_fail_with_the_running_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def check(disk: RealDisk) -> None:
        monkeypatch.setattr(os, "fdatasync", fails(errno.EIO))
        file = disk.open("a", create=True)
        results = await asyncio.gather(*(file.sync() for _ in range(5)), return_exceptions=True)
        assert [type(result) for result in results] == [SyncFailed] * 5

    run(check, RealDisk(str(tmp_path), choice=Always(SyncPlace.THREAD)))  # type: ignore[arg-type]


def test_replace_keeps_the_old_file_when_a_sync_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def check(disk: RealDisk) -> None:
        await disk.replace("config", b"old")
        with monkeypatch.context() as patch:
            patch.setattr(os, "fdatasync", fails(errno.EIO))
            with pytest.raises(SyncFailed):
                await disk.replace("config", b"new")
        assert await disk.read_whole("config") == b"old"
        await disk.replace("config", b"newer")  # a fresh temporary file is not fenced
        assert await disk.read_whole("config") == b"newer"

    run(check, RealDisk(str(tmp_path), choice=Always(SyncPlace.INLINE)))  # type: ignore[arg-type]


def test_no_space_is_disk_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def check(disk: RealDisk) -> None:
        file = disk.open("a", create=True)
        with monkeypatch.context() as patch:
            patch.setattr(os, "pwritev", fails(errno.ENOSPC))
            with pytest.raises(DiskFull, match="free some space"):
                file.write_at(0, [b"x"])
        file.write_at(0, [b"abc"])
        with monkeypatch.context() as patch:
            patch.setattr(os, "pwrite", fails(errno.ENOSPC))
            with pytest.raises(DiskFull):
                await file.allocate(1 << 20, zeroed=True)
        assert file.size == 3
        assert disk.status("a").size == 3

    run(check, RealDisk(str(tmp_path)))  # type: ignore[arg-type]


def test_short_writes_go_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.pwritev

    def short(descriptor: int, buffers: Sequence[Bytes], position: int) -> int:
        return real(descriptor, [memoryview(b"".join(buffers))[:7]], position)

    async def check(disk: RealDisk) -> None:
        file = disk.open("a", create=True)
        monkeypatch.setattr(os, "pwritev", short)
        file.write_at(3, [b"hello ", b"", b"short ", b"writes, how are you?"])
        monkeypatch.undo()
        assert file.read_at(3, 100) == b"hello short writes, how are you?"

    run(check, RealDisk(str(tmp_path)))  # type: ignore[arg-type]


def test_a_device_that_takes_nothing_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def check(disk: RealDisk) -> None:
        file = disk.open("a", create=True)
        monkeypatch.setattr(os, "pwritev", lambda *_: 0)
        with pytest.raises(DiskError, match="takes no more bytes"):
            file.write_at(0, [b"x"])

    run(check, RealDisk(str(tmp_path)))  # type: ignore[arg-type]


def test_read_errors_are_disk_errors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def check(disk: RealDisk) -> None:
        file = disk.open("a", create=True)
        monkeypatch.setattr(os, "pread", fails(errno.EIO))
        with pytest.raises(DiskError) as caught:
            file.read_at(0, 1)
        assert caught.value.errno == errno.EIO

    run(check, RealDisk(str(tmp_path)))  # type: ignore[arg-type]


def test_cold_pages_are_read_off_the_loop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def check(disk: RealDisk) -> None:
        file = disk.open("a", create=True)
        file.write_at(0, [b"cold"])
        monkeypatch.setattr(os, "preadv", fails(errno.EAGAIN))
        assert file.read_hot(0, 4) is None
        assert await file.read(0, 4) == b"cold"
        monkeypatch.setattr(os, "preadv", fails(errno.EOPNOTSUPP))
        assert file.read_hot(0, 4) == b"cold"

    run(check, RealDisk(str(tmp_path)))  # type: ignore[arg-type]


def test_descriptors_are_bounded_and_files_outlive_eviction(tmp_path: Path) -> None:
    async def check(disk: RealDisk) -> None:
        files = [disk.open(f"{i}", create=True) for i in range(100)]
        for number, file in enumerate(files):
            file.write_at(0, [b"%d" % number])
        assert disk.cache.open_count <= 16
        doomed = files[0]
        await disk.unlink("0")
        disk.rename("1", "one")
        for file in files[2:]:
            file.read_at(0, 1)
        assert doomed.read_at(0, 1) == b"0"  # nameless, so its descriptor was kept
        assert files[1].read_at(0, 1) == b"1"  # opened again under its new name
        for file in files:
            file.close()
        assert disk.cache.open_count == 0
        assert disk._handles == {}
        assert disk._turns == {}

    run(check, RealDisk(str(tmp_path), descriptors_max=16))  # type: ignore[arg-type]


def test_files_follow_a_renamed_directory(tmp_path: Path) -> None:
    async def check(disk: RealDisk) -> None:
        disk.make_directory("old")
        file = disk.open("old/a", create=True)
        file.write_at(0, [b"abc"])
        disk.rename("old", "new")
        for other in [disk.open(f"{i}", create=True) for i in range(40)]:
            other.read_at(0, 1)
        assert file.read_at(0, 3) == b"abc"

    run(check, RealDisk(str(tmp_path), descriptors_max=16))  # type: ignore[arg-type]


def test_a_file_replaced_behind_our_back_is_noticed(tmp_path: Path) -> None:
    async def check(disk: RealDisk) -> None:
        file = disk.open("victim", create=True)
        others = [disk.open(f"{i}", create=True) for i in range(40)]
        (tmp_path / "fresh").write_bytes(b"somebody else's")
        os.rename(tmp_path / "fresh", tmp_path / "victim")
        for other in others:
            other.read_at(0, 1)
        with pytest.raises(DiskError, match="replaced by another program"):
            file.read_at(0, 1)

    run(check, RealDisk(str(tmp_path), descriptors_max=16))  # type: ignore[arg-type]


def test_the_lock_keeps_other_processes_out(tmp_path: Path) -> None:
    program = (
        "import fcntl, sys\n"
        "with open(sys.argv[1], 'r+b') as file:\n"
        "    try: fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 0)\n"
        "    except OSError: print('held')\n"
        "    else: print('free')\n"
    )

    def ask() -> str:
        command = [sys.executable, "-S", "-c", program, str(tmp_path / "lock")]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()

    async def check(disk: RealDisk) -> None:
        lock = disk.lock("lock")
        assert ask() == "held"  # by a plain POSIX lock, the one Java takes
        await disk.read_whole("lock")
        assert ask() == "held"  # closing another descriptor has not given it away
        lock.release()
        assert ask() == "free"

    run(check, RealDisk(str(tmp_path)))  # type: ignore[arg-type]


def test_a_read_only_disk_reads(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"abc")

    async def check(disk: RealDisk) -> None:
        assert await disk.read_whole("a") == b"abc"
        with pytest.raises(DiskError):
            disk.open("a").write_at(0, [b"x"])

    run(check, RealDisk(str(tmp_path), read_only=True))  # type: ignore[arg-type]


def test_the_process_that_syncs_reports_errors(tmp_path: Path) -> None:
    async def check(disk: RealDisk) -> None:
        file = disk.open("a", create=True)
        await file.sync()
        for _ in range(1000):
            if disk.route._process.ready:
                break
            await asyncio.sleep(0.005)
        for _ in range(20):
            file.write_at(0, [b"x"])
            await file.sync()
        read_end, write_end = os.pipe()  # a pipe cannot be synced: EINVAL, from the other process
        told: asyncio.Future[OSError | None] = asyncio.get_running_loop().create_future()
        disk.route.begin(write_end, 0, told.set_result)
        error = await told
        assert error is not None
        assert error.errno == errno.EINVAL
        os.close(read_end)
        os.close(write_end)

    run(check, RealDisk(str(tmp_path), choice=Always(SyncPlace.PROCESS)))  # type: ignore[arg-type]


def test_a_dead_sync_process_fails_what_it_was_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def check(disk: RealDisk) -> None:
        first, second = disk.open("a", create=True), disk.open("b", create=True)
        await first.sync()
        for _ in range(1000):
            if disk.route._process.ready:
                break
            await asyncio.sleep(0.005)
        child = disk.route._process._child
        assert child is not None
        child.kill()
        with pytest.raises(SyncFailed, match="outcome is unknown"):
            await asyncio.gather(*[first.sync() for _ in range(3)])
        await second.sync()  # by a thread

    monkeypatch.setattr(syncroute, "END_WAIT_S", 1.0)
    run(check, RealDisk(str(tmp_path), choice=Always(SyncPlace.PROCESS)))  # type: ignore[arg-type]


def test_the_sync_server_alone(tmp_path: Path) -> None:
    descriptor = os.open(tmp_path, os.O_RDONLY)
    assert syncserver.sync(descriptor, is_directory=True)[0] == 0
    os.close(descriptor)
    assert syncserver.sync(descriptor, is_directory=False)[0] == errno.EBADF


def test_usage_and_status_errors(tmp_path: Path) -> None:
    assert realdisk.DESCRIPTORS_MAX >= 1024

    async def check(disk: RealDisk) -> None:
        assert disk.usage().total > disk.usage().free > 0
        with pytest.raises(DiskError):
            disk.make_directory("a/b/../c")
        disk.open("file", create=True)
        with pytest.raises(DiskError):
            disk.make_directory("file")

    run(check, RealDisk(str(tmp_path)))  # type: ignore[arg-type]


def test_a_root_that_cannot_be_made_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(DiskError, match="cannot make"):
        RealDisk(str(tmp_path / "file" / "store"))
    with pytest.raises(DiskError, match="cannot make"):
        RealDisk(str(tmp_path / "file"))


def test_the_names_of_a_new_root_and_its_parents_are_synced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[str] = []
    monkeypatch.setattr(os, "fsync", lambda descriptor: synced.append(os.readlink(f"/proc/self/fd/{descriptor}")))
    RealDisk(str(tmp_path / "a" / "b"))
    assert synced == [str(tmp_path), str(tmp_path / "a")]
    RealDisk(str(tmp_path / "a" / "b"))
    assert len(synced) == 2, "what was there is not made again"
