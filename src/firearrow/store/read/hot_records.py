"""Reads records that are in the page cache, many at once, without a Python loop over them.

The entries of one pull become columns, and nearly all checks work on a whole column by functions in C: that all entries
are messages, that all lie in one file, that every record states the size, queue and offsets of its entry. Records that
touch, or lie so near each other that reading the gaps costs less than more calls, are read with one call; others with
one call for every run of touching records.

Nothing here waits or repairs: None sends the reader to the cold path, where everything is checked.
"""

import struct
from bisect import bisect_right
from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import accumulate, compress, islice, pairwise, repeat
from operator import add, ne
from typing import Final, TypeAlias

from firearrow.record.layout import SMALLEST_RECORD, Buffer
from firearrow.store.log.segments import Segment
from firearrow.store.queue.consume_queue import ENTRY, ENTRY_BYTES, FILLER_SIZE, matches

RECENT_BYTES: Final = 64 << 20
"""Bytes at the end of the log that are certainly in the page cache, because they were written recently."""
SPAN_BYTES: Final = 512 << 10
"""The most bytes that one call reads for several records."""
SPAN_GAP: Final = 4096
"""Average bytes between two records up to which the gaps are read too: copying them costs as much as another call."""
COPIED_BYTES: Final = 2048
"""Records up to this average size are copied out of the bytes that were read: a copy costs less than a memoryview."""
_UNPACKED_AT_ONCE: Final = 128
_stated = struct.Struct(">i8xi4xqq").unpack_from


Columns: TypeAlias = tuple[Sequence[int], Sequence[int], Sequence[int]]
"""The physical offsets, sizes and queue offsets of messages. Plain tuples, because every pull makes one."""
Read: TypeAlias = Callable[[Sequence[int], Sequence[int]], list[bytes] | None]
"""Reads the bytes at several positions of a file, of these lengths; None when they are not in memory."""
HotPlan: TypeAlias = tuple[Columns, int, int]
"""The records of one answer if they are in memory, their total size, and the next queue offset."""


@lru_cache(_UNPACKED_AT_ONCE)
def _entries(count: int) -> struct.Struct:
    """The struct of ``count`` entries, without their tag codes."""
    return struct.Struct(">" + "qi8x" * count)


