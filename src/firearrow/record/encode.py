"""A message becomes a record.

`Draft` is a record that has no place yet: everything but the two offsets and the store time, which only the commit log
knows. `size_of` says what room it needs and `encode` writes it in one go; at a hundred thousand a second the number of
Python operations in `encode` is what counts. The two IPv6 bits of sysFlag follow from the hosts, whatever the producer
sent. Must agree with Java's ``MessageExtEncoder`` and ``CommitLog.DefaultAppendMessageCallback``.
"""

import struct
from collections.abc import Callable
from zlib import crc32

from msgspec import Struct

from firearrow.errors import IllegalMessage
from firearrow.model import EpochMs, PhysicalOffset, QueueOffset
from firearrow.model.flags import BORN_HOST_V6, HOST_V6_MASK, STORE_HOST_V6
from firearrow.record.hosts import V4_SIZE, HostBytes
from firearrow.record.layout import (
    CRC_MASK,
    HEAD_SIZE,
    HEAD_V4,
    HEADS,
    MAX_PROPERTIES_BYTES,
    SHORT,
    Buffer,
    topic_field,
)
from firearrow.record.properties import StoredProperties
from firearrow.record.stamp import REVERSED_STAMP, STAMP_SIZE

_pack_v4 = HEAD_V4.pack
_pack_short = SHORT.pack
_pack_born = struct.Struct(">iq").pack
_pack_long = struct.Struct(">q").pack
_pack_tries = struct.Struct(">iq").pack
_join = b"".join
_BOTH_V4 = 2 * V4_SIZE
_HEAD_WITHOUT_HOSTS = HEAD_SIZE - _BOTH_V4


class Draft(Struct, frozen=True, gc=False):
    """A record without a place. ``body`` is as stored: compressed if ``sys_flag`` says so."""

    topic: str
    queue_id: int
    body: Buffer
    properties: StoredProperties
    born_timestamp: EpochMs
    born_host: HostBytes
    store_host: HostBytes
    flag: int = 0
    sys_flag: int = 0
    reconsume_times: int = 0
    prepared_transaction_offset: PhysicalOffset = PhysicalOffset(0)


def size_of(draft: Draft, *, stamped: bool = True) -> int:
    """How many bytes `encode` will make of the draft."""
    tail = len(topic_field(draft.topic)[1]) + 2 + len(draft.properties) + (STAMP_SIZE if stamped else 0)
    hosts = len(draft.born_host) + len(draft.store_host)
    return _HEAD_WITHOUT_HOSTS + hosts + len(draft.body) + tail


def encode(
    draft: Draft,
    queue_offset: QueueOffset,
    physical_offset: PhysicalOffset,
    store_timestamp: EpochMs,
    *,
    stamped: bool = True,
) -> bytes:
    """The record of a draft at its place, stamped unless told otherwise."""
    magic, topic = topic_field(draft.topic)
    body = draft.body
    properties = draft.properties
    born_host = draft.born_host
    store_host = draft.store_host
    body_length = len(body)
    properties_length = len(properties) + STAMP_SIZE if stamped else len(properties)
    hosts = len(born_host) + len(store_host)
    if hosts == _BOTH_V4:
        pack, sys_flag = _pack_v4, draft.sys_flag & ~HOST_V6_MASK
    else:
        pack, sys_flag = _pack_and_flag(draft)
    try:
        record = _join(
            (
                pack(
                    _HEAD_WITHOUT_HOSTS + hosts + body_length + len(topic) + 2 + properties_length,
                    magic,
                    crc32(body) & CRC_MASK,
                    draft.queue_id,
                    draft.flag,
                    queue_offset,
                    physical_offset,
                    sys_flag,
                    draft.born_timestamp,
                    born_host,
                    store_timestamp,
                    store_host,
                    draft.reconsume_times,
                    draft.prepared_transaction_offset,
                    body_length,
                ),
                body,
                topic,
                _pack_short(properties_length),
                properties,
            )
        )
    except struct.error as wrong:
        raise IllegalMessage(_misfit(draft, properties_length, wrong)) from wrong
    # The stamp is `stamp_of(crc32(record))`, without the call.
    return record + (REVERSED_STAMP % (crc32(record) & CRC_MASK))[::-1] if stamped else record


def shared_fields(template: Draft, store_timestamp: int) -> bytes:
    """What lies between the physical offset and the length of the body, alike in all records of a batch."""
    v6 = len(template.born_host) != V4_SIZE, len(template.store_host) != V4_SIZE
    bits = (BORN_HOST_V6 if v6[0] else 0) | (STORE_HOST_V6 if v6[1] else 0)
    return _join(
        (
            _pack_born(template.sys_flag & ~HOST_V6_MASK | bits, template.born_timestamp),
            template.born_host,
            _pack_long(store_timestamp),
            template.store_host,
            _pack_tries(template.reconsume_times, 0),
        )
    )


def head_of(draft: Draft) -> tuple[Callable[..., bytes], int, int]:
    """What packs the head of a record, its size, and the flags it holds."""
    pack, sys_flag = _pack_and_flag(draft)
    return pack, _HEAD_WITHOUT_HOSTS + len(draft.born_host) + len(draft.store_host), sys_flag


def _pack_and_flag(draft: Draft) -> tuple[Callable[..., bytes], int]:
    bits = 0
    if len(draft.born_host) != V4_SIZE:
        bits |= BORN_HOST_V6
    if len(draft.store_host) != V4_SIZE:
        bits |= STORE_HOST_V6
    return HEADS[bits].pack, draft.sys_flag & ~HOST_V6_MASK | bits


def _misfit(draft: Draft, properties_length: int, wrong: struct.error) -> str:
    if properties_length > MAX_PROPERTIES_BYTES:
        return f"the properties take {properties_length} bytes, more than the {MAX_PROPERTIES_BYTES} of a record"
    return f"a number of the message for topic {draft.topic!r} does not fit its field: {wrong}"
