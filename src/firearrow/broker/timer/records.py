"""The records of timed messages: read from the log, and written again for their topic or for the next roll. Pure but
for `read_spans`. Java: ``TimerMessageStore.convert``, ``convertMessage``."""

from collections.abc import AsyncIterator, Container, Iterator, Sequence
from functools import lru_cache
from itertools import groupby, repeat
from operator import attrgetter
from typing import Final, NamedTuple, Protocol

from firearrow.broker.timer.admission import slot_ms, wanted_ms
from firearrow.errors import BadRecord, IllegalMessage, OffsetNotStored
from firearrow.model import EpochMs, keys
from firearrow.model.names import TIMER_TOPIC
from firearrow.model.numbers import INT_MAX, whole_number
from firearrow.record.columns import Envelope, MessageColumns
from firearrow.record.decode import RecordHead, check_body, peek
from firearrow.record.encode import Draft
from firearrow.record.layout import MAX_PROPERTIES_BYTES, Buffer
from firearrow.record.properties import StoredProperties, decode_properties, encode_properties, without_stamps
from firearrow.store.timer.layout import PRECISIONS_MS

MARKS: Final = f"{keys.TIMER_ENQUEUE_MS}\x01%d\x02{keys.TIMER_DEQUEUE_MS}\x01%d\x02".encode()
_SEPARATOR: Final = 2
REAL_TOPIC_MARK: Final = f"\x02{keys.REAL_TOPIC}\x01".encode()
_DESTINATION_ENDS: Final = 3
"""Separators from the one before REAL_TOPIC on, when REAL_QID follows it and nothing else does."""
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
    raw: bytes
    """The properties as stored, without a stamp."""

    def value(self, key: str) -> str | None:
        """Return one property; None when there is none."""
        return value_of(self.raw, key)

    @property
    def is_deletion(self) -> bool:
        """Whether the message takes another one back."""
        return self.value(keys.TIMER_DEL_UNIQKEY) is not None


def timed_record(head: RecordHead, data: Buffer) -> TimedRecord:
    """Return a record of the timers' queue."""
    return TimedRecord(head, data, without_stamps(head.properties(data)))


def value_of(raw: bytes, key: str) -> str | None:
    """Return one property, without decoding the others: the last of equal keys, as `decode_properties` has it."""
    wanted = key.encode() + b"\x01"
    at = raw.rfind(wanted)
    while at > 0 and raw[at - 1] != _SEPARATOR:
        at = raw.rfind(wanted, 0, at)
    if at < 0:
        return None
    start = at + len(wanted)
    end = raw.find(b"\x02", start)
    value = raw[start:] if end < 0 else raw[start:end]
    return value.decode("utf-8", "replace") or None


class ReadSpan(NamedTuple):
    """Records that were read together: those from number ``first`` to before ``last`` of the places asked for."""

    first: int
    last: int
    data: bytes
    starts: list[int]
    """The begin of each record in the data."""
    physicals: Sequence[int]
    sizes: Sequence[int]

    def records(self) -> list[TimedRecord | None]:
        """Return the records; None for one that is not there."""
        return list(map(_record, repeat(self.data), self.starts, self.physicals, self.sizes))


async def read_spans(
    log: LogReader, segment_bytes: int, physicals: Sequence[int], sizes: Sequence[int]
) -> AsyncIterator[ReadSpan]:
    """Return the records at some places, those that are near each other together."""
    first = 0
    while first < len(physicals):
        last, end = _span(segment_bytes, physicals, sizes, first)
        start = physicals[first]
        try:
            data = await log.read_cold(start, end - start)
        except OffsetNotStored:
            data = b""
        if not data and last - first > 1:
            last = first + 1  # the gap between two records, or one of them, is not there: try each alone
            data = await _alone(log, start, sizes[first])
        places = physicals[first:last]
        yield ReadSpan(first, last, data, [place - start for place in places], places, sizes[first:last])
        first = last


def _span(segment_bytes: int, physicals: Sequence[int], sizes: Sequence[int], first: int) -> tuple[int, int]:
    """Return the number behind the last place that is read together with the first, and the offset where it ends."""
    start = physicals[first]
    last, end, most = first + 1, start + sizes[first], start + SPAN_BYTES
    segment_end = start - start % segment_bytes + segment_bytes
    while last < len(physicals):
        physical = physicals[last]
        after = physical + sizes[last]
        if not end <= physical <= end + SPAN_GAP or after > most or physical >= segment_end:
            break
        last, end = last + 1, after
    return last, end


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
    return timed_record(head, data)


def due_slot_ms(record: TimedRecord, out_ms: int, precision_ms: int) -> int:
    """Return the slot of a record that is to leave the slot ``out_ms``.

    A record of the time before the precision was made finer asks for a time behind the slot that now begins there.
    """
    asked_ms = whole_number(record.value(keys.TIMER_DELIVER_MS)) or 0
    if out_ms + precision_ms < asked_ms <= out_ms + PRECISIONS_MS[-1]:
        return slot_ms(asked_ms, precision_ms)
    return out_ms - out_ms % precision_ms


def is_early(record: TimedRecord, precision_ms: int, now_ms: int) -> bool:
    """Whether a record came into its slot at a coarser precision, and its time has not come yet."""
    if precision_ms == PRECISIONS_MS[-1]:
        return False
    out_ms = whole_number(record.value(keys.TIMER_OUT_MS)) or 0
    return due_slot_ms(record, out_ms, precision_ms) + precision_ms > max(now_ms, out_ms + precision_ms)


