"""Encoding the records of message columns, byte for byte as `encode` makes them one by one.

Most batches are uniform, with bodies of one length: their records differ in a few fields. `_encode_uniform` packs such
records without a loop in Python. `_encode_mixed` encodes all other columns with a loop over the messages.
"""

import struct
from collections.abc import Sequence
from functools import lru_cache
from itertools import repeat
from typing import Final
from zlib import crc32

from firearrow.model import EpochMs, PhysicalOffset, QueueOffset
from firearrow.model.flags import BORN_HOST_V6, HOST_V6_MASK, STORE_HOST_V6
from firearrow.record.columns import Envelope, MessageColumns, UniformProperties
from firearrow.record.encode import Draft, encode
from firearrow.record.hosts import V4_SIZE
from firearrow.record.layout import CRC_MASK, MAX_PROPERTIES_BYTES, SHORT, SIZE_AND_MAGIC, topic_field
from firearrow.record.properties import StoredProperties
from firearrow.record.stamp import STAMP_SIZE, stamps_of

_HEAD = struct.Struct(">iIiiiqqiq")
"""A record up to its birth: size, magic, CRC, queue, flag, queue offset, physical offset, sysFlag, birth."""
_INT = struct.Struct(">i")
_LONG = struct.Struct(">q")
_FLAG_AND_BIRTH = struct.Struct(">iq")
_QUEUE_AND_FLAG = struct.Struct(">ii")
_TRIES_AND_PREPARED = struct.Struct(">iq")
_STAMPED_AT_ONCE: Final = 1024  # bounds the size of the structs that `_stamps_struct` caches


def encode_columns(
    envelope: Envelope,
    columns: MessageColumns,
    queue_offsets: Sequence[int],
    physical_offset: int,
    store_timestamp: int,
) -> tuple[bytes, Sequence[int]]:
    """The records of messages, one after the other from ``physical_offset`` on, and their sizes.

    Every record has a stamp unless its properties leave no room for one.
    """
    bodies = columns.bodies
    is_even = type(columns.properties) is UniformProperties and list(map(len, bodies)).count(len(bodies[0])) == len(
        bodies
    )
    encode_all = _encode_uniform if is_even else _encode_mixed
    try:
        return encode_all(envelope, columns, queue_offsets, physical_offset, store_timestamp)
    except struct.error:
        return _encode_each(envelope, columns, queue_offsets, physical_offset, store_timestamp)


def _encode_mixed(
    envelope: Envelope, columns: MessageColumns, queue_offsets: Sequence[int], physical_offset: int, store_ms: int
) -> tuple[bytes, Sequence[int]]:
    magic, topic = topic_field(envelope.topic)
    sys_flag, shared = _shared_fields(envelope, store_ms)
    # Neighbours mostly have equal lengths: the bytes that depend only on lengths are made anew when a length changes.
    body_length = properties_length = -1
    size, before, between = 0, b"", b""
    records: list[bytes] = []
    sizes: list[int] = []
    pack, join, add_record, add_size = _HEAD.pack, b"".join, records.append, sizes.append
    for queue_id, born, flag, body, properties, queue_offset in zip(*columns, queue_offsets, strict=True):
        if len(body) != body_length or len(properties) != properties_length:
            body_length, properties_length = len(body), len(properties)
            before = shared + _INT.pack(body_length)
            between = topic + SHORT.pack(properties_length + STAMP_SIZE)
            size = _HEAD.size + len(before) + body_length + len(between) + properties_length + STAMP_SIZE
        head = pack(size, magic, crc32(body) & CRC_MASK, queue_id, flag, queue_offset, physical_offset, sys_flag, born)
        add_record(join((head, before, body, between, properties)))
        add_size(size)
        physical_offset += size
    return _stamped(records), sizes


