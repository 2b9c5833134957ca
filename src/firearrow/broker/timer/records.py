"""The records of timed messages: read from the log, and written again for their topic or for the next roll. Pure but
for `read_records`. Java: ``TimerMessageStore.convert``, ``convertMessage``."""

from collections.abc import AsyncIterator, Sequence
from typing import Final, NamedTuple, Protocol

from firearrow.errors import BadRecord, OffsetNotStored
from firearrow.model import keys
from firearrow.model.names import TIMER_TOPIC
from firearrow.record.decode import RecordHead, check_body, peek
from firearrow.record.encode import Draft
from firearrow.record.layout import Buffer
from firearrow.record.properties import decode_properties, encode_properties

NEVER_ADDED_MS: Final = 2**63 - 1
"""TIMER_ENQUEUE_MS of a message that was due before it came into the wheel (Java: ``Long.MAX_VALUE``)."""
SPAN_BYTES: Final = 256 << 10
"""Most bytes of the log read with one call."""
SPAN_GAP: Final = 4096
"""Bytes between two records up to which the gap is read too."""


class LogReader(Protocol):
    """The part of `LogBytes` that this module uses."""

    async def read_cold(self, physical: int, size: int) -> bytes:
        """The bytes at an offset, inside one segment; off the loop when that needs the device."""
        ...


class TimedRecord(NamedTuple):
    """A record of the timers' queue."""

    head: RecordHead
    data: Buffer
    properties: dict[str, str]


async def read_records(
    log: LogReader, segment_bytes: int, physicals: Sequence[int], sizes: Sequence[int]
) -> AsyncIterator[tuple[int, TimedRecord | None]]:
    """Return the records at some places, by their number among the places; None for one that is not there."""
    first = 0
    while first < len(physicals):
        start, end = physicals[first], physicals[first] + sizes[first]
        last = first + 1
        while (
            last < len(physicals)
            and end <= physicals[last] <= end + SPAN_GAP
            and physicals[last] + sizes[last] - start <= SPAN_BYTES
            and physicals[last] // segment_bytes == start // segment_bytes
        ):
            end = physicals[last] + sizes[last]
            last += 1
        try:
            data = await log.read_cold(start, end - start)
        except OffsetNotStored:
            data = b""
        if not data and last - first > 1:
            last = first + 1  # the gap between two records, or one of them, is not there: try each alone
            data = await _alone(log, start, sizes[first])
        for number in range(first, last):
            yield number, _record(data, physicals[number] - start, physicals[number], sizes[number])
        first = last


async def _alone(log: LogReader, physical: int, size: int) -> bytes:
    try:
        return await log.read_cold(physical, size)
    except OffsetNotStored:
        return b""


def _record(data: bytes, start: int, physical: int, size: int) -> TimedRecord | None:
    try:
        head = peek(data, start)
        check_body(data, head)
    except BadRecord:
        return None
    if head.size != size or head.physical_offset != physical or head.topic != TIMER_TOPIC:
        return None
    return TimedRecord(head, data, decode_properties(head.properties(data)))


def delivered(record: TimedRecord, added_ms: int, now_ms: int) -> Draft | None:
    """Return the draft of a due message for its real topic; None when it does not name one."""
    properties = record.properties
    topic, queue_id = properties.get(keys.REAL_TOPIC), properties.get(keys.REAL_QID, "")
    if not topic or not queue_id.isdigit():
        return None
    kept = {key: value for key, value in properties.items() if key not in (keys.REAL_TOPIC, keys.REAL_QID)}
    kept[keys.TIMER_ENQUEUE_MS] = str(added_ms)
    kept[keys.TIMER_DEQUEUE_MS] = str(now_ms)
    return _draft(record, topic, int(queue_id), kept)


def rolled(record: TimedRecord, added_ms: int, now_ms: int) -> Draft:
    """Return the draft of a message that is stored for the timers again."""
    properties = dict(record.properties)
    times = properties.get(keys.TIMER_ROLL_TIMES, "0")
    properties[keys.TIMER_ENQUEUE_MS] = str(added_ms)
    properties[keys.TIMER_ROLL_TIMES] = str(int(times) + 1 if times.isdigit() else 1)
    properties[keys.TIMER_DEQUEUE_MS] = str(now_ms)
    return _draft(record, TIMER_TOPIC, 0, properties)


def _draft(record: TimedRecord, topic: str, queue_id: int, properties: dict[str, str]) -> Draft:
    head = record.head
    return Draft(
        topic,
        queue_id,
        head.body(record.data),
        encode_properties(properties),
        head.born_timestamp,
        head.born_host,
        head.store_host,
        head.flag,
        head.sys_flag,
        head.reconsume_times,
    )


def recalls(record: TimedRecord, deleted: set[str]) -> bool:
    """Whether a message is among those that were taken back; keys have one of Apache's two forms."""
    if not deleted:
        return False
    key = record.properties.get(keys.UNIQ_KEY, "")
    return bool(key) and (key in deleted or f"{record.properties.get(keys.REAL_TOPIC, '')}+{key}" in deleted)
