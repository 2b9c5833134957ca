"""Files that are kept twice: a copy that the disk refuses, or that is none, leaves the other."""

import asyncio
import errno

import msgspec
import pytest

from firearrow.errors import DiskError, ResourceShortage
from firearrow.store.sidecars.sealed_json import read_sealed, write_sealed
from firearrow.store.sidecars.sidecar import seal
from tests.simulation.store.kit import InstantDisk, fresh_image

PATH = "sealed"
COPY = "sealed.bak"


class Contents(msgspec.Struct):
    """The contents of a copy."""

    number: int


class RefusingDisk(InstantDisk):
    """Gives an error for some files."""

    refused: tuple[str, ...] = ()
    error: DiskError = DiskError("the device has a bad block", errno.EIO)

    async def read_whole(self, path: str) -> bytes:
        """Refuse, or read."""
        if path in self.refused:
            raise self.error
        return await super().read_whole(path)


def read(*refused: str, error: DiskError = RefusingDisk.error) -> Contents | None:
    """The contents that are found when the disk refuses some copies."""

    async def main() -> Contents | None:
        disk = RefusingDisk(fresh_image())
        await write_sealed(disk, PATH, Contents(7))
        disk.refused, disk.error = refused, error
        return await read_sealed(disk, PATH, Contents)

    return asyncio.run(main())


@pytest.mark.parametrize("path", [PATH, COPY])
def test_one_unreadable_copy_leaves_the_other(path: str) -> None:
    assert read(path) == Contents(7)


def test_two_unreadable_copies_are_an_error() -> None:
    with pytest.raises(DiskError, match="bad block"):
        read(PATH, COPY)


def test_a_shortage_is_no_unreadable_copy() -> None:
    """It can be read later, and may be the newer one."""
    with pytest.raises(ResourceShortage):
        read(PATH, error=ResourceShortage("no descriptors", errno.EMFILE))


def test_a_copy_that_is_whole_and_none_of_ours_leaves_the_other() -> None:
    async def main() -> Contents | None:
        disk = InstantDisk(fresh_image())
        await write_sealed(disk, PATH, Contents(7))
        await disk.replace(PATH, seal(b'{"number":7,"x":' + b"[" * 5_000))
        return await read_sealed(disk, PATH, Contents)

    assert asyncio.run(main()) == Contents(7)
