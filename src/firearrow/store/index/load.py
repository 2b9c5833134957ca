"""Loading the index: from index files of any state to an index that agrees with the log.

After an orderly close by us the newest file is used, with its slots checked page by page. After a crash its entries
count up to the last flush, its slots are built again from them, and newer files are deleted. Files of Apache's are
trusted after an orderly exit, else every entry of the newest file must be plausible. A file that cannot be trusted is
deleted, and the log is dispatched again from the end of the file before it. Java: ``IndexService.load``.
"""

import logging
from array import array
from typing import Final

from firearrow.errors import FileMissing, ResourceShortage
from firearrow.runtime.disk.door import Disk, File
from firearrow.runtime.turn import Pace
from firearrow.store.index.active_file import PAGE_BYTES, ActiveIndex, empty_slots, from_big_endian, link
from firearrow.store.index.checksums import PageSums, drop_sums, sum_of_edges
from firearrow.store.index.files import IndexFiles, OldIndex
from firearrow.store.index.key_index import Index, IndexState
from firearrow.store.index.layout import (
    ENTRY,
    ENTRY_BYTES,
    FIRST_ENTRY,
    HEADER_BYTES,
    SLOT_BYTES,
    Header,
    decode_header,
    name_after,
)
from firearrow.store.paths import INDEX

_ENTRIES_AT_ONCE: Final = 50_000
_READ_AT_ONCE: Final = 1 << 20

logger = logging.getLogger(__name__)


async def load_known(index: Index, state: IndexState | None, durable: int, *, in_order: bool) -> int:
    """Open the files in a snapshot; return the offset from which the log must be dispatched again.

    ``state`` is None when there was no file yet.
    """
    files = index.files
    for name in await index_names(files.disk):
        if not in_order and (state is None or name > state.name):
            await _delete(files, name)
        elif state is not None and name == state.name:
            await _activate(files, state, in_order=in_order)
        else:
            await _open_old(files, name)
    index.indexed_to = durable if state is None or files.active is not None else _end_of_old(files)
    return index.indexed_to


async def load_below(index: Index, state: IndexState | None, end: int) -> int:
    """Keep the full files whose keys all lie below the end of a log that was cut, and delete the others.

    Return the offset from which the log must be dispatched again. ``state`` is the newest file of the snapshot.
    """
    files = index.files
    for name in await index_names(files.disk):
        if state is not None and name < state.name:
            await _open_old(files, name)
            if files.old[-1].header.end_physical < end:
                continue
            files.old.pop().file.close()
        await _delete(files, name)
    index.indexed_to = _end_of_old(files)
    return index.indexed_to


async def load_found(index: Index, believed: int | None, log_end: int) -> int:
    """Open the files that Apache left. ``believed`` is the offset up to which they are on disk; None: all of them."""
    files = index.files
    for name in await index_names(files.disk):
        if files.disk.status(f"{INDEX}/{name}").size != files.shape.file_bytes:
            logger.warning("index file %s has another size and is made again", name, extra={"file": name})
            await _delete(files, name)
        else:
            await drop_sums(files.disk, name)
            await _open_old(files, name)
    if not files.old:
        return 0
    await _put_in_order(files)
    last = files.old.pop()
    limit = log_end if believed is None else min(believed, log_end)
    number = await _sensible_end(files, last, limit)
    if number is None or (believed is None and number != last.header.next_number):
        await files.remove(last)
        index.indexed_to = _end_of_old(files)
        return index.indexed_to
    header = await _header_at(files, last, number)
    await _relink(files, IndexState(last.name, header), last.file)
    index.indexed_to = header.end_physical + 1 if number > FIRST_ENTRY else _end_of_old(files)
    return log_end if believed is None else limit


async def _put_in_order(files: IndexFiles) -> None:
    """Rename files whose names are not in the order of the log.

    Apache sorts files by name and names them by local time, which may be behind ours and steps back in autumn.
    """
    old, files.old = sorted(files.old, key=_place_in_log), []
    last = ""
    for found in old:
        last = name_after(last, found.name)
        if last != found.name:
            while files.disk.exists(f"{INDEX}/{last}"):
                last = name_after(last, "")
            found.file.close()
            files.disk.rename(f"{INDEX}/{found.name}", f"{INDEX}/{last}")
            await files.disk.sync_directory(INDEX)
            await _open_old(files, last)
        else:
            files.old.append(found)


def _place_in_log(old: OldIndex) -> tuple[bool, int, int, str]:
    """The sort key of a file: its end, because files may overlap and lookups by time stop at the first older file."""
    header = old.header
    return header.next_number <= FIRST_ENTRY, header.end_physical, header.begin_physical, old.name


async def index_names(disk: Disk) -> list[str]:
    """The names of the index files, oldest first."""
    try:
        return [name for name in await disk.list(INDEX) if name.isascii() and name.isdigit()]
    except FileMissing:
        return []


def _end_of_old(files: IndexFiles) -> int:
    """The offset from which keys may be missing in the old files: that of the last message, whose keys may be split."""
    return files.old[-1].header.end_physical if files.old else 0


async def _open_old(files: IndexFiles, name: str) -> None:
    file = files.disk.open(f"{INDEX}/{name}")
    header = decode_header(await file.read(0, HEADER_BYTES))
    files.old.append(OldIndex(name, file, header, await PageSums.load(files.disk, name)))


