"""The real disk under system calls that are refused or do less than asked, and the timers of the real loops."""

import asyncio
import errno
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pytest
import uvloop

from firearrow.errors import DiskError
from firearrow.runtime.disk.real_disk import RealDisk
from firearrow.runtime.disk.sync_choice import SyncPlace
from firearrow.testing.conformance.loop import LOOP_CHECKS, LoopCheck
from firearrow.testing.conformance.refusals import REFUSAL_CHECKS, RefusalCheck
from tests.unit.runtime.test_disk_conformance import Always, run

LOOPS: Final = {"stock": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}
BEHIND: Final = {
    "open": ("open",),
    "read": ("pread", "preadv"),
    "write": ("pwrite", "pwritev"),
    "truncate": ("ftruncate",),
    "allocate": ("pwrite", "pwritev", "posix_fallocate"),
    "sync": ("fdatasync", "fsync"),
    "sync_directory": ("fsync",),
    "rename": ("rename",),
    "unlink": ("unlink",),
    "list": ("listdir",),
    "make": ("makedirs",),
}
"""The system calls behind each kind."""


@contextmanager
def refusing(kind: str, number: int) -> Iterator[None]:
    """Have system calls of a kind refused."""

    def refused(*_: Any, **__: Any) -> Any:
        raise OSError(number, os.strerror(number))

    with pytest.MonkeyPatch.context() as patch:
        for name in BEHIND[kind]:
            patch.setattr(os, name, refused)
        yield


@pytest.mark.parametrize("check", REFUSAL_CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("on_uvloop", [False, True])
@pytest.mark.parametrize("route", [SyncPlace.INLINE, SyncPlace.THREAD])
def test_refusals(check: RefusalCheck, route: SyncPlace, tmp_path: Path, *, on_uvloop: bool) -> None:
    async def main(disk: Any) -> None:
        await check(disk, refusing)

    run(main, RealDisk(str(tmp_path), choice=Always(route)), uvloop=on_uvloop)


def test_a_file_whose_descriptor_is_gone_says_why_it_cannot_be_opened_again(tmp_path: Path) -> None:
    """Files outnumber descriptors, so every call may have to open: none lets the operating system's error out."""

    async def main(disk: Any) -> None:
        file = disk.open("file", create=True)
        file.write_at(0, [b"0123456789"])
        await file.sync()
        calls: tuple[Callable[[], object], ...] = (
            lambda: file.read_at(0, 4), lambda: file.read_hot(0, 4), lambda: file.gather_at((0, 4), (2, 2)),
            lambda: file.gather_hot((0, 4), (2, 2)), lambda: file.write_at(10, [b"x"]), lambda: file.truncate(5),
            lambda: file.next_data(0),
        )  # fmt: skip
        for call in calls:
            others = [disk.open(f"other{number}", create=True) for number in range(40)]
            for other in others:
                other.write_at(0, [b"x"])
            with refusing("open", errno.EMFILE), pytest.raises(DiskError) as caught:
                call()
            assert caught.value.errno == errno.EMFILE
            call()

    run(main, RealDisk(str(tmp_path), descriptors_max=16))


def test_a_short_write_is_finished(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel takes as much as it likes; the door goes on until it has all."""
    write = os.pwritev

    def a_little(descriptor: int, buffers: Sequence[bytes], position: int, *flags: int) -> int:
        data = b"".join(buffers)
        return write(descriptor, [data[: max(1, len(data) // 3)]], position, *flags)

    async def main(disk: Any) -> None:
        monkeypatch.setattr(os, "pwritev", a_little)
        file = disk.open("file", create=True)
        pieces = [bytes([number]) * (number * 7 + 1) for number in range(200)]
        file.write_at(3, pieces)
        assert file.read_at(3, 1 << 20) == b"".join(pieces)
        await file.allocate(1 << 20, zeroed=True)
        assert file.size == 1 << 20
        await disk.replace("state", b"".join(pieces))
        assert await disk.read_whole("state") == b"".join(pieces)

    run(main, RealDisk(str(tmp_path)))


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("check", LOOP_CHECKS, ids=lambda check: check.__name__)
def test_loops(check: LoopCheck, loop: str) -> None:
    with asyncio.Runner(loop_factory=LOOPS[loop]) as runner:
        runner.run(check())  # type: ignore[arg-type]