def _places_and_sizes(entries: bytes, count: int) -> tuple[Sequence[int], Sequence[int]]:
    if count <= _UNPACKED_AT_ONCE:
        fields: Sequence[int] = _entries(count).unpack(entries)
        return fields[::2], fields[1::2]
    many: list[int] = []
    for at in range(0, len(entries), _UNPACKED_AT_ONCE * ENTRY_BYTES):
        part = entries[at : at + _UNPACKED_AT_ONCE * ENTRY_BYTES]
        many += _entries(len(part) // ENTRY_BYTES).unpack(part)
    return many[::2], many[1::2]


def plan_all(offset: int, max_bytes: int, entries: bytes) -> HotPlan | None:
    """The messages of all entries, as many as ``max_bytes`` allows and at least one; None when not all are messages.

    The size in a filler is larger than any answer, and `gather` detects entries that are out of order.
    """
    count = len(entries) // ENTRY_BYTES
    if not count:
        return None
    physicals, sizes = _places_and_sizes(entries, count)
    if min(sizes) < SMALLEST_RECORD:
        return None
    total = sum(sizes)
    if total > max_bytes:
        totals = list(accumulate(sizes))
        count = bisect_right(totals, max_bytes) or 1
        physicals, sizes, total = physicals[:count], sizes[:count], totals[count - 1]
    return (physicals, sizes, range(offset, offset + count)), total, offset + count


def plan_some(offset: int, most: int, max_bytes: int, tags: frozenset[int] | None, entries: bytes) -> HotPlan | None:
    """The messages of entries that pass a filter, up to the first entry that is not a message."""
    physicals: list[int] = []
    sizes: list[int] = []
    offsets: list[int] = []
    room = max_bytes
    for physical, size, code in ENTRY.iter_unpack(entries):
        if not SMALLEST_RECORD <= size < FILLER_SIZE:
            return ((physicals, sizes, offsets), sum(sizes), offset) if sizes else None
        if tags is None or code in tags or matches(code, tags):
            room -= size
            if sizes and (room < 0 or len(sizes) >= most):
                break
            physicals.append(physical)
            sizes.append(size)
            offsets.append(offset)
        offset += 1
    return (physicals, sizes, offsets), sum(sizes), offset


def gather(
    segment: Segment, stop: int, queue_id: int, columns: Columns, total: int, *, recent: bool
) -> list[Buffer] | None:
    """The bytes of records, ``total`` in all, which lie in a segment below ``stop``; None when one is not in memory,
    or does not state the size, queue and offsets of its entry."""
    physicals, sizes, _ = columns
    file, start = segment.file, segment.start
    first, end = physicals[0], physicals[-1] + sizes[-1]
    if first < start or end > stop:
        return None
    if len(sizes) == 1:
        data = file.read_at(first - start, total) if recent else file.read_hot(first - start, total)
        return _lone(data, queue_id, columns)
    read = file.gather_at if recent else file.gather_hot
    extent = end - first
    if 0 < extent <= SPAN_BYTES and extent <= total + SPAN_GAP * len(sizes):
        gathered = read((first - start,), (extent,))
        return _cut(gathered[0], total, queue_id, columns) if gathered is not None else None
    if min(physicals) < first:
        return None
    if _may_touch(columns):
        return _read_runs(read, start, queue_id, columns)
    gathered = read([physical - start for physical in physicals] if start else physicals, sizes)
    return _checked(gathered, total, queue_id, columns) if gathered is not None else None


def _expected(queue_id: int, columns: Columns) -> list[tuple[int, ...]]:
    """The fields that each record must state: size, queue, queue offset, physical offset."""
    physicals, sizes, offsets = columns
    return list(zip(sizes, repeat(queue_id), offsets, physicals))


def _lone(data: bytes | None, queue_id: int, columns: Columns) -> list[Buffer] | None:
    """The only record, if it is whole and states the fields of its entry; else None."""
    (physical,), (size,), (offset,) = columns
    if data is None or len(data) != size or _stated(data) != (size, queue_id, offset, physical):
        return None
    return [data]


def _checked(gathered: list[bytes], total: int, queue_id: int, columns: Columns) -> list[Buffer] | None:
    """The records, if each is whole and states the fields of its entry; else None."""
    if sum(map(len, gathered)) != total or list(map(_stated, gathered)) != _expected(queue_id, columns):
        return None
    return gathered  # type: ignore[return-value]  # a list of bytes that no other code holds


def _cut(data: bytes, total: int, queue_id: int, columns: Columns) -> list[Buffer] | None:
    """The records in ``data``, which reaches from the first record to the last.

    An entry that leads outside is detected: no record inside states its physical offset.
    """
    physicals, sizes, _ = columns
    first = physicals[0]
    if len(data) != physicals[-1] + sizes[-1] - first:
        return None
    places = [physical - first for physical in physicals] if first else physicals
    try:
        if list(map(_stated, repeat(data), places)) != _expected(queue_id, columns):
            return None
    except struct.error:
        return None
    if len(data) == total:
        return [data]
    if total > COPIED_BYTES * len(sizes):
        view = memoryview(data)
        return [view[begin - first : end - first] for begin, end in _ranges(columns, _runs(columns))]
    return [data[place : place + size] for place, size in zip(places, sizes, strict=True)]


def _may_touch(columns: Columns) -> bool:
    """Whether to search for touching records, by the first two and the last two: records of a batch all touch."""
    physicals, sizes, _ = columns
    return len(sizes) > 1 and (physicals[0] + sizes[0] == physicals[1] or physicals[-2] + sizes[-2] == physicals[-1])


def _read_runs(read: Read, start: int, queue_id: int, columns: Columns) -> list[Buffer] | None:
    """The runs of touching records, if every record in them states the fields of its entry; else None."""
    physicals, sizes, _ = columns
    runs = _runs(columns)
    ranges = _ranges(columns, runs)
    gathered = read([begin - start for begin, _ in ranges], [end - begin for begin, end in ranges])
    if gathered is None:
        return None
    stated: list[tuple[int, ...]] = []
    for (first, until), data in zip(runs, gathered, strict=True):
        begin = physicals[first]
        if len(data) != physicals[until - 1] + sizes[until - 1] - begin:
            return None
        stated += map(_stated, repeat(data), [physical - begin for physical in physicals[first:until]])
    return gathered if stated == _expected(queue_id, columns) else None  # type: ignore[return-value]


def _runs(columns: Columns) -> list[tuple[int, int]]:
    """The runs of touching records, each as the index of its first record and the index behind its last."""
    physicals, sizes, _ = columns
    ends = map(add, physicals, sizes)
    bounds = [0, *compress(range(1, len(sizes)), map(ne, ends, islice(physicals, 1, None))), len(sizes)]
    return list(pairwise(bounds))


def _ranges(columns: Columns, runs: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the begin and end of each run in the log."""
    physicals, sizes, _ = columns
    return [(physicals[first], physicals[until - 1] + sizes[until - 1]) for first, until in runs]