async def _delete(files: IndexFiles, name: str) -> None:
    await files.disk.unlink(f"{INDEX}/{name}")
    await drop_sums(files.disk, name)
    await files.disk.sync_directory(INDEX)


async def _activate(files: IndexFiles, state: IndexState, *, in_order: bool) -> None:
    """Open the newest file; skip it if it has rotted."""
    file = files.disk.open(f"{INDEX}/{state.name}")
    sums = await PageSums.load(files.disk, state.name)
    if in_order and sums is not None:
        slots = await _slots(files, file, sums)
        if slots is not None:
            files.active = ActiveIndex(state.name, files.shape, file, Header(*state.header), slots)
            files.sums = sums
            return
    held = sums is None or await _entries_hold(files, state, file, sums, whole=not in_order)
    if held and not in_order and state.edges:
        held = state.edges == await sum_of_edges(file, files.shape, state.header[5])
    if not held:
        logger.error("index file %s has rotted and is made again from the log", state.name, extra={"file": state.name})
        file.close()
        await _delete(files, state.name)
        return
    await _relink(files, state, file)


async def _slots(files: IndexFiles, file: File, sums: PageSums) -> "array[int] | None":
    """The slots of a file; None when a page has a wrong checksum."""
    end = files.shape.entries_start
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
        return from_big_endian(bytes(view[HEADER_BYTES : HEADER_BYTES + files.shape.slots * SLOT_BYTES]))


async def _entries_hold(files: IndexFiles, state: IndexState, file: File, sums: PageSums, *, whole: bool) -> bool:
    """Whether every page with entries has its checksum; with ``whole`` only pages that hold nothing but entries.

    After a crash the first and the last page may be newer than their checksums; `sum_of_edges` covers their entries.
    """
    start, end = files.shape.entry_position(FIRST_ENTRY), files.shape.entry_position(state.header[5])
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


async def _relink(files: IndexFiles, state: IndexState, file: File) -> None:
    """Build the slots again from the entries, and write the file and its checksums."""
    slots, used = empty_slots(files.shape), 0
    next_number = state.header[5]
    pace = Pace(_ENTRIES_AT_ONCE)
    for first in range(FIRST_ENTRY, next_number, _ENTRIES_AT_ONCE):
        came, wrong = link(await _entries(files, file, first, next_number), first, slots)
        used += came
        for number, entry in wrong:
            file.write_at(files.shape.entry_position(number), [entry])
        await pace.did(min(_ENTRIES_AT_ONCE, next_number - first))
    header = Header(*state.header)._replace(slots_used=used)
    if file.size != files.shape.file_bytes:
        file.truncate(files.shape.file_bytes)
    files.active = ActiveIndex(state.name, files.shape, file, header, slots)
    files.active.write_all_slots()
    files.sums = PageSums.empty(files.disk, state.name)
    files.active.unsummed[0, files.shape.entry_position(next_number)] = None
    try:
        await files.active.write_out(rests=False)
        await file.sync()
        await files.sums.renew(file, files.active.unsummed, rests=False)
    except ResourceShortage as error:
        # The index is whole in memory. A start must not need room: only a broker that runs can delete old files.
        logger.warning("index file %s is written by a later flush: %s", state.name, error, extra={"file": state.name})
    else:
        files.active.unsummed.clear()


async def _entries(files: IndexFiles, file: File, first: int, end: int) -> bytes:
    count = min(_ENTRIES_AT_ONCE, end - first)
    data = await file.read(files.shape.entry_position(first), count * ENTRY_BYTES)
    return data.ljust(count * ENTRY_BYTES, b"\0")


async def _sensible_end(files: IndexFiles, last: OldIndex, limit: int) -> int | None:
    """The number after the last entry below ``limit``; None when an entry is not plausible in this file."""
    next_number = last.header.next_number
    if next_number > files.shape.entries:
        return None
    before = last.header.begin_physical
    pace = Pace(_ENTRIES_AT_ONCE)
    for first in range(FIRST_ENTRY, next_number, _ENTRIES_AT_ONCE):
        entries = await _entries(files, last.file, first, next_number)
        for number, (key_hash, physical, seconds, link_to) in enumerate(ENTRY.iter_unpack(entries), first):
            if physical >= limit and physical >= before:
                return number
            if key_hash < 0 or seconds < 0 or physical < before or not 0 <= link_to < number:
                return None
            before = physical
        await pace.did(len(entries) // ENTRY_BYTES)
    return next_number


async def _header_at(files: IndexFiles, last: OldIndex, number: int) -> Header:
    """The header that the file had before entry ``number``."""
    if number == last.header.next_number:
        return last.header
    if number == FIRST_ENTRY:
        return last.header._replace(end_ms=last.header.begin_ms, end_physical=last.header.begin_physical, next_number=1)
    data = await last.file.read(files.shape.entry_position(number - 1), ENTRY_BYTES)
    _, physical, seconds, _ = ENTRY.unpack(data)
    end_ms = last.header.begin_ms + seconds * 1000
    return last.header._replace(end_ms=end_ms, end_physical=physical, next_number=number)
