"""A disk in a process whose descriptors are all taken: its cache gives some back, and nothing is fenced."""

import asyncio
import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from firearrow.errors import ResourceShortage
from firearrow.runtime.disk.real_disk import RealDisk

ROOM = 48


@contextmanager
def none_left() -> Iterator[None]:
    """Take every descriptor that this process may have."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    highest = os.dup(0)
    os.close(highest)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(highest + ROOM, before[1]), before[1]))
    taken: list[int] = []
    try:
        with suppress(OSError):
            while True:
                taken.append(os.dup(0))
        yield
    finally:
        for descriptor in taken:
            os.close(descriptor)
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_a_disk_goes_on_with_the_descriptors_it_has(tmp_path: Path) -> None:
    async def main() -> None:
        disk = RealDisk(str(tmp_path))
        disk.make_directory("d")
        files = [disk.open(f"d/{number}", create=True) for number in range(4)]
        with none_left():
            for number in range(4, 12):
                files.append(disk.open(f"d/{number}", create=True))
            for number, file in enumerate(files):
                file.write_at(0, [b"%d" % number])
                await file.sync()
            await disk.sync_directory("d")
            await disk.sync_below("d")
            await disk.replace("d/whole", b"whole")
            assert [file.read_at(0, 9) for file in files] == [b"%d" % number for number in range(12)]
            assert await disk.read_whole("d/whole") == b"whole"
        for file in files:
            file.close()
        await disk.close()

    asyncio.run(main())


def test_a_sync_that_cannot_begin_is_no_failed_sync(tmp_path: Path) -> None:
    async def main() -> None:
        disk = RealDisk(str(tmp_path))
        disk.make_directory("d")
        file = disk.open("d/file", create=True)
        file.write_at(0, [b"kept"])
        disk.cache.drop_all()
        with none_left():
            with pytest.raises(ResourceShortage):
                await file.sync()
            with pytest.raises(ResourceShortage):
                await disk.sync_directory("d")
            with pytest.raises(ResourceShortage):
                file.write_at(0, [b"lost"])
        await file.sync()
        await disk.sync_directory("d")
        assert file.read_at(0, 9) == b"kept"
        file.close()
        await disk.close()

    asyncio.run(main())
