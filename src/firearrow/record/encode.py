"""Encoding one record.

A `Draft` is a record before the log has given it a position: all fields but the two offsets and the store time.
`encode` makes the record with one pack and one join, because its cost is the number of Python operations. The two IPv6
bits of sysFlag follow from the hosts, whatever the producer sent. `encode_columns` makes the same records of many
messages. Must agree with Java's ``MessageExtEncoder`` and ``CommitLog.DefaultAppendMessageCallback``.
"""

import struct
from collections.abc import Callable
from zlib import crc32

from msgspec import Struct

from firearrow.errors import IllegalMessage
from firearrow.model import EpochMs, PhysicalOffset, QueueOffset
from firearrow.model.flags import BORN_HOST_V6, HOST_V6_MASK, STORE_HOST_V6
from firearrow.record.decode import RecordHead
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
_join = b"".join
_BOTH_V4 = 2 * V4_SIZE
_HEAD_WITHOUT_HOSTS = HEAD_SIZE - _BOTH_V4


class Draft(Struct, frozen=True, gc=False):
    """A record without its position. ``body`` is as stored: compressed if ``sys_flag`` says so."""

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

    @classmethod
    def of(
        cls,
        head: RecordHead,
        record: Buffer,
        topic: str,
        queue_id: int,
        properties: StoredProperties,
        *,
        sys_flag: int | None = None,
        prepared: int = 0,
    ) -> "Draft":
        """The draft of a record's message for another queue, with other properties."""
        return cls(
            topic,
            queue_id,
            head.body(record),
            properties,
            head.born_timestamp,
            head.born_host,
            head.store_host,
            head.flag,
            head.sys_flag if sys_flag is None else sys_flag,
            head.reconsume_times,
            PhysicalOffset(prepared),
        )


def encode(
    draft: Draft,
    queue_offset: QueueOffset,
    physical_offset: PhysicalOffset,
    store_timestamp: EpochMs,
    *,
    stamped: bool = True,
) -> bytes:
    """The record of a draft at this position, with a stamp unless ``stamped`` is False."""
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
    # `stamp_of(crc32(record))` inlined; REVERSED_STAMP says why the bytes are reversed.
    return record + (REVERSED_STAMP % (crc32(record) & CRC_MASK))[::-1] if stamped else record


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
