"""The files of the key index: old files, full files that the next flush completes, and the file that takes keys.

Files are named by their time of creation and are in the order of the log; when one is full, another follows. Pages are
checked against their checksums when they are read; a damaged file is removed from use and made again from the log. A
flush, the making of a file again, and reads off the loop hold ``changing``.
"""

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime, tzinfo
from typing import NamedTuple, TypeAlias, cast

from firearrow.errors import DiskError, FileMissing
from firearrow.runtime.clock import Clock
from firearrow.runtime.disk.door import Disk, File
from firearrow.store.dispatch import Row
from firearrow.store.index.active_file import PAGE_BYTES, ActiveIndex
from firearrow.store.index.checksums import SUMS, PageSums, drop_sums
from firearrow.store.index.layout import (
    ENTRY_BYTES,
    FIRST_ENTRY,
    SLOT_BYTES,
    Header,
    IndexEntry,
    Shape,
    decode_entry,
    name_after,
)
from firearrow.store.index.row_keys import hashed_keys
from firearrow.store.paths import INDEX
from firearrow.store.placement import Placed


class OldIndex(NamedTuple):
    """An index file that takes no more keys."""

    name: str
    file: File
    header: Header
    sums: PageSums | None


Source: TypeAlias = ActiveIndex | OldIndex


class LostRange(NamedTuple):
    """The range of messages whose keys a damaged file held."""

    first: int
    """The physical offset of the first message that may have had keys in the file."""
    last: int
    """The physical offset of the last such message."""
    passed: int
    """The number of keys of the first message that are in the file before."""


class DamagedIndex(Exception):
    """Bytes of an index file are damaged. The file must be made again from the log."""

    def __init__(self, name: str, reason: str) -> None:
        self.name = name
        super().__init__(f"index/{name}: {reason}")


