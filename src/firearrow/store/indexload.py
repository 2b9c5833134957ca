"""From index files of some state to an index that agrees with the log.

After an orderly close of ours the newest file is taken as it is, its slots checked page by page. After a crash its
entries are believed up to where the last flush said, and its slots are made anew from them; files that came later go.
Files of Apache's are believed after an orderly exit, else the newest must make sense entry by entry. A file that cannot
be believed is deleted, and the log is read again from where the one before it ends. Java: ``IndexService.load``.
"""

import logging
from array import array
from typing import Final

from firearrow.errors import FileMissing
from firearrow.runtime.disk import Disk, File
from firearrow.store.activeindex import PAGE_BYTES, ActiveIndex, empty_slots, from_big_endian, link
from firearrow.store.index import Index, IndexState, OldIndex
from firearrow.store.indexfile import (
    ENTRY,
    ENTRY_BYTES,
    FIRST_ENTRY,
    HEADER_BYTES,
    SLOT_BYTES,
    Header,
    decode_header,
    name_after,
)
from firearrow.store.indexsums import PageSums, drop_sums, sum_of_edges
from firearrow.store.pacing import Pace
from firearrow.store.paths import INDEX

_ENTRIES_AT_ONCE: Final = 50_000
_READ_AT_ONCE: Final = 1 << 20

logger = logging.getLogger(__name__)


async def load_known(index: Index, state: IndexState | None, durable: int, *, in_order: bool) -> int:
    """Open the files as a snapshot knows them; return from where the log must be dispatched again.

    ``state`` is None when there was no file yet.
    """
    for name in await index_names(index.disk):
        if not in_order and (state is None or name > state.name):
            await _delete(index, name)
        elif state is not None and name == state.name:
            await _activate(index, state, in_order=in_order)
        else:
            await _open_old(index, name)
    index.indexed_to = durable if state is None or index.active is not None else _end_of_old(index)
    return index.indexed_to


async def load_found(index: Index, believed: int | None, log_end: int) -> int:
    """Open the files that Apache left. ``believed`` is up to where they are known to be on disk; None: all of them."""
    names = await index_names(index.disk)
    for name in names:
        if index.disk.status(f"{INDEX}/{name}").size != index.shape.file_bytes:
            logger.warning("an index file of another shape is made again", extra={"file": name})
            await _delete(index, name)
        else:
            await drop_sums(index.disk, name)
            await _open_old(index, name)
    if not index.old:
        return 0
    await _put_in_order(index)
    last = index.old.pop()
    limit = log_end if believed is None else min(believed, log_end)
    number = await _sensible_end(index, last, limit)
    if number is None or (believed is None and number != last.header.next_number):
        await index.remove(last)
        index.indexed_to = _end_of_old(index)
        return index.indexed_to
    header = await _header_at(index, last, number)
    await _relink(index, IndexState(last.name, header), last.file)
    index.indexed_to = header.end_physical + 1 if number > FIRST_ENTRY else _end_of_old(index)
    return log_end if believed is None else limit


async def _put_in_order(index: Index) -> None:
    """Rename files whose names are not in the order of the log.

    Apache names them by local time, which is behind ours in the west and steps back in autumn, and goes by the names.
    """
    old, index.old = sorted(index.old, key=_place_in_log), []
    last = ""
    for found in old:
        last = name_after(last, found.name)
        if last != found.name:
            while index.disk.exists(f"{INDEX}/{last}"):
                last = name_after(last, "")
            found.file.close()
            index.disk.rename(f"{INDEX}/{found.name}", f"{INDEX}/{last}")
            await index.disk.sync_directory(INDEX)
            await _open_old(index, last)
        else:
            index.old.append(found)


def _place_in_log(old: OldIndex) -> tuple[bool, int, int, str]:
    """By their ends: files may overlap, and who asks for newer messages than a file's first looks at none before it."""
    header = old.header
    return header.next_number <= FIRST_ENTRY, header.end_physical, header.begin_physical, old.name


async def index_names(disk: Disk) -> list[str]:
    """The names of the index files, oldest first."""
    try:
        return [name for name in await disk.list(INDEX) if name.isascii() and name.isdigit()]
    except FileMissing:
        return []


def _end_of_old(index: Index) -> int:
    """Where the keys begin that no old file has: with a message some of whose keys may be in the last one."""
    return index.old[-1].header.end_physical if index.old else 0


async def _open_old(index: Index, name: str) -> None:
    file = index.disk.open(f"{INDEX}/{name}")
    header = decode_header(await file.read(0, HEADER_BYTES))
    index.old.append(OldIndex(name, file, header, await PageSums.load(index.disk, name)))


async def _delete(index: Index, name: str) -> None:
    await index.disk.unlink(f"{INDEX}/{name}")
    await drop_sums(index.disk, name)
    await index.disk.sync_directory(INDEX)


async def _activate(index: Index, state: IndexState, *, in_order: bool) -> None:
    """Open the newest file; leave it out when it rotted."""
    file = index.disk.open(f"{INDEX}/{state.name}")
    sums = await PageSums.load(index.disk, state.name)
    if in_order and sums is not None:
        slots = await _slots(index, file, sums)
        if slots is not None:
            index.active = ActiveIndex(state.name, index.shape, file, Header(*state.header), slots)
            index.sums = sums
            return
    held = sums is None or await _entries_hold(index, state, file, sums, whole=not in_order)
    if held and not in_order and state.edges:
        held = state.edges == await sum_of_edges(file, index.shape, state.header[5])
    if not held:
        logger.error("an index file is made again from the log", extra={"file": state.name})
        file.close()
        await _delete(index, state.name)
        return
    await _relink(index, state, file)


