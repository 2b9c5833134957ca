"""The key index: from ``topic#key`` to the places of its messages, newest first.

Keys are taken out of the rows in batches, because hashing many at once costs a tenth of hashing each. What is found is
only a candidate: two keys may share a hash, so whoever asks must look at the records. Files are named by the time they
were made, lie in the order of the log, and one follows when the last is full. They change on disk inside `flush` alone.
Java: ``IndexService``.
"""

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime, tzinfo
from sys import maxsize
from typing import Annotated, Final, NamedTuple, cast

from msgspec import Meta, Struct

from firearrow.errors import DiskError, FileMissing, ResourceShortage
from firearrow.runtime.clock import Clock
from firearrow.runtime.disk import Disk, File
from firearrow.store.activeindex import PAGE_BYTES, ActiveIndex, KeyPlace
from firearrow.store.dispatch import Row
from firearrow.store.indexfile import (
    ENTRY_BYTES,
    FIRST_ENTRY,
    HEADER_BYTES,
    SLOT_BYTES,
    Entry,
    Header,
    Shape,
    decode_entry,
    name_after,
)
from firearrow.store.indexsums import SUMS, PageSums, drop_sums, sum_of_edges
from firearrow.store.keyhash import key_hash
from firearrow.store.pacing import Pace
from firearrow.store.paths import INDEX
from firearrow.store.placement import Placed, PlacedRun, Rows
from firearrow.store.rowkeys import hashed_keys, hashes_of_run

ROWS_AT_ONCE: Final = 256
"""Rows whose keys wait to be hashed together."""
ROWS_HELD_BACK: Final = 65_536
"""Rows that wait at most while a flush writes the file."""
ROWS_TAKEN: Final = 256
"""Rows that leave at once after such a wait: all of them would hold the loop for a tenth of a second."""
MOST_WORK: Final = 100_000
"""Entries that one question by key looks at, in all files together; a record that is read counts as several."""
WORK_AT_ONCE: Final = 64
"""How many of those before others get their turn on the loop: less than a millisecond."""


KEY_BYTES: Final = 160
"""About what a key takes that was hashed and is in no file: a tuple of three numbers."""
ROW_BYTES: Final = 400
"""About what a row takes whose keys are not hashed yet."""


class IndexConfig(Struct, frozen=True, kw_only=True, rename="camel"):
    """The key index."""

    message_index_enable: Annotated[bool, Meta(description="Whether messages can be found by key.")] = True
    max_hash_slot_num: Annotated[int, Meta(ge=1, le=1 << 28, description="Slots of one index file.")] = 5_000_000
    max_index_num: Annotated[int, Meta(ge=2, le=1 << 30, description="Entries of one index file.")] = 20_000_000


class OldIndex(NamedTuple):
    """An index file that takes no more keys."""

    name: str
    file: File
    header: Header
    sums: PageSums | None


class Candidate(NamedTuple):
    """A message that may have the key that was asked for, and which entry says so."""

    file_name: str
    number: int
    entry: Entry
    checked: bool
    """Whether the entry is known to be what was written."""


class Walk:
    """How much one question by key may still look at, in turns with others."""

    def __init__(self) -> None:
        self._left = MOST_WORK
        self._pace = Pace(WORK_AT_ONCE)

    @property
    def is_over(self) -> bool:
        """Whether nothing more may be looked at."""
        return self._left <= 0

    async def did(self, work: int = 1) -> None:
        """So much was looked at."""
        self._left -= work
        await self._pace.did(work)


class IndexState(NamedTuple):
    """Where the index ends: its newest file and what its header says."""

    name: str
    header: Header
    edges: int = 0
    """Checksum of the entries on its first and last page, which no page sum protects after a crash; 0 is none."""


class Lost(NamedTuple):
    """What a damaged file held."""

    first: int
    """Where the first message lies that may have had keys in it."""
    last: int
    """Where the last one lies."""
    passed: int
    """How many keys of the first one are in the file before."""


class DamagedIndex(Exception):
    """Bytes of an index file are not what was written. The file must be made again from the log."""

    def __init__(self, name: str, reason: str) -> None:
        self.name = name
        super().__init__(f"index/{name}: {reason}")