def _encode_uniform(
    envelope: Envelope, columns: MessageColumns, queue_offsets: Sequence[int], physical_offset: int, store_ms: int
) -> tuple[bytes, Sequence[int]]:
    queue_ids, births, flags, bodies, properties = columns
    count, body_length, properties_length = len(bodies), len(bodies[0]), len(properties[0])
    magic, topic = topic_field(envelope.topic)
    sys_flag, shared = _shared_fields(envelope, store_ms)
    shared = _FLAG_AND_BIRTH.pack(sys_flag, births[0]) + shared + _INT.pack(body_length)
    between = topic + SHORT.pack(properties_length + STAMP_SIZE)
    record = _record_struct(len(shared), body_length, len(between), properties_length)
    size = record.size + STAMP_SIZE
    records = map(
        record.pack,
        repeat(SIZE_AND_MAGIC.pack(size, magic)),
        [crc & CRC_MASK for crc in map(crc32, bodies)],
        repeat(_QUEUE_AND_FLAG.pack(queue_ids[0], flags[0])),
        queue_offsets,
        range(physical_offset, physical_offset + count * size, size),
        repeat(shared),
        bodies,
        repeat(between),
        properties.texts if isinstance(properties, UniformProperties) else properties,
    )
    return _stamped(list(records)), [size] * count


@lru_cache(256)
def _record_struct(shared: int, body: int, between: int, properties: int) -> struct.Struct:
    """The struct of a record without its stamp."""
    return struct.Struct(f">8sI8sqq{shared}s{body}s{between}s{properties}s")


def _encode_each(
    envelope: Envelope, columns: MessageColumns, queue_offsets: Sequence[int], physical_offset: int, store_ms: int
) -> tuple[bytes, Sequence[int]]:
    """Encode one by one when columns do not pack: without a stamp where it does not fit; a bad number is refused."""
    records: list[bytes] = []
    for queue_id, born, flag, body, properties, queue_offset in zip(*columns, queue_offsets, strict=True):
        draft = Draft(
            envelope.topic,
            queue_id,
            body,
            StoredProperties(properties),
            EpochMs(born),
            envelope.born_host,
            envelope.store_host,
            flag,
            envelope.sys_flag,
            envelope.reconsume_times,
        )
        place = QueueOffset(queue_offset), PhysicalOffset(physical_offset), EpochMs(store_ms)
        records.append(encode(draft, *place, stamped=len(properties) + STAMP_SIZE <= MAX_PROPERTIES_BYTES))
        physical_offset += len(records[-1])
    return b"".join(records), list(map(len, records))


def _shared_fields(envelope: Envelope, store_ms: int) -> tuple[int, bytes]:
    """The sysFlag of all records, and the fields between bornTimestamp and bodyLength as bytes."""
    born_host, store_host = envelope.born_host, envelope.store_host
    sys_flag = envelope.sys_flag & ~HOST_V6_MASK
    if len(born_host) != V4_SIZE:
        sys_flag |= BORN_HOST_V6
    if len(store_host) != V4_SIZE:
        sys_flag |= STORE_HOST_V6
    tries = _TRIES_AND_PREPARED.pack(envelope.reconsume_times, 0)
    return sys_flag, b"".join((born_host, _LONG.pack(store_ms), store_host, tries))


def _stamped(records: Sequence[bytes]) -> bytes:
    """The records, each followed by its stamp, as one bytes object."""
    count = len(records)
    if count > _STAMPED_AT_ONCE:
        starts = range(0, count, _STAMPED_AT_ONCE)
        return b"".join([_stamped(records[start : start + _STAMPED_AT_ONCE]) for start in starts])
    parts = [b""] * (2 * count)
    parts[0::2] = records
    parts[1::2] = _stamps_struct(count).unpack(stamps_of(list(map(crc32, records))))
    return b"".join(parts)


@lru_cache(64)
def _stamps_struct(count: int) -> struct.Struct:
    return struct.Struct(f"{STAMP_SIZE}s" * count)