async def _slots(index: Index, file: File, sums: PageSums) -> "array[int] | None":
    """The slots of a file; None when a page of them is not what was written."""
    end = index.shape.entries_start
    data = bytearray()
    pace = Pace(_READ_AT_ONCE)
    while len(data) < end:
        length = min(_READ_AT_ONCE, -(-(end - len(data)) // PAGE_BYTES) * PAGE_BYTES)
        piece = (await file.read(len(data), length)).ljust(length, b"\0")
        data += piece
        await pace.did(len(piece))
    with memoryview(data) as view:
        for page in range(-(-end // PAGE_BYTES)):
            if not sums.holds(page, bytes(view[page * PAGE_BYTES : (page + 1) * PAGE_BYTES])):
                return None
        return from_big_endian(bytes(view[HEADER_BYTES : HEADER_BYTES + index.shape.slots * SLOT_BYTES]))


async def _entries_hold(index: Index, state: IndexState, file: File, sums: PageSums, *, whole: bool) -> bool:
    """Whether every page with entries is what was written; with ``whole`` only those that hold nothing else.

    After a crash the pages at either end may be newer than their checksums; `sum_of_edges` covers their entries.
    """
    start, end = index.shape.entry_position(FIRST_ENTRY), index.shape.entry_position(state.header[5])
    first = -(-start // PAGE_BYTES) if whole else start // PAGE_BYTES
    last = end // PAGE_BYTES if whole else -(-end // PAGE_BYTES)
    per_read = _READ_AT_ONCE // PAGE_BYTES
    pace = Pace(_READ_AT_ONCE)
    for start in range(first, last, per_read):
        data = await file.read(start * PAGE_BYTES, min(per_read, last - start) * PAGE_BYTES)
        for page in range(start, min(start + per_read, last)):
            if not sums.holds(page, data[(page - start) * PAGE_BYTES : (page - start + 1) * PAGE_BYTES]):
                return False
        await pace.did(len(data))
    return True


async def _relink(index: Index, state: IndexState, file: File) -> None:
    """Make the slots anew from the entries, and the file and its checksums with them."""
    slots, used = empty_slots(index.shape), 0
    next_number = state.header[5]
    pace = Pace(_ENTRIES_AT_ONCE)
    for first in range(FIRST_ENTRY, next_number, _ENTRIES_AT_ONCE):
        came, wrong = link(await _entries(index, file, first, next_number), first, slots)
        used += came
        for number, entry in wrong:
            file.write_at(index.shape.entry_position(number), [entry])
        await pace.did(min(_ENTRIES_AT_ONCE, next_number - first))
    header = Header(*state.header)._replace(slots_used=used)
    if file.size != index.shape.file_bytes:
        file.truncate(index.shape.file_bytes)
    index.active = ActiveIndex(state.name, index.shape, file, header, slots)
    index.active.write_all_slots()
    await index.active.write_out()
    await file.sync()
    index.sums = PageSums.empty(index.disk, state.name)
    await index.sums.renew(file, [(0, index.shape.entry_position(next_number))])
    index.active.unsummed.clear()


async def _entries(index: Index, file: File, first: int, end: int) -> bytes:
    count = min(_ENTRIES_AT_ONCE, end - first)
    data = await file.read(index.shape.entry_position(first), count * ENTRY_BYTES)
    return data.ljust(count * ENTRY_BYTES, b"\0")


async def _sensible_end(index: Index, last: OldIndex, limit: int) -> int | None:
    """The number after the last entry below ``limit``; None when an entry cannot be one of this file."""
    next_number = last.header.next_number
    if next_number > index.shape.entries:
        return None
    before = last.header.begin_physical
    pace = Pace(_ENTRIES_AT_ONCE)
    for first in range(FIRST_ENTRY, next_number, _ENTRIES_AT_ONCE):
        entries = await _entries(index, last.file, first, next_number)
        for number, (key_hash, physical, seconds, link_to) in enumerate(ENTRY.iter_unpack(entries), first):
            if physical >= limit and physical >= before:
                return number
            if key_hash < 0 or seconds < 0 or physical < before or not 0 <= link_to < number:
                return None
            before = physical
        await pace.did(len(entries) // ENTRY_BYTES)
    return next_number


async def _header_at(index: Index, last: OldIndex, number: int) -> Header:
    """The header that the file had before entry ``number``."""
    if number == last.header.next_number:
        return last.header
    if number == FIRST_ENTRY:
        return last.header._replace(end_ms=last.header.begin_ms, end_physical=last.header.begin_physical, next_number=1)
    data = await last.file.read(index.shape.entry_position(number - 1), ENTRY_BYTES)
    _, physical, seconds, _ = ENTRY.unpack(data)
    end_ms = last.header.begin_ms + seconds * 1000
    return last.header._replace(end_ms=end_ms, end_physical=physical, next_number=number)
