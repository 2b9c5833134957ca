"""A batch whose messages differ in their bodies and in the end of their UNIQ_KEY alone.

Most batches are such: one producer made them in one go, so lengths, flags and properties are the same, and of the keys
only the last digits count up. Such a batch is cut, encoded and made findable a column at a time, by functions of C, and
hardly any Python runs for each of its messages. Everything else is left to `batch`; both make the same records.
"""

import struct
from collections.abc import Sequence
from functools import lru_cache
from itertools import chain
from typing import Final
from zlib import crc32

from msgspec import Struct

from firearrow.errors import IllegalMessage
from firearrow.model import keys
from firearrow.record.encode import Draft, shared_fields
from firearrow.record.layout import CRC_MASK, SHORT, SIZE_AND_MAGIC, Buffer, topic_field
from firearrow.record.stamp import STAMP_SIZE, stamps_of

KEY_END: Final = 8
"""Characters of a UNIQ_KEY in which the messages may differ: what counts up, and most of what tells the time."""
_LONGEST: Final = 65_536
_MOST: Final = 1024
"""A batch of more, or of longer ones, is taken apart one by one: its messages make up for the cost."""
_HEAD = struct.Struct(">iiiii")
_HEAD_SIZE: Final = _HEAD.size
_LENGTH_SIZE: Final = 2
_UNIQ_KEY: Final = keys.UNIQ_KEY.encode() + b"\x01"
_HASH: Final = b"#"[0]
_SEPARATOR: Final = 2
_COLUMNS: Final = 10
_INT = struct.Struct(">i")
_QUEUE_AND_FLAG = struct.Struct(">ii")
_unpack_head = _HEAD.unpack_from


class AlikeProperties(Struct, frozen=True, gc=False):
    """Properties of messages that differ in the end of their UNIQ_KEY alone."""

    before: bytes
    """Up to where they differ: the head of the UNIQ_KEY is the last of it."""
    key_head: bytes
    """What all UNIQ_KEYs begin with."""
    ends: tuple[bytes, ...]
    """The last characters of each UNIQ_KEY, `KEY_END` letters or digits."""
    after: bytes
    """The rest."""

    def of(self, number: int) -> bytes:
        """The properties of one message as they are stored."""
        return self.before + self.ends[number] + self.after


class Alike(Struct, frozen=True, gc=False):
    """The messages of such a batch, by columns."""

    flag: int
    bodies: tuple[bytes, ...]
    properties: AlikeProperties

    def __len__(self) -> int:
        return len(self.bodies)

    def pieces(self) -> list[tuple[int, bytes, bytes]]:
        """The same messages one by one, as `batch.pieces_of` gives them."""
        of = self.properties.of
        return [(self.flag, body, of(number)) for number, body in enumerate(self.bodies)]


def alike_of(batch: Buffer) -> Alike | None:
    """The messages of a client's batch by columns; None when they are not alike, or not plain."""
    if len(batch) < _HEAD_SIZE + _LENGTH_SIZE:
        return None
    size, _, _, flag, body_length = _unpack_head(batch, 0)
    if not 0 <= body_length <= size - _HEAD_SIZE - _LENGTH_SIZE or size > _LONGEST:
        return None
    count, rest = divmod(len(batch), size)
    if rest or not 1 < count <= _MOST:
        return None
    properties = bytes(batch[_HEAD_SIZE + body_length + _LENGTH_SIZE : size])
    key_at, differ_at = _key_of(properties)
    if differ_at < 0:
        return None
    values = _form(count, body_length, _LENGTH_SIZE + differ_at, size).unpack(batch)
    heads, before, ends, after = values[0::5], values[2::5], values[3::5], values[4::5]
    if heads.count(heads[0]) != count or before.count(before[0]) != count or after.count(after[0]) != count:
        return None
    shared = before[0]
    if SHORT.unpack_from(shared)[0] != len(properties) or not b"".join(ends).isalnum():
        return None
    return Alike(
        flag, values[1::5], AlikeProperties(shared[_LENGTH_SIZE:], properties[key_at:differ_at], ends, after[0])
    )


