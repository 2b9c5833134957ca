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
from itertools import accumulate, repeat
from operator import add, eq
from typing import Final, NamedTuple

from firearrow.record.layout import SMALLEST_RECORD, Buffer
from firearrow.runtime.disk import File
from firearrow.store.consumequeue import ENTRY, FILLER_SIZE, matches

RECENT_BYTES: Final = 64 << 20
"""The end of the log that was written so lately that it is in memory without asking."""
SPAN_BYTES: Final = 512 << 10
"""The most that is read at once for several records."""
SPAN_GAP: Final = 4096
"""Bytes between two records, on average, that are read for nothing: copying them costs as much as another call."""
_stated = struct.Struct(">i8xi4xqq").unpack_from


class HotPlan(NamedTuple):
    """What to read for one answer if it is in memory: columns, a message each."""

    physicals: Sequence[int]
    sizes: Sequence[int]
    offsets: Sequence[int]
    next_offset: int


class Places(NamedTuple):
    """Records of one file that are all in it."""

    physicals: Sequence[int]
    sizes: Sequence[int]
    offsets: Sequence[int]


def plan_all(offset: int, max_bytes: int, entries: bytes, opened_at: int) -> HotPlan | None:
    """Every message of some entries, as many as the bytes allow and at least one; None when not all may be hot."""
    columns = tuple(zip(*ENTRY.iter_unpack(entries), strict=True))
    if not columns:
        return None
    physicals, sizes, _ = columns
    if min(physicals) < opened_at or min(sizes) < SMALLEST_RECORD or max(sizes) >= FILLER_SIZE:
        return None
    count = len(sizes)
    if sum(sizes) > max_bytes:
        count = bisect_right(list(accumulate(sizes)), max_bytes) or 1
        physicals, sizes = physicals[:count], sizes[:count]
    return HotPlan(physicals, sizes, range(offset, offset + count), offset + count)


def plan_some(
    offset: int, most: int, max_bytes: int, tags: frozenset[int] | None, entries: bytes, opened_at: int
) -> HotPlan | None:
    """The messages of some entries that a filter lets through, up to the first that cannot be hot."""
    physicals: list[int] = []
    sizes: list[int] = []
    offsets: list[int] = []
    room = max_bytes
    for physical, size, code in ENTRY.iter_unpack(entries):
        if physical < opened_at or not 0 < size < FILLER_SIZE:
            return HotPlan(physicals, sizes, offsets, offset) if sizes else None
        if tags is None or code in tags or matches(code, tags):
            room -= size
            if sizes and (room < 0 or len(sizes) >= most):
                break
            physicals.append(physical)
            sizes.append(size)
            offsets.append(offset)
        offset += 1
    return HotPlan(physicals, sizes, offsets, offset)


def gather(file: File, start: int, stop: int, queue_id: int, some: Places, *, recent: bool) -> list[Buffer] | None:
    """The bytes of records in the file that holds the log from ``start`` to ``stop``; None when one is not in memory,
    or does not state the size, queue and place that its entry says."""
    physicals, sizes, _ = some
    first, end = physicals[0], physicals[-1] + sizes[-1]
    if min(physicals) != first or max(physicals) + SMALLEST_RECORD > end or first < start or end > stop:
        return None
    total, extent = sum(sizes), end - first
    if extent <= SPAN_BYTES and extent <= total + SPAN_GAP * len(sizes):
        return _span(file, start, queue_id, some, extent, touch=extent == total, recent=recent)
    ends = list(map(add, physicals, sizes))
    if any(map(eq, ends, physicals[1:])):
        return _runs(file, start, queue_id, some, recent=recent)
    read = file.gather_at if recent else file.gather_hot
    gathered = read([(physical - start, size) for physical, size in zip(physicals, sizes, strict=True)])
    if gathered is None or sum(map(len, gathered)) != total or min(map(len, gathered)) < SMALLEST_RECORD:
        return None
    if list(map(_stated, gathered)) != _expected(queue_id, some):
        return None
    return gathered  # type: ignore[return-value]  # a list of bytes that nobody else has


def _expected(queue_id: int, some: Places) -> list[tuple[int, ...]]:
    """What each record must state of itself."""
    physicals, sizes, offsets = some
    return list(zip(sizes, repeat(queue_id), offsets, physicals))


def _span(
    file: File, start: int, queue_id: int, some: Places, extent: int, *, touch: bool, recent: bool
) -> list[Buffer] | None:
    """The records of one read."""
    physicals = some.physicals
    first = physicals[0]
    read = file.gather_at if recent else file.gather_hot
    gathered = read([(first - start, extent)])
    if gathered is None or len(gathered[0]) != extent:
        return None
    data = gathered[0]
    if [_stated(data, physical - first) for physical in physicals] != _expected(queue_id, some):
        return None
    if touch:
        return [data]
    view = memoryview(data)
    return [view[begin - first : end - first] for begin, end in _touching(some)]


def _runs(file: File, start: int, queue_id: int, some: Places, *, recent: bool) -> list[Buffer] | None:
    """The records with one read for every run that touches."""
    runs = _touching(some)
    read = file.gather_at if recent else file.gather_hot
    gathered = read([(begin - start, end - begin) for begin, end in runs])
    if gathered is None:
        return None
    stated = []
    at = 0
    for (begin, end), data in zip(runs, gathered, strict=True):
        if len(data) != end - begin:
            return None
        while at < len(some.physicals) and begin <= some.physicals[at] <= end - SMALLEST_RECORD:
            stated.append(_stated(data, some.physicals[at] - begin))
            at += 1
    return gathered if stated == _expected(queue_id, some) else None  # type: ignore[return-value]


def _touching(some: Places) -> list[tuple[int, int]]:
    """Where the records lie, those that touch as one."""
    runs: list[tuple[int, int]] = []
    begin = end = some.physicals[0]
    for physical, size in zip(some.physicals, some.sizes, strict=True):
        if physical != end:
            runs.append((begin, end))
            begin = physical
        end = physical + size
    runs.append((begin, end))
    return runs
