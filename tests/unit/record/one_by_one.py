"""The slow ways with which the fast ways of `record` must agree: batches read field by field, records made message by
message."""

import struct
from collections.abc import Iterable, Iterator, Sequence

from firearrow.errors import BadBody
from firearrow.model import EpochMs, PhysicalOffset, QueueOffset
from firearrow.record.columns import Envelope, MessageColumns
from firearrow.record.encode import Draft, encode
from firearrow.record.properties import StoredProperties


def entries_of(batch: bytes, max_messages: int = 65_536) -> Iterator[tuple[int, bytes, bytes]]:
    """Flag, body and properties of each message of a client's batch, as they came."""
    limit = len(batch)
    start = count = 0
    while start < limit:
        count += 1
        if count > max_messages:
            raise BadBody(f"the batch holds more than {max_messages} messages")
        if limit - start < 22:
            raise BadBody(f"message {count} of the batch is cut off: {limit - start} bytes are left at byte {start}")
        size, _, _, flag, body_length = struct.unpack_from(">iiiii", batch, start)
        body_start = start + 20
        body_end = body_start + body_length
        if body_length < 0 or body_end + 2 > limit:
            raise BadBody(f"message {count} of the batch, at byte {start}, has a body of {body_length} bytes")
        (properties_length,) = struct.unpack_from(">h", batch, body_end)
        end = body_end + 2 + properties_length
        if properties_length < 0 or end > limit or size != end - start:
            raise BadBody(
                f"message {count} of the batch says it has {size} bytes, {properties_length} of them properties; "
                f"its parts take {end - start}, and {limit - start} are left at byte {start}"
            )
        yield flag, batch[body_start:body_end], batch[body_end + 2 : end]
        start = end


def drafts_of(envelope: Envelope, columns: MessageColumns) -> list[Draft]:
    """A draft for each message."""
    hosts = envelope.born_host, envelope.store_host
    return [
        Draft(
            envelope.topic,
            queue_id,
            body,
            StoredProperties(properties),
            EpochMs(born),
            *hosts,
            flag,
            envelope.sys_flag,
            envelope.reconsume_times,
        )
        for queue_id, born, flag, body, properties in zip(*columns, strict=True)
    ]


def encode_each(
    drafts: Iterable[Draft], queue_offsets: Sequence[int], physical_offset: int, store_timestamp: int
) -> list[bytes]:
    """The records of drafts that lie one after the other in the log."""
    records: list[bytes] = []
    for draft, queue_offset in zip(drafts, queue_offsets, strict=True):
        place = PhysicalOffset(physical_offset + sum(map(len, records)))
        records.append(encode(draft, QueueOffset(queue_offset), place, EpochMs(store_timestamp)))
    return records