def exact_ms(record: TimedRecord, out_ms: int, precision_ms: int) -> int:
    """Return the millisecond in which a message of a slot is due; the end of the slot when it is not known.

    A delay counts from the store time, which is not before the time that the broker counted from.
    """
    asked_ms = wanted_ms(decode_properties(record.raw), record.head.store_timestamp)
    end_ms = out_ms + precision_ms
    return end_ms if asked_ms is None or not out_ms < asked_ms < end_ms else asked_ms


def delivered(record: TimedRecord, added_ms: int, now_ms: int) -> Draft | None:
    """Return the draft of a due message for its real topic; None when it does not name one.

    REAL_TOPIC and REAL_QID stay among the properties, as they do at Apache's broker.
    """
    raw = record.raw
    end = raw[raw.rfind(REAL_TOPIC_MARK) :]
    topic, queue_id = remembered_destination(end) if is_destination(end) else _destination(raw)
    if topic is None or queue_id is None:
        return None
    return Draft.of(record.head, record.data, topic, queue_id, _marked(raw, added_ms, now_ms))


def _destination(raw: bytes) -> tuple[str | None, int | None]:
    """Return the topic and queue that properties name; None for a topic or queue that they do not name."""
    return value_of(raw, keys.REAL_TOPIC), whole_number(value_of(raw, keys.REAL_QID), INT_MAX)


remembered_destination = lru_cache(1024)(_destination)
"""`_destination` with a cache, for properties that `is_destination` holds for."""


def is_destination(end: bytes) -> bool:
    """Whether the end of properties is REAL_TOPIC, REAL_QID and nothing else.

    This broker writes the two last, so that all messages for a queue end in the same bytes.
    """
    return end.startswith(REAL_TOPIC_MARK) and end.count(b"\x02") == _DESTINATION_ENDS and end[-1] == _SEPARATOR


def rolled(record: TimedRecord, added_ms: int, now_ms: int) -> Draft:
    """Return the draft of a message that is stored for the timers again."""
    properties = decode_properties(record.raw)
    times = whole_number(properties.get(keys.TIMER_ROLL_TIMES), INT_MAX - 1) or 0
    properties[keys.TIMER_ENQUEUE_MS] = str(added_ms)
    properties[keys.TIMER_ROLL_TIMES] = str(times + 1)
    properties[keys.TIMER_DEQUEUE_MS] = str(now_ms)
    return Draft.of(record.head, record.data, TIMER_TOPIC, 0, _fitting(properties, record.raw))


def _marked(raw: bytes, added_ms: int, now_ms: int) -> StoredProperties:
    """Return the properties with the times at which the message came into the wheel and left it."""
    if b"QUEUE_MS\x01" in raw:  # it was rolled, and has earlier times
        properties = decode_properties(raw)
        properties[keys.TIMER_ENQUEUE_MS] = str(added_ms)
        properties[keys.TIMER_DEQUEUE_MS] = str(now_ms)
        return _fitting(properties, raw)
    closed = raw if not raw or raw[-1] == _SEPARATOR else raw + b"\x02"
    marked = closed + MARKS % (added_ms, now_ms)
    return StoredProperties(marked if len(marked) <= MAX_PROPERTIES_BYTES else raw)


def _fitting(properties: dict[str, str], raw: bytes) -> StoredProperties:
    """Return the properties with their marks, or as they were when no record can hold them with the marks."""
    try:
        return encode_properties(properties)
    except IllegalMessage:
        return StoredProperties(raw)


def taken_back(recall: TimedRecord) -> list[tuple[str, str]]:
    """Return the topic and key of the message that a recall takes back, for either of Apache's two forms of keys."""
    topic, key = recall.value(keys.REAL_TOPIC), recall.value(keys.TIMER_DEL_UNIQKEY)
    if topic is None or key is None:
        return []
    bare = key.removeprefix(f"{topic}+")
    return [(topic, key)] if bare == key else [(topic, key), (topic, bare)]


def is_recalled(record: TimedRecord, recalled: Container[tuple[str, str]]) -> bool:
    """Whether a message is among those that were taken back, by topic and key."""
    return (record.value(keys.REAL_TOPIC) or "", record.value(keys.UNIQ_KEY) or "") in recalled


def in_columns(drafts: Sequence[Draft]) -> Iterator[tuple[Envelope, MessageColumns]]:
    """Return drafts by columns, in order: those next to each other that share an envelope."""
    for shared, some in groupby(drafts, _shared):
        rows = list(some)
        yield (
            Envelope(*shared),
            MessageColumns(
                [draft.queue_id for draft in rows],
                [draft.born_timestamp for draft in rows],
                [draft.flag for draft in rows],
                [bytes(draft.body) for draft in rows],
                [draft.properties for draft in rows],
            ),
        )


_shared = attrgetter("topic", "born_host", "store_host", "sys_flag", "reconsume_times")


def drafts_of(envelope: Envelope, columns: MessageColumns) -> Iterator[Draft]:
    """Return the messages of columns one by one."""
    for queue_id, birth, flag, body, properties in zip(*columns, strict=True):
        yield Draft(
            envelope.topic,
            queue_id,
            body,
            StoredProperties(properties),
            EpochMs(birth),
            envelope.born_host,
            envelope.store_host,
            flag,
            envelope.sys_flag,
            envelope.reconsume_times,
        )
