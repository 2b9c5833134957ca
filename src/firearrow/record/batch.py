"""Many messages in one body.

A client's batch is a concatenation of::

    totalSize 4   magic 4 (0)   bodyCRC 4 (0)   flag 4   bodyLength 4   body   propertiesLength 2   properties

The broker stores each as a record of its own with consecutive queue offsets (`split_batch`, then `encode_each`; or
`messages_of`, then `encode_pieces` or `alike.encode_alike`, which make the same records in less time), except on topics
with batch queues, where the whole body becomes one record that consumers take apart (`unwrap`). The magic and the CRC
inside are ignored, as in Java; the sizes are added up again and must agree. Must agree with Java's
``MessageDecoder.encodeMessages``, ``MessageExtEncoder.encode(MessageExtBatch)`` and ``MessageDecoder.decodeMessage``.
"""

import struct
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Final
from zlib import crc32

from msgspec.structs import replace

from firearrow.errors import BadBody, IllegalMessage
from firearrow.model import EpochMs, Message, PhysicalOffset, QueueOffset, StoredMessage
from firearrow.record.alike import Alike, alike_of, stamped
from firearrow.record.encode import Draft, encode, shared_fields
from firearrow.record.layout import CRC_MASK, SHORT, Buffer, topic_field
from firearrow.record.properties import StoredProperties, decode_properties, encode_properties, stored_properties
from firearrow.record.stamp import STAMP_SIZE

MAX_BATCH_MESSAGES: Final = 65_536
"""More than any stock client fits into 4 MiB: each of its messages carries a UNIQ_KEY and takes 66 bytes or more."""

_INT = struct.Struct(">i")
_PLACE = struct.Struct(">iIiiiqq")
"""The record up to its physical offset: size, magic, CRC, queue, flag, queue offset, physical offset."""
_HEAD = struct.Struct(">iiiii")
_HEAD_SIZE: Final = _HEAD.size
_SMALLEST: Final = _HEAD_SIZE + 2
_LONGEST_ALIKE: Final = 65_536
_MOST_ALIKE: Final = 1024
"""A batch of more, or of longer ones, is taken apart one by one: its messages make up for the cost."""
_HASH: Final = b"#"[0]
_unpack_head = _HEAD.unpack_from
_unpack_short = SHORT.unpack_from
_pack_place = _PLACE.pack
_join = b"".join


def encode_batch(messages: Iterable[Message]) -> bytes:
    """The body of a batch request."""
    parts: list[bytes] = []
    for message in messages:
        properties = encode_properties(message.properties)
        body = message.body
        size = _SMALLEST + len(body) + len(properties)
        try:
            parts += (_HEAD.pack(size, 0, 0, message.flag, len(body)), body, SHORT.pack(len(properties)), properties)
        except struct.error as wrong:
            raise IllegalMessage(f"a message for topic {message.topic!r} does not fit a batch: {wrong}") from wrong
    return b"".join(parts)


def _entries(batch: Buffer, max_messages: int) -> Iterator[tuple[int, bytes, bytes]]:
    limit = len(batch)
    start = count = 0
    while start < limit:
        count += 1
        if count > max_messages:
            raise BadBody(f"the batch holds more than {max_messages} messages")
        if limit - start < _SMALLEST:
            raise BadBody(f"message {count} of the batch is cut off: {limit - start} bytes are left at byte {start}")
        size, _, _, flag, body_length = _unpack_head(batch, start)
        body_start = start + _HEAD_SIZE
        body_end = body_start + body_length
        if body_length < 0 or body_end + 2 > limit:
            raise BadBody(f"message {count} of the batch, at byte {start}, has a body of {body_length} bytes")
        (properties_length,) = _unpack_short(batch, body_end)
        end = body_end + 2 + properties_length
        if properties_length < 0 or end > limit or size != end - start:
            raise BadBody(
                f"message {count} of the batch says it has {size} bytes, {properties_length} of them properties; "
                f"its parts take {end - start}, and {limit - start} are left at byte {start}"
            )
        yield flag, bytes(batch[body_start:body_end]), bytes(batch[body_end + 2 : end])
        start = end


Piece = tuple[int, bytes, bytes]
"""One message of a batch: its flag, its body, its properties as they are stored."""


def pieces_of(batch: Buffer, *, max_messages: int = MAX_BATCH_MESSAGES) -> list[Piece]:
    """The messages of a client's batch."""
    # Properties that are closed and hold no stamp are stored as they came: `stored_properties`, without the call.
    return [
        (flag, body, given if given[-1:] == b"\x02" and _HASH not in given else stored_properties(given))
        for flag, body, given in _alike(batch, max_messages) or _cut(batch, max_messages)
    ]


def _cut(batch: Buffer, max_messages: int) -> Iterable[tuple[int, bytes, bytes]]:
    """What `_entries` yields, in less time where all is as it should be."""
    raw = bytes(batch)
    limit, start = len(raw), 0
    found: list[tuple[int, bytes, bytes]] = []
    try:
        while start < limit:
            size, _, _, flag, body_length = _unpack_head(raw, start)
            body_start = start + _HEAD_SIZE
            body_end = body_start + body_length
            (properties_length,) = _unpack_short(raw, body_end)
            start += size
            if body_length < 0 or properties_length < 0 or body_end + 2 + properties_length != start:
                return _entries(batch, max_messages)
            found.append((flag, raw[body_start:body_end], raw[body_end + 2 : start]))
    except struct.error:
        return _entries(batch, max_messages)
    return found if start == limit and len(found) <= max_messages else _entries(batch, max_messages)


