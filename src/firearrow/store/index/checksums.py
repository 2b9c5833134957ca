"""Checksums of index files, page by page, in files of our own.

Index entries have no checksum, and a slot that rots to zero hides a whole chain. So for every 4 KiB page of an index
file that we wrote there is a CRC-32 in ``firearrow/index/<name>.sums``, four bytes each, big-endian. The checksums are
right after a flush and may be wrong in between. After a crash only pages full of entries are checked, because those do
not change any more; the entries on the first and the last page, which also hold slots or free entries, have a checksum
of their own in the snapshot (`sum_of_edges`). Files of Apache's have no checksums.
"""

from array import array
from collections.abc import Iterable
from typing import Final
from zlib import crc32

from firearrow.errors import FileMissing
from firearrow.runtime.disk.door import Disk, File
from firearrow.runtime.turn import Pace
from firearrow.store.index.active_file import PAGE_BYTES, big_endian, from_big_endian
from firearrow.store.index.layout import FIRST_ENTRY, Shape
from firearrow.store.paths import OURS

SUMS: Final = f"{OURS}/index"
_PAGES_AT_ONCE: Final = 64


def sums_path(name: str) -> str:
    """The path of the checksums of an index file."""
    return f"{SUMS}/{name}.sums"


class PageSums:
    """The checksums of one index file."""

    def __init__(self, disk: Disk, name: str, sums: "array[int]") -> None:
        self._disk = disk
        self._name = name
        self._sums = sums  # signed, as `array` keeps them

    @classmethod
    async def load(cls, disk: Disk, name: str) -> "PageSums | None":
        """The checksums of a file, or None when there are none."""
        try:
            data = await disk.read_whole(sums_path(name))
        except FileMissing:
            return None
        return cls(disk, name, from_big_endian(data[: len(data) & ~3]))

    @classmethod
    def empty(cls, disk: Disk, name: str) -> "PageSums":
        """No checksums yet."""
        return cls(disk, name, array("i"))

    def holds(self, page: int, data: bytes) -> bool:
        """Whether the bytes of a page have their checksum."""
        expected = self._sums[page] if page < len(self._sums) else 0
        return expected == 0 or expected == _signed(data)

    async def renew(self, file: File, ranges: Iterable[tuple[int, int]], *, rests: bool = True) -> None:
        """Compute the checksums of the pages in these byte ranges, durably. Rests for others, unless at a start."""
        pages = sorted({page for start, end in ranges for page in range(start // PAGE_BYTES, -(-end // PAGE_BYTES))})
        if not pages:
            return
        if len(self._sums) <= pages[-1]:
            self._sums.extend([0] * (pages[-1] + 1 - len(self._sums)))
        pace = Pace(_PAGES_AT_ONCE, rests=rests)
        for first, last in _runs(pages):
            data = await file.read(first * PAGE_BYTES, (last - first) * PAGE_BYTES)
            for page in range(first, last):
                at = (page - first) * PAGE_BYTES
                self._sums[page] = _signed(data[at : at + PAGE_BYTES])
            await pace.did(last - first)
        await self._save(pages)

    async def _save(self, pages: list[int]) -> None:
        self._disk.make_directory(SUMS)
        path = sums_path(self._name)
        new = not self._disk.exists(path)
        sums = self._disk.open(path, create=True)
        try:
            for first, last in _runs(pages):
                sums.write_at(first * 4, [big_endian(self._sums[first:last])])
            await sums.sync()
        finally:
            sums.close()
        if new:
            await self._disk.sync_directory(SUMS)
            await self._disk.sync_directory(OURS)


async def sum_of_edges(file: File, shape: Shape, next_number: int) -> int:
    """A checksum of the entries before ``next_number`` on pages that also hold other data; never 0."""
    start, end = shape.entry_position(FIRST_ENTRY), shape.entry_position(next_number)
    after_first = min(-(-start // PAGE_BYTES) * PAGE_BYTES, end)
    last = max(end // PAGE_BYTES * PAGE_BYTES, after_first)
    head = await file.read(start, after_first - start)
    return crc32(await file.read(last, end - last), crc32(head)) or 1


async def drop_sums(disk: Disk, name: str) -> None:
    """Delete the checksums of a file; a no-op when there are none."""
    if disk.exists(sums_path(name)):
        await disk.unlink(sums_path(name))


def _signed(data: bytes) -> int:
    """A checksum as a signed integer, as `array` needs it; never 0, which means that there is none."""
    return ((crc32(data.ljust(PAGE_BYTES, b"\0")) ^ 0x80000000) - 0x80000000) or 1


def _runs(pages: list[int]) -> Iterable[tuple[int, int]]:
    first = last = pages[0]
    for page in pages[1:]:
        if page != last + 1 or page - first >= _PAGES_AT_ONCE:
            yield first, last + 1
            first = page
        last = page
    yield first, last + 1