class IndexFiles:
    """All index files of a store."""

    def __init__(self, disk: Disk, clock: Clock, shape: Shape, zone: tzinfo = UTC) -> None:
        self.disk = disk
        self.shape = shape
        self.old: list[OldIndex] = []
        self._full: list[tuple[ActiveIndex, PageSums]] = []
        self.active: ActiveIndex | None = None
        self.sums: PageSums | None = None
        """Checksums of the active file."""
        self.changing = asyncio.Lock()
        self._clock = clock
        self._zone = zone
        self._last_name = ""

    def roll(self) -> ActiveIndex:
        """Begin another file; the next flush completes the full one."""
        last, header = "", Header()
        active, sums = self.active, self.sums
        if active is not None:
            last = active.name
            end_ms, end_physical = active.end_ms, active.end_physical
            header = Header(end_ms, end_ms, end_physical, end_physical)
        elif self.old:
            last = self.old[-1].name
        name = name_after(max(last, self._last_name), time_name(self._clock.now_ms(), self._zone))
        file = self._new_file(name)
        if active is not None and sums is not None:
            self._full.append((active, sums))
        self.sums = PageSums.empty(self.disk, name)
        self.active = ActiveIndex(name, self.shape, file, header)
        return self.active

    def _new_file(self, name: str) -> File:
        self.disk.make_directory(INDEX)
        file = self.disk.open(f"{INDEX}/{name}", create=True)
        try:
            file.truncate(self.shape.file_bytes)
        except DiskError:
            file.close()
            raise
        return file

    async def write_durably(self) -> None:
        """Make the keys in memory durable; full files become old ones. The caller holds ``changing``."""
        while self._full:
            full, sums = self._full[0]
            await _write_durably(full, sums)
            self.old.append(OldIndex(full.name, full.file, full.header, sums))
            del self._full[0]
        if self.active is not None and self.sums is not None:
            await _write_durably(self.active, self.sums)
            await self.disk.sync_directory(INDEX)
            await self.disk.sync_directory()

    # ---- reading

    async def newest_of(self, source: Source, slot: int) -> int:
        """The newest entry of a chain; 0 when it is empty."""
        if isinstance(source, ActiveIndex):
            return source.newest_of(slot)
        return int.from_bytes(await self.read(source, self.shape.slot_position(slot), SLOT_BYTES), "big", signed=True)

    async def entry(self, source: Source, number: int) -> IndexEntry:
        """An entry of a file."""
        if isinstance(source, ActiveIndex) and number >= source.written:
            return source.waiting_entry(number)
        return decode_entry(await self.read(source, self.shape.entry_position(number), ENTRY_BYTES))

    def sums_of(self, source: Source) -> PageSums | None:
        """The checksums of a file; None when it has none."""
        if isinstance(source, OldIndex):
            return source.sums
        return next((sums for full, sums in self._full if full is source), self.sums)

    async def read(self, source: Source, position: int, length: int) -> bytes:
        """Read bytes of a file and check their pages. Raises `DamagedIndex`."""
        first, last = position // PAGE_BYTES, (position + length - 1) // PAGE_BYTES
        sums = self.sums_of(source)
        async with self.changing:
            data = await source.file.read(first * PAGE_BYTES, (last - first + 1) * PAGE_BYTES)
        for page in range(first, last + 1):
            at = (page - first) * PAGE_BYTES
            if sums is not None and not sums.holds(page, data[at : at + PAGE_BYTES]):
                raise DamagedIndex(source.name, f"page {page} does not have its checksum")
        at = position - first * PAGE_BYTES
        return data[at : at + length].ljust(length, b"\0")

    @property
    def last_update(self) -> tuple[int, int]:
        """Store time and physical offset of the newest message that has a key."""
        if self.active is not None:
            return self.active.end_ms, self.active.end_physical
        return (self.old[-1].header.end_ms, self.old[-1].header.end_physical) if self.old else (0, 0)

    # ---- removing

    async def drop_below(self, log_start: int, most: int) -> int:
        """Delete up to ``most`` files whose messages are all below the log's start, never the last file."""
        removed = 0
        last = self.old[-1] if self.old and self.active is None and not self._full else None
        while removed < most and self.old and self.old[0] is not last:
            if self.old[0].header.end_physical >= log_start:
                break
            await self.remove(self.old.pop(0))
            removed += 1
        if removed:
            await self.disk.sync_directory(INDEX)
        return removed

    async def remove(self, old: OldIndex) -> None:
        """Delete one file. The caller syncs the directory."""
        old.file.close()
        try:
            await self.disk.unlink(f"{INDEX}/{old.name}")
        except FileMissing:
            return
        await drop_sums(self.disk, old.name)

    # ---- making again

    async def retire(self, name: str, indexed_to: int) -> LostRange:
        """Remove a damaged file from use; return the range that it held. `make_again` must follow.

        ``indexed_to`` is the end of the records whose keys were hashed.
        """
        names = [old.name for old in self.old]
        place = names.index(name) if name in names else len(names)
        before = self.old[place - 1] if place else None
        first = before.header.end_physical if before else 0
        passed = await self._keys_of_last(before) if before else 0
        async with self.changing:
            if place < len(names):
                self.old.pop(place).file.close()
                after = [old.header for old in self.old[place:]] + [active.header for active in self.in_memory()[::-1]]
                return LostRange(first, after[0].begin_physical if after else indexed_to - 1, passed)
            last = indexed_to - 1
            for active in self.in_memory():
                if active.name == name:
                    last = active.end_physical
                    active.file.close()
            self._full = [(full, sums) for full, sums in self._full if full.name != name]
            if self.active is not None and self.active.name == name:
                self.active = self.sums = None
                self._last_name = name
            return LostRange(first, last, passed)

    async def _keys_of_last(self, old: OldIndex) -> int:
        """Return the number of keys of its last message that a file holds; the others are in the next file."""
        number = old.header.next_number - 1
        while number >= FIRST_ENTRY and (await self.entry(old, number)).physical == old.header.end_physical:
            number -= 1
        return old.header.next_number - 1 - number

    async def make_again(self, name: str, rows: AsyncIterator[list[Placed]], passed: int) -> None:
        """Make a file again with the keys of rows, without the first ``passed``, and replace the damaged file."""
        made = f"{SUMS}/{name}.new"
        self.disk.make_directory(SUMS)
        file = self.disk.open(made, create=True)
        file.truncate(0)
        file.truncate(self.shape.file_bytes)
        active = ActiveIndex(name, self.shape, file, Header())
        async for batch in rows:
            keys = hashed_keys(cast("list[Row]", batch))
            wanted = keys[passed : passed + active.room]
            passed = max(passed - len(keys), 0)
            if wanted:
                active.put(wanted)
        sums = PageSums.empty(self.disk, name)
        await active.write_out()
        await file.sync()
        async with self.changing:
            self.disk.rename(made, f"{INDEX}/{name}")
            await self.disk.sync_directory(INDEX)
            await drop_sums(self.disk, name)
            await sums.renew(file, active.unsummed)
            self.old = sorted([*self.old, OldIndex(name, file, active.header, sums)], key=_name)

    def close(self) -> None:
        """Close every file. Keys in memory are lost unless they were flushed."""
        for old in self.old:
            old.file.close()
        for active in self.in_memory():
            active.file.close()

    def in_memory(self) -> list[ActiveIndex]:
        """Files with keys in memory, newest first."""
        active = [self.active] if self.active is not None else []
        return active + [full for full, _ in reversed(self._full)]

    def newest_first(self) -> list[Source]:
        """All files, newest first."""
        return [*self.in_memory(), *reversed(self.old)]


def _name(old: OldIndex) -> str:
    return old.name


async def _write_durably(active: ActiveIndex, sums: PageSums) -> None:
    await active.write_out()
    await active.file.sync()
    changed = list(active.unsummed)
    await sums.renew(active.file, changed)
    # Only now: after a flush that was cancelled before, the next one must write the checksums.
    for written in changed:
        active.unsummed.pop(written, None)


def time_name(now_ms: int, zone: tzinfo = UTC) -> str:
    """The name of an index file made now: year to millisecond, 17 digits, in local time as Apache's are."""
    return datetime.fromtimestamp(now_ms / 1000, zone).strftime("%Y%m%d%H%M%S") + f"{now_ms % 1000:03d}"
