"""Messages that came together become records: what `encode` does with each, without a draft of each.

They share what a `Draft` says but for queue, birth, body and properties. Must agree with `encode`.
"""

import struct
from collections.abc import Sequence
from itertools import accumulate
from typing import NamedTuple
from zlib import crc32

from firearrow.errors import IllegalMessage
from firearrow.record.alike import stamped
from firearrow.record.encode import Draft, head_of
from firearrow.record.layout import CRC_MASK, MAX_PROPERTIES_BYTES, SHORT, topic_field
from firearrow.record.stamp import STAMP_SIZE


class Together(NamedTuple):
    """Messages of one topic, by columns. ``properties`` are as stored."""

    queue_ids: Sequence[int]
    born: Sequence[int]
    bodies: Sequence[bytes]
    properties: Sequence[bytes]


def encode_together(
    shared: Draft, messages: Together, queue_offsets: Sequence[int], physical_offset: int, store_timestamp: int
) -> tuple[bytes, list[int]]:
    """The records of messages one behind the other, and their sizes."""
    magic, topic = topic_field(shared.topic)
    pack, fixed, sys_flag = head_of(shared)
    fixed += len(topic) + 2 + STAMP_SIZE
    sizes = [fixed + len(body) + len(some) for body, some in zip(messages.bodies, messages.properties, strict=True)]
    places = accumulate(sizes, initial=physical_offset)
    flag, born_host, store_host = shared.flag, shared.born_host, shared.store_host
    tries, prepared = shared.reconsume_times, shared.prepared_transaction_offset
    join, short = b"".join, SHORT.pack
    records: list[bytes] = []
    try:
        for size, place, queue_offset, queue_id, born, body, properties in zip(
            sizes, places, queue_offsets, *messages, strict=False
        ):
            head = pack(
                size,
                magic,
                crc32(body) & CRC_MASK,
                queue_id,
                flag,
                queue_offset,
                place,
                sys_flag,
                born,
                born_host,
                store_timestamp,
                store_host,
                tries,
                prepared,
                len(body),
            )
            records.append(join((head, body, topic, short(len(properties) + STAMP_SIZE), properties)))
    except struct.error as wrong:
        longest = max(map(len, messages.properties))
        raise IllegalMessage(
            f"a number of the message for topic {shared.topic!r} does not fit its field, or properties of {longest} "
            f"bytes are over {MAX_PROPERTIES_BYTES}: {wrong}"
        ) from wrong
    return stamped(records), sizes
