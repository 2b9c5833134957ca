"""A value in a file: a copy that the disk does not give back leaves the other, and changes are written all the same."""

import asyncio
import errno

import pytest

from firearrow.errors import BadBody, FireArrowError, ResourceShortage, SettingsError
from firearrow.runtime.disk.stored import StoredValue
from tests.simulation.store.kit import fresh_image
from tests.unit.store.sidecars.test_copies import RefusingDisk

PATH = "kvConfig.json"


def decoded(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise BadBody(str(error)) from None


def stored(disk: RefusingDisk) -> StoredValue[str]:
    return StoredValue(disk, PATH, "", encode=str.encode, decode=decoded, limit_bytes=100, on_change=lambda _: None)


async def change(value: StoredValue[str], new: str) -> FireArrowError | None:
    done: asyncio.Future[FireArrowError | None] = asyncio.get_running_loop().create_future()
    value.change(lambda _old: new, done.set_result)
    writing = asyncio.get_running_loop().create_task(value.write_changes())
    error = await done
    writing.cancel()
    return error


async def changed_twice() -> RefusingDisk:
    disk = RefusingDisk(fresh_image())
    value = stored(disk)
    for new in ("first", "second"):
        assert await change(value, new) is None
    return disk


def test_an_unreadable_file_leaves_its_copy_and_is_written_again() -> None:
    async def main() -> None:
        disk = await changed_twice()
        disk.refused = (PATH,)
        value = stored(disk)
        await value.read()
        assert value.value == "first"
        assert await change(value, "third") is None
        disk.refused = ()  # a file that is replaced lies elsewhere
        again = stored(disk)
        await again.read()
        assert again.value == "third"

    asyncio.run(main())


def test_a_damaged_file_does_not_replace_the_copy() -> None:
    async def main() -> None:
        disk = await changed_twice()
        await disk.replace(PATH, b"\xff")
        value = stored(disk)
        await value.read()
        assert await change(value, "third") is None
        assert await disk.read_whole(f"{PATH}.bak") == b"first"

    asyncio.run(main())


def test_two_unreadable_files_stop_the_start() -> None:
    async def main() -> None:
        disk = await changed_twice()
        disk.refused = (PATH, f"{PATH}.bak")
        with pytest.raises(SettingsError, match="nor can its"):
            await stored(disk).read()

    asyncio.run(main())


def test_what_can_be_read_later_is_not_passed_over() -> None:
    async def main() -> None:
        disk = await changed_twice()
        disk.refused, disk.error = (PATH,), ResourceShortage("no descriptors", errno.EMFILE)
        with pytest.raises(ResourceShortage):
            await stored(disk).read()

    asyncio.run(main())