def _key_of(properties: bytes) -> tuple[int, int]:
    """Where a plain UNIQ_KEY begins and where it may differ from others; less than 0 when there is none."""
    at = properties.rfind(_UNIQ_KEY)
    if at < 0 or (at and properties[at - 1] != _SEPARATOR) or properties[-1] != _SEPARATOR or _HASH in properties:
        return -1, -1
    at += len(_UNIQ_KEY)
    end = properties.index(b"\x02", at)
    return (at, end - KEY_END) if end - at >= KEY_END and b"\x01" not in properties[at:end] else (-1, -1)


@lru_cache(64)
def _form(count: int, body_length: int, before: int, size: int) -> struct.Struct:
    after = size - _HEAD_SIZE - body_length - before - KEY_END
    return struct.Struct(">" + f"{_HEAD_SIZE}s{body_length}s{before}s{KEY_END}s{after}s" * count)


@lru_cache(64)
def _record_forms(count: int, shared: int, body: int, before: int, after: int) -> tuple[struct.Struct, struct.Struct]:
    """Records without their stamps, by columns and as wholes."""
    columns = struct.Struct(">" + f"8sI8sqq{shared}s{body}s{before}s{KEY_END}s{after}s" * count)
    return columns, struct.Struct(f"{columns.size // count}s" * count)


@lru_cache(64)
def _stamps_form(count: int) -> struct.Struct:
    return struct.Struct(f"{STAMP_SIZE}s" * count)


def encode_alike(
    alike: Alike, template: Draft, queue_offset: int, physical_offset: int, store_timestamp: int
) -> tuple[bytes, int]:
    """The stamped records, which lie one after the other in the log and in their queue, and the size of each."""
    count = len(alike.bodies)
    magic, topic = topic_field(template.topic)
    properties, body_length = alike.properties, len(alike.bodies[0])
    after = properties.after
    length = len(properties.before) + KEY_END + len(after) + STAMP_SIZE
    try:
        shared = shared_fields(template, store_timestamp) + _INT.pack(body_length)
        before = b"".join((topic, SHORT.pack(length), properties.before))
        columns, wholes = _record_forms(count, len(shared), body_length, len(before), len(after))
        size = columns.size // count + STAMP_SIZE
        # One column after the other: what is alike in all, what counts up, what each has of its own.
        fields: list[object] = [SIZE_AND_MAGIC.pack(size, magic)] * (_COLUMNS * count)
        fields[1::_COLUMNS] = [crc & CRC_MASK for crc in map(crc32, alike.bodies)]
        fields[2::_COLUMNS] = [_QUEUE_AND_FLAG.pack(template.queue_id, alike.flag)] * count
        fields[3::_COLUMNS] = range(queue_offset, queue_offset + count)
        fields[4::_COLUMNS] = range(physical_offset, physical_offset + count * size, size)
        fields[5::_COLUMNS] = [shared] * count
        fields[6::_COLUMNS] = alike.bodies
        fields[7::_COLUMNS] = [before] * count
        fields[8::_COLUMNS] = properties.ends
        fields[9::_COLUMNS] = [after] * count
        records = wholes.unpack(columns.pack(*fields))
    except struct.error as wrong:
        raise IllegalMessage(f"a message of a batch for topic {template.topic!r} does not fit: {wrong}") from wrong
    return stamped(records), size


def stamped(records: Sequence[bytes]) -> bytes:
    """Records, each with its stamp behind it."""
    parts = [b""] * (2 * len(records))
    parts[0::2] = records
    stamps = stamps_of(list(map(crc32, records)))
    step = _MOST * STAMP_SIZE
    some = [stamps[start : start + step] for start in range(0, len(stamps), step)]
    parts[1::2] = chain.from_iterable([_stamps_form(len(each) // STAMP_SIZE).unpack(each) for each in some])
    return b"".join(parts)
