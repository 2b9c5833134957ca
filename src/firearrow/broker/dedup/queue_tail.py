"""Reads the end of a queue for its rows: how a window is rebuilt after a start.

A window is rebuilt when the first row for its queue arrives, not when the broker starts: a start takes no longer, and
queues without rows are never read. Until then no row was stored in the queue by this process, so what is read is all
that the window must hold. A message that cannot be read (damage) is passed over.
"""

from collections.abc import AsyncIterator, Callable
from typing import Final, NamedTuple

from firearrow.broker.dedup.row_identity import has_windows, key_in_queue, key_of
from firearrow.broker.dedup.window import FirstCopy, WindowBounds
from firearrow.model import keys
from firearrow.model.names import SCHEDULE_TOPIC, TIMER_TOPIC
from firearrow.model.numbers import INT_MAX, whole_number
from firearrow.record.decode import RecordHead, heads
from firearrow.record.layout import Buffer
from firearrow.record.properties import decode_properties
from firearrow.runtime.turn import Pace
from firearrow.store.read.queue_reader import ReadRequest
from firearrow.store.store import Store

READ_AT_ONCE: Final = 64
READ_BYTES: Final = 1 << 20


class FoundRow(NamedTuple):
    """A row at the end of a queue."""

    key: bytes
    copy: FirstCopy
    store_ms: int


async def rows_at_end(
    store: Store, topic: str, queue_id: int, bounds: WindowBounds, now_ms: int, life_of: Callable[[str], int]
) -> AsyncIterator[list[FoundRow]]:
    """Yield the rows that the window of a queue must hold, oldest first.

    In the queues of delayed messages a row has the key that it has among the rows of all queues; rows from before the
    life of their topic, whose begin in the log ``life_of`` tells, are passed over.
    """
    queue = store.queues.find(topic, queue_id)
    if queue is None:
        return
    offset = max(store.min_offset(topic, queue_id), queue.max_offset - bounds.count)
    if await store.lookups.store_ms(queue, offset) < now_ms - bounds.age_ms:
        offset = max(offset, await store.lookups.offset_by_time(queue, now_ms - bounds.age_ms))
    is_delayed, pace = topic in (SCHEDULE_TOPIC, TIMER_TOPIC), Pace(READ_AT_ONCE)
    while offset < store.max_offset(topic, queue_id):
        pulled = await store.read(topic, queue_id, ReadRequest(offset, READ_AT_ONCE, READ_BYTES))
        if pulled.next_offset <= offset:
            return
        offset = pulled.next_offset
        yield [
            row
            for buffer in pulled.buffers
            for head in heads(buffer)
            if (row := _row_of(head, buffer, life_of if is_delayed else None)) is not None
        ]
        await pace.did(READ_AT_ONCE)


def _row_of(head: RecordHead, record: Buffer, life_of: Callable[[str], int] | None) -> FoundRow | None:
    properties = head.properties(record)
    key = key_of(properties) if has_windows(head.topic, head.sys_flag) else b""
    if key and life_of is not None:
        key = _key_of_delayed(key, properties, head.physical_offset, life_of)
    copy = FirstCopy(head.physical_offset, head.queue_offset, head.body_crc)
    return FoundRow(key, copy, head.store_timestamp) if key else None


def _key_of_delayed(key: bytes, properties: bytes, physical: int, life_of: Callable[[str], int]) -> bytes:
    """Return the key among all queues, of a row that waits for its delivery; empty if it belongs to no window."""
    given = decode_properties(properties)
    topic, queue_id = given.get(keys.REAL_TOPIC, ""), whole_number(given.get(keys.REAL_QID), INT_MAX)
    life = life_of(topic)
    if queue_id is None or not has_windows(topic, 0) or physical < life:
        return b""
    return key_in_queue(key, topic, queue_id, life)