class Index:
    """All index files of a store."""

    def __init__(self, disk: Disk, clock: Clock, shape: Shape, zone: tzinfo = UTC) -> None:
        self.disk = disk
        self.shape = shape
        self.old: list[OldIndex] = []
        self.active: ActiveIndex | None = None
        self.sums: PageSums | None = None
        """Checksums of the active file."""
        self.indexed_to = 0
        """Keys of records below are entered; rows that bring them again are passed over."""
        self._clock = clock
        self._zone = zone
        self.stalled: ResourceShortage | None = None
        """Why keys wait that should be in a file; the next flush that succeeds ends it."""
        self._waiting: list[Rows] = []
        self._waiting_rows = 0
        self._keys: list[KeyPlace] = []
        self._full: list[tuple[ActiveIndex, PageSums]] = []
        self._held_back = False
        self._last_name = ""
        self._state: IndexState | None = None
        self._files_change = asyncio.Lock()

    # ---- putting

    def put(self, rows: Rows) -> None:
        """Take the keys of some rows, in the order of the log."""
        waiting = self._waiting
        if type(rows) is PlacedRun:
            waiting.append(rows)
        elif waiting and isinstance(waiting[-1], list):
            waiting[-1] += rows
        else:
            waiting.append(rows.copy())
        self._waiting_rows += len(rows)
        if self._waiting_rows >= (ROWS_HELD_BACK if self._held_back else ROWS_AT_ONCE):
            self.absorb(max(2 * len(rows), ROWS_TAKEN))

    def absorb(self, most: int = maxsize) -> None:
        """Hash keys that wait, and enter them. On a full disk without a file for them they go on waiting."""
        waiting = self._waiting
        taken = 0
        while taken < len(waiting) and most > 0:
            rows = waiting[taken]
            if len(rows) > most:
                waiting[taken], rows = rows[most:], rows[:most]
            else:
                taken += 1
            most -= len(rows)
            self._waiting_rows -= len(rows)
            if type(rows) is not PlacedRun or not self._enter_run(rows):
                self._gather(rows)
        del waiting[:taken]
        self._enter()

    def _gather(self, rows: Rows) -> None:
        """Hash the keys of rows; `_enter` enters them."""
        fresh = cast(
            "list[Row]",
            list(rows) if rows[0][1] >= self.indexed_to else [row for row in rows if row[1] >= self.indexed_to],
        )
        if fresh:
            self._keys += hashed_keys(fresh)
            self.indexed_to = fresh[-1][1] + 1

    def _enter_run(self, run: PlacedRun) -> bool:
        """Hash and enter the keys of messages that are alike; False when that must be done one by one."""
        if self._keys and self.stalled is None:
            self._enter()
        active, places = self.active, run.places
        if self._keys or active is None or active.room < len(places) or places[0] < self.indexed_to:
            return False
        hashes = hashes_of_run(run)
        if hashes is None:
            return False
        active.put_run(hashes, places, run.store_ms)
        self.indexed_to = places[-1] + 1
        return True

    def _enter(self) -> None:
        while self._keys:
            active = self.active
            if active is None or active.room <= 0:
                try:
                    active = self._roll()
                except ResourceShortage as shortage:
                    self.stalled = shortage
                    return
            room = active.room
            active.put(self._keys[:room])
            self._keys = self._keys[room:]

    def _roll(self) -> ActiveIndex:
        """Begin another file; the next flush finishes the full one."""
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

    @property
    def waiting_bytes(self) -> int:
        """About what keys hold in memory that are in no file yet."""
        in_files = sum(active.waiting_bytes for active in self._in_memory())
        return in_files + len(self._keys) * KEY_BYTES + self._waiting_rows * ROW_BYTES

    # ---- flushing

    def begin_flush(self) -> None:
        """Fix what the flush that follows makes durable: everything that is put by now."""
        self.absorb()
        if self._keys and self.stalled is not None:
            raise self.stalled
        self.stalled = None
        active = self.active
        self._state = None if active is None else IndexState(active.name, active.header)
        self._held_back = True

    @property
    def state(self) -> IndexState | None:
        """Where the index ended when the last flush began."""
        return self._state

    async def flush(self) -> None:
        """Make durable what was put before `begin_flush`."""
        async with self._files_change:
            try:
                while self._full:
                    await self._finish(*self._full[0])
                    del self._full[0]
                if self.active is not None and self.sums is not None:
                    await _write_durably(self.active, self.sums)
                    await self.disk.sync_directory(INDEX)
                    await self.disk.sync_directory()
                await self._sum_edges()
            finally:
                self._held_back = False

    async def _sum_edges(self) -> None:
        state = self._state
        if state is not None:
            files = {one.name: one.file for one in self.old} | {one.name: one.file for one in self._in_memory()}
            if state.name in files:
                edges = await sum_of_edges(files[state.name], self.shape, state.header.next_number)
                self._state = state._replace(edges=edges)

    async def _finish(self, full: ActiveIndex, sums: PageSums) -> None:
        await _write_durably(full, sums)
        self.old.append(OldIndex(full.name, full.file, full.header, sums))

    # ---- asking

    async def absorb_in_turns(self) -> None:
        """Enter the keys that wait now, in turns with others."""
        for _ in range(0, self._waiting_rows, ROWS_TAKEN):
            self.absorb(ROWS_TAKEN)
            await asyncio.sleep(0)

    async def candidates(
        self, topic: str, key: str, begin_ms: int, end_ms: int, walk: Walk | None = None
    ) -> AsyncIterator[Candidate]:
        """Entries of a key's hash whose time may lie between two, newest first. Raises `DamagedIndex`."""
        walk = walk or Walk()
        await self.absorb_in_turns()
        wanted = key_hash(topic, key)
        async with self._files_change:
            newest_first: list[ActiveIndex | OldIndex] = [*self._in_memory(), *reversed(self.old)]
        for source in newest_first:
            header = source.header
            if isinstance(source, OldIndex):
                await self._checked(source.name, source.file, source.sums, 0, HEADER_BYTES)
            if header.next_number > FIRST_ENTRY and header.begin_ms <= end_ms and header.end_ms >= begin_ms:
                async for candidate in self._chain(source, wanted, begin_ms, end_ms, walk):
                    yield candidate
            if header.begin_ms < begin_ms or walk.is_over:
                return
            await walk.did()

    async def _chain(
        self, source: ActiveIndex | OldIndex, wanted: int, begin_ms: int, end_ms: int, walk: Walk
    ) -> AsyncIterator[Candidate]:
        header = source.header
        slot = wanted % self.shape.slots
        number = await self._newest_of(source, slot)
        while FIRST_ENTRY <= number < header.next_number and not walk.is_over:
            entry = await self._entry(source, number)
            if entry.key_hash % self.shape.slots != slot or entry.seconds < 0:
                raise DamagedIndex(source.name, f"entry {number} does not belong to its chain")
            stored_ms = header.begin_ms + entry.seconds * 1000  # or up to a second later
            if stored_ms + 999 < begin_ms:
                return  # as Apache does: what comes before is older still
            if entry.key_hash == wanted and stored_ms <= end_ms:
                yield Candidate(source.name, number, entry, self._sums_of(source) is not None)
            if entry.before >= number:
                raise DamagedIndex(source.name, f"entry {number} leads to {entry.before}")
            number = entry.before
            await walk.did()

    async def _newest_of(self, source: ActiveIndex | OldIndex, slot: int) -> int:
        if isinstance(source, ActiveIndex):
            return source.newest_of(slot)
        data = await self._checked(source.name, source.file, source.sums, self.shape.slot_position(slot), SLOT_BYTES)
        return int.from_bytes(data, "big", signed=True)

    async def _entry(self, source: ActiveIndex | OldIndex, number: int) -> Entry:
        if isinstance(source, ActiveIndex) and number >= source.written:
            return source.waiting_entry(number)
        position = self.shape.entry_position(number)
        return decode_entry(await self._checked(source.name, source.file, self._sums_of(source), position, ENTRY_BYTES))

    def _sums_of(self, source: ActiveIndex | OldIndex) -> PageSums | None:
        if isinstance(source, OldIndex):
            return source.sums
        return next((sums for full, sums in self._full if full is source), self.sums)

    async def _checked(self, name: str, file: File, sums: PageSums | None, position: int, length: int) -> bytes:
        """Bytes of a file after their pages were checked."""
        first, last = position // PAGE_BYTES, (position + length - 1) // PAGE_BYTES
        async with self._files_change:
            data = await file.read(first * PAGE_BYTES, (last - first + 1) * PAGE_BYTES)
        for page in range(first, last + 1):
            at = (page - first) * PAGE_BYTES
            if sums is not None and not sums.holds(page, data[at : at + PAGE_BYTES]):
                raise DamagedIndex(name, f"page {page} is not what was written")
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

    async def retire(self, name: str) -> "Lost":
        """Take a damaged file out of use; return what it held. `make_again` must follow."""
        self.absorb()
        names = [old.name for old in self.old]
        place = names.index(name) if name in names else len(names)
        before = self.old[place - 1] if place else None
        first = before.header.end_physical if before else 0
        passed = await self._keys_of_last(before) if before else 0
        async with self._files_change:
            if place < len(names):
                self.old.pop(place).file.close()
                after = [old.header for old in self.old[place:]] + [one.header for one in self._in_memory()[::-1]]
                return Lost(first, after[0].begin_physical if after else self.indexed_to - 1, passed)
            last = self.indexed_to - 1
            for active in self._in_memory():
                if active.name == name:
                    last = active.end_physical
                    active.file.close()
            self._full = [(full, sums) for full, sums in self._full if full.name != name]
            if self.active is not None and self.active.name == name:
                self.active = self.sums = None
                self._last_name = name
            return Lost(first, last, passed)

    async def _keys_of_last(self, old: OldIndex) -> int:
        """How many keys of its last message a file holds; the others are in the next."""
        number = old.header.next_number - 1
        while number >= FIRST_ENTRY and (await self._entry(old, number)).physical == old.header.end_physical:
            number -= 1
        return old.header.next_number - 1 - number

    async def make_again(self, name: str, rows: AsyncIterator[list[Placed]], passed: int) -> None:
        """Make a file anew with the keys of some rows but the first ones, and put it in the damaged one's place."""
        made = f"{SUMS}/{name}.new"
        self.disk.make_directory(SUMS)
        file = self.disk.open(made, create=True)
        file.truncate(0)
        file.truncate(self.shape.file_bytes)
        active = ActiveIndex(name, self.shape, file, Header())
        async for some in rows:
            keys = hashed_keys(cast("list[Row]", some))
            wanted = keys[passed : passed + active.room]
            passed = max(passed - len(keys), 0)
            if wanted:
                active.put(wanted)
        sums = PageSums.empty(self.disk, name)
        await active.write_out()
        await file.sync()
        async with self._files_change:
            self.disk.rename(made, f"{INDEX}/{name}")
            await self.disk.sync_directory(INDEX)
            await drop_sums(self.disk, name)
            await sums.renew(file, active.unsummed)
            self.old = sorted([*self.old, OldIndex(name, file, active.header, sums)], key=_name)

    def close(self) -> None:
        """Give up every file. What waits in memory is lost unless it was flushed."""
        for old in self.old:
            old.file.close()
        for active in self._in_memory():
            active.file.close()

    def _in_memory(self) -> list[ActiveIndex]:
        """Files with something in memory, newest first."""
        active = [self.active] if self.active is not None else []
        return active + [full for full, _ in reversed(self._full)]


def _name(old: OldIndex) -> str:
    return old.name


async def _write_durably(active: ActiveIndex, sums: PageSums) -> None:
    await active.write_out()
    await active.file.sync()
    changed = list(active.unsummed)
    await sums.renew(active.file, changed)
    # Not before: a flush that was stopped on the way leaves its checksums to the next.
    for written in changed:
        active.unsummed.pop(written, None)


def time_name(now_ms: int, zone: tzinfo = UTC) -> str:
    """The name of an index file made now: year to millisecond, 17 digits, in local time as Apache's are."""
    return datetime.fromtimestamp(now_ms / 1000, zone).strftime("%Y%m%d%H%M%S") + f"{now_ms % 1000:03d}"
