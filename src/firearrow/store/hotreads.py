"""Reads records that are in memory, many at once. At half a million a second there is no time for a loop over them.

The entries of one pull are turned into columns, and nearly everything is done a column at a time by functions of C: are
they all of messages, do they all lie in one file, what must each record state of itself. How the bytes are read depends
on how the records lie: one read when they touch, or lie so near each other that passing over the rest costs less than
further calls; else one for every run that touches.

Nothing here waits, and nothing is put right: None sends the reader the slow way, where everything is checked.
"""

import struct
from bisect import bisect_right
from collections.abc import Sequence
from functools import lru_cache
from itertools import accumulate, repeat
from typing import Final, TypeAlias

from firearrow.record.layout import SMALLEST_RECORD, Buffer
from firearrow.store.consumequeue import ENTRY, ENTRY_BYTES, FILLER_SIZE, matches
from firearrow.store.segments import Segment

RECENT_BYTES: Final = 64 << 20
"""The end of the log that was written so lately that it is in memory without asking."""
SPAN_BYTES: Final = 512 << 10
"""The most that is read at once for several records."""
SPAN_GAP: Final = 4096
"""Bytes between two records, on average, that are read for nothing: copying them costs as much as another call."""
COPIED_BYTES: Final = 2048
"""Records up to this size, on average, are copied out of what was read: that costs less than pointing into it."""
_UNPACKED_AT_ONCE: Final = 128
_stated = struct.Struct(">i8xi4xqq").unpack_from


Columns: TypeAlias = tuple[Sequence[int], Sequence[int], Sequence[int]]
"""Messages: the physical offsets, the sizes and the queue offsets of all. Plain tuples, for one is made a pull."""
HotPlan: TypeAlias = tuple[Columns, int, int]
"""What to read for one answer if it is in memory, how many bytes that is, and where to read on."""


@lru_cache(_UNPACKED_AT_ONCE)
def _entries(count: int) -> struct.Struct:
    """So many entries at once, without their tag codes."""
    return struct.Struct(">" + "qi8x" * count)


def _places_and_sizes(entries: bytes, count: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    if count <= _UNPACKED_AT_ONCE:
        fields = _entries(count).unpack(entries)
        return fields[::2], fields[1::2]
    physicals, sizes, _ = zip(*ENTRY.iter_unpack(entries), strict=True)
    return physicals, sizes


def plan_all(offset: int, max_bytes: int, entries: bytes) -> HotPlan | None:
    """Every message of some entries, as many as the bytes allow and at least one; None when not all are messages.

    An entry that stands for no message is larger than any answer, and one out of order is found out by `gather`.
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
    """The messages of some entries that a filter lets through, up to the first entry that is no message's."""
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
    segment: Segment, stop: int, queue_id: int, some: Columns, total: int, *, recent: bool
) -> list[Buffer] | None:
    """The bytes of records, ``total`` of them, that lie in a segment below ``stop``; None when one is not in memory, or
    does not state the size, queue and place that its entry says."""
    physicals, sizes, _ = some
    file, start = segment.file, segment.start
    first, end = physicals[0], physicals[-1] + sizes[-1]
    if first < start or end > stop:
        return None
    if len(sizes) == 1:
        data = file.read_at(first - start, total) if recent else file.read_hot(first - start, total)
        right = data is not None and len(data) == total and [_stated(data)] == _expected(queue_id, some)
        return [data] if data is not None and right else None
    read = file.gather_at if recent else file.gather_hot
    extent = end - first
    if 0 < extent <= SPAN_BYTES and extent <= total + SPAN_GAP * len(sizes):
        gathered = read((first - start,), (extent,))
        return None if gathered is None or len(gathered[0]) != extent else _cut(gathered[0], total, queue_id, some)
    if min(physicals) < first:
        return None
    if _may_touch(some):
        runs = _touching(some)
        gathered = read([begin - start for begin, _ in runs], [end - begin for begin, end in runs])
        return None if gathered is None else _checked_runs(gathered, runs, queue_id, some)
    gathered = read([physical - start for physical in physicals] if start else physicals, sizes)
    if gathered is None or sum(map(len, gathered)) != total:
        return None
    if list(map(_stated, gathered)) != _expected(queue_id, some):
        return None
    return gathered  # type: ignore[return-value]  # a list of bytes that nobody else has


def _expected(queue_id: int, some: Columns) -> list[tuple[int, ...]]:
    """What each record must state of itself."""
    physicals, sizes, offsets = some
    return list(zip(sizes, repeat(queue_id), offsets, physicals))


def _cut(data: bytes, total: int, queue_id: int, some: Columns) -> list[Buffer] | None:
    """The records out of the bytes from the first to the last of them.

    One that should lie outside is found out: nothing inside states its place.
    """
    physicals, sizes, _ = some
    first = physicals[0]
    places = [physical - first for physical in physicals] if first else physicals
    try:
        if list(map(_stated, repeat(data), places)) != _expected(queue_id, some):
            return None
    except struct.error:
        return None
    if len(data) == total:
        return [data]
    if total > COPIED_BYTES * len(sizes):
        view = memoryview(data)
        return [view[begin - first : end - first] for begin, end in _touching(some)]
    return [data[place : place + size] for place, size in zip(places, sizes, strict=True)]


def _may_touch(some: Columns) -> bool:
    """Whether it is worth looking for records that touch: those of a batch do, wherever one looks."""
    physicals, sizes, _ = some
    return len(sizes) > 1 and (physicals[0] + sizes[0] == physicals[1] or physicals[-2] + sizes[-2] == physicals[-1])


def _checked_runs(
    gathered: list[bytes], runs: list[tuple[int, int]], queue_id: int, some: Columns
) -> list[Buffer] | None:
    """The runs, if every record in them states what its entry says."""
    physicals = some[0]
    stated = []
    at = 0
    for (begin, end), data in zip(runs, gathered, strict=True):
        if len(data) != end - begin:
            return None
        while at < len(physicals) and begin <= physicals[at] <= end - SMALLEST_RECORD:
            stated.append(_stated(data, physicals[at] - begin))
            at += 1
    return gathered if stated == _expected(queue_id, some) else None  # type: ignore[return-value]


def _touching(some: Columns) -> list[tuple[int, int]]:
    """Where the records lie, those that touch as one."""
    runs: list[tuple[int, int]] = []
    physicals, sizes, _ = some
    begin = end = physicals[0]
    for physical, size in zip(physicals, sizes, strict=True):
        if physical != end:
            runs.append((begin, end))
            begin = physical
        end = physical + size
    runs.append((begin, end))
    return runs