def messages_of(batch: Buffer) -> Alike | list[Piece]:
    """The messages of a client's batch, by columns where they are alike."""
    return alike_of(batch) or pieces_of(batch)


def _alike(batch: Buffer, max_messages: int) -> Iterable[tuple[int, bytes, bytes]] | None:
    """The entries of a batch whose messages all have the same lengths, cut out at once; None when they have not."""
    if len(batch) < _SMALLEST:
        return None
    size, _, _, _, body_length = _unpack_head(batch, 0)
    properties_length = size - _SMALLEST - body_length
    if body_length < 0 or properties_length < 0 or size > _LONGEST_ALIKE:
        return None
    count, rest = divmod(len(batch), size)
    if rest or not 1 < count <= min(max_messages, _MOST_ALIKE):
        return None
    values = _form(count, body_length, properties_length).unpack(batch)
    stated = (values[0::8], values[4::8], values[6::8])
    if any(some.count(one) != count for some, one in zip(stated, (size, body_length, properties_length), strict=True)):
        return None
    return zip(values[3::8], values[5::8], values[7::8], strict=True)


@lru_cache(64)
def _form(count: int, body_length: int, properties_length: int) -> struct.Struct:
    return struct.Struct(">" + f"iiiii{body_length}sh{properties_length}s" * count)


def drafts_of(pieces: Iterable[Piece], template: Draft) -> list[Draft]:
    """A draft for each piece; what they share comes from ``template``."""
    topic = template.topic
    queue_id = template.queue_id
    born_timestamp = template.born_timestamp
    born_host = template.born_host
    store_host = template.store_host
    sys_flag = template.sys_flag
    reconsume_times = template.reconsume_times
    return [
        Draft(
            topic,
            queue_id,
            body,
            StoredProperties(properties),
            born_timestamp,
            born_host,
            store_host,
            flag,
            sys_flag,
            reconsume_times,
        )
        for flag, body, properties in pieces
    ]


def split_batch(batch: Buffer, template: Draft, *, max_messages: int = MAX_BATCH_MESSAGES) -> list[Draft]:
    """A draft for each message of a client's batch; what the messages share comes from ``template``."""
    return drafts_of(pieces_of(batch, max_messages=max_messages), template)


def encode_pieces(
    pieces: Iterable[Piece], template: Draft, queue_offset: int, physical_offset: int, store_timestamp: int
) -> tuple[bytes, list[int]]:
    """The stamped records of pieces that lie one after the other in the log and in their queue, and their sizes."""
    magic, topic = topic_field(template.topic)
    queue_id = template.queue_id
    # Messages of a batch are mostly alike: what depends on their lengths alone is made when the lengths change.
    body_length = properties_length = -1
    size, before, between = 0, b"", b""
    records: list[bytes] = []
    sizes: list[int] = []
    add_record, add_size = records.append, sizes.append
    try:
        shared = shared_fields(template, store_timestamp)
        for flag, body, properties in pieces:
            if len(body) != body_length or len(properties) != properties_length:
                body_length, properties_length = len(body), len(properties)
                before = shared + _INT.pack(body_length)
                between = topic + SHORT.pack(properties_length + STAMP_SIZE)
                size = _PLACE.size + len(before) + body_length + len(between) + properties_length + STAMP_SIZE
            head = _pack_place(size, magic, crc32(body) & CRC_MASK, queue_id, flag, queue_offset, physical_offset)
            add_record(_join((head, before, body, between, properties)))
            add_size(size)
            physical_offset += size
            queue_offset += 1
    except struct.error as wrong:
        raise IllegalMessage(f"a message of a batch for topic {template.topic!r} does not fit: {wrong}") from wrong
    return stamped(records), sizes


def decode_batch(batch: Buffer, topic: str, *, max_messages: int = MAX_BATCH_MESSAGES) -> list[Message]:
    """The messages of a client's batch."""
    return [
        Message(topic, body, decode_properties(properties), flag)
        for flag, body, properties in _entries(batch, max_messages)
    ]


def encode_each(
    drafts: Iterable[Draft],
    queue_offset: QueueOffset,
    physical_offset: PhysicalOffset,
    store_timestamp: EpochMs,
    *,
    stamped: bool = True,
) -> list[bytes]:
    """The records of drafts that lie one after the other in the log and in their queue."""
    records = []
    for draft in drafts:
        record = encode(draft, queue_offset, physical_offset, store_timestamp, stamped=stamped)
        records.append(record)
        queue_offset = QueueOffset(queue_offset + 1)
        physical_offset = PhysicalOffset(physical_offset + len(record))
    return records


def unwrap(message: StoredMessage, *, max_messages: int = MAX_BATCH_MESSAGES) -> list[StoredMessage]:
    """The messages inside one that is stored whole (`flags.is_wrapped_batch`), with consecutive queue offsets."""
    return [
        replace(
            message,
            body=inner.body,
            properties=inner.properties,
            flag=inner.flag,
            queue_offset=QueueOffset(message.queue_offset + index),
        )
        for index, inner in enumerate(decode_batch(message.body, message.topic, max_messages=max_messages))
    ]
