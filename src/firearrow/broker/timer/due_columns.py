"""Due messages by columns: records of one layout are cut and marked many at once. Pure.

The messages of a full second mostly come from few producers, and their records have the same lengths. What is done for
each of them is done for all by functions in C then. Everything else is left to `records`, which gives the same messages
one by one: recalls, rolls, other layouts, damaged records.
"""

import struct
from collections.abc import Sequence
from functools import lru_cache
from itertools import groupby
from operator import itemgetter
from typing import Any, Final, TypeAlias
from zlib import crc32

from firearrow.broker.timer.records import MARKS, REAL_TOPIC_MARK, ReadSpan, is_destination, remembered_destination
from firearrow.errors import BadRecord
from firearrow.model.flags import HOST_V6_MASK
from firearrow.model.names import TIMER_TOPIC
from firearrow.record.columns import Envelope, MessageColumns
from firearrow.record.decode import peek
from firearrow.record.hosts import HostBytes
from firearrow.record.layout import CRC_MASK, HEAD_V4, MAGIC_V1, MAX_PROPERTIES_BYTES
from firearrow.record.stamp import STAMP_KEY, STAMP_SIZE

FEWEST: Final = 8
"""Fewer records are read as fast one by one."""
_CLOSED_STAMP_KEY: Final = b"\x02" + STAMP_KEY
_KEY_STARTS: Final = -STAMP_SIZE - 1
_DIGITS_START: Final = -STAMP_SIZE + len(STAMP_KEY)
_MARKED_BEFORE: Final = b"QUEUE_MS\x01"
Fields: TypeAlias = tuple[Any, ...]
"""The fields of a record, then body, topic and properties with their lengths."""
_shared_fields = itemgetter(7, 9, 11, 12)  # sysFlag, bornHost, storeHost, reconsumeTimes


def due_columns(span: ReadSpan, added: Sequence[int], now_ms: int) -> list[tuple[Envelope, MessageColumns]] | None:
    """Return the messages of a span for their topics, in order; None when one of them needs to be looked at alone.

    ``added`` are the times at which they came into the wheel.
    """
    data, starts = span.data, span.starts
    if len(starts) < FEWEST:
        return None
    try:
        head = peek(data, starts[0])
    except BadRecord:
        return None
    length = head.end - head.properties_start
    if head.magic != MAGIC_V1 or head.topic != TIMER_TOPIC or length <= STAMP_SIZE:
        return None
    layout = _layout(head.body_length, length)
    if starts[-1] + layout.size > len(data) or set(span.sizes) != {layout.size}:
        return None
    rows = [layout.unpack_from(data, start) for start in starts]
    if not _are_whole(rows, layout.size, head.body_length, length, span.physicals):
        return None
    found, first = [], 0
    for shared, some in groupby(rows, _shared_fields):
        run = list(some)
        columns = _delivered(run, shared, added[first : first + len(run)], now_ms)
        if columns is None:
            return None
        found.append(columns)
        first += len(run)
    return found


@lru_cache(256)
def _layout(body_length: int, properties_length: int) -> struct.Struct:
    """The struct of a whole record of the timers' queue with these lengths."""
    return struct.Struct(f"{HEAD_V4.format}{body_length}sB{len(TIMER_TOPIC)}sh{properties_length}s")


def _are_whole(
    rows: list[Fields], size: int, body_length: int, properties_length: int, physicals: Sequence[int]
) -> bool:
    sizes, magics, crcs, _, _, _, places, flags, *_, bodies, topic_lengths, topics, lengths, _ = zip(*rows, strict=True)
    body_lengths = {row[14] for row in rows}
    topic = TIMER_TOPIC.encode()
    return (
        set(sizes) == {size}
        and set(magics) == {MAGIC_V1}
        and body_lengths == {body_length}
        and set(topic_lengths) == {len(topic)}
        and set(topics) == {topic}
        and set(lengths) == {properties_length}
        and list(places) == list(physicals)
        and not any(flag & HOST_V6_MASK for flag in set(flags))
        and [crc32(body) & CRC_MASK for body in bodies] == list(crcs)
    )


def _delivered(
    rows: list[Fields],
    shared: tuple[int, HostBytes, HostBytes, int],
    added: Sequence[int],
    now_ms: int,
) -> tuple[Envelope, MessageColumns] | None:
    """Return whole records that share their envelope for their topic; None when one must be looked at alone."""
    _, _, _, _, flags, _, _, _, births, *_, bodies, _, _, _, properties = zip(*rows, strict=True)
    at = properties[0].rfind(REAL_TOPIC_MARK)
    if at < 0 or not _are_plain(properties):
        return None
    ends = [text[at:-STAMP_SIZE] for text in properties]
    if not all(map(is_destination, set(ends))):
        return None
    queues = {end: remembered_destination(end) for end in set(ends)}
    topics = {topic for topic, _ in queues.values()}
    queue_ids = [queue_id for end in ends if (queue_id := queues[end][1]) is not None]
    topic = topics.pop()
    marks = {added_ms: MARKS % (added_ms, now_ms) for added_ms in set(added)}
    longest = max(map(len, marks.values()))
    if topics or topic is None or len(queue_ids) < len(rows):
        return None
    if len(properties[0]) - STAMP_SIZE + longest > MAX_PROPERTIES_BYTES:
        return None
    marked = [text[:-STAMP_SIZE] + marks[added_ms] for text, added_ms in zip(properties, added, strict=True)]
    sys_flag, born_host, store_host, tries = shared
    return Envelope(topic, born_host, store_host, sys_flag, tries), MessageColumns(
        queue_ids, births, flags, bodies, marked
    )


def _are_plain(properties: Sequence[bytes]) -> bool:
    """Whether all properties end with one stamp and have no marks of an earlier delivery."""
    text = b"".join(properties)
    return (
        {one[_KEY_STARTS:_DIGITS_START] for one in properties} == {_CLOSED_STAMP_KEY}
        and text.count(STAMP_KEY) == len(properties)
        and {one[-1:] for one in properties} == {b"\x02"}
        and b"".join([one[_DIGITS_START:-1] for one in properties]).isdigit()
        and _MARKED_BEFORE not in text
    )
