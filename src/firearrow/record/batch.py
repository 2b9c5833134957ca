"""A client's batch: many messages in one body.

A batch is a concatenation of::

    totalSize 4   magic 4 (0)   bodyCRC 4 (0)   flag 4   bodyLength 4   body   propertiesLength 2   properties

The broker stores each message as a record of its own with consecutive queue offsets (`columns_of`, then
`encode_columns`), except on topics with batch queues, where the whole body becomes one record that consumers split
(`unwrap`). The magic and the CRC inside are ignored, as in Java; sizes must agree with the lengths of the parts. Must
agree with Java's ``MessageDecoder.encodeMessages``, ``MessageExtEncoder.encode(MessageExtBatch)`` and
``MessageDecoder.decodeMessage``.

There are two parsers. `_uniform` splits a uniform batch (messages that differ only in body and in the end of UNIQ_KEY)
with one `struct` for all messages instead of a loop; `_entries` splits any batch. Both find the same messages.
"""

import struct
from collections.abc import Iterable
from functools import lru_cache
from typing import Final

from msgspec.structs import replace

from firearrow.errors import BadBody, IllegalMessage
from firearrow.model import Message, QueueOffset, StoredMessage, keys
from firearrow.record.columns import MessageColumns, UniformProperties
from firearrow.record.layout import SHORT, Buffer
from firearrow.record.properties import decode_properties, encode_properties, stored_properties

MAX_BATCH_MESSAGES: Final = 65_536
"""More than a stock client fits into 4 MiB, because every message carries a UNIQ_KEY and takes at least 66 bytes."""
KEY_END: Final = 8
"""Characters of a UNIQ_KEY in which messages of a uniform batch may differ: 4 of the counter, 4 of the time."""

_HEAD = struct.Struct(">iiiii")
_HEAD_SIZE: Final = _HEAD.size
_LENGTH_SIZE: Final = 2
_SMALLEST: Final = _HEAD_SIZE + _LENGTH_SIZE
_LONGEST_UNIFORM: Final = 65_536
_MOST_UNIFORM: Final = 1024
"""Batches of more or longer messages go to `_entries`: cached structs stay small, and a long message hides the loop."""
_UNIQ_KEY: Final = keys.UNIQ_KEY.encode() + b"\x01"
_HASH: Final = b"#"[0]
_SEPARATOR: Final = 2
_unpack_head = _HEAD.unpack_from
_unpack_short = SHORT.unpack_from


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


def columns_of(batch: Buffer, queue_id: int, born: int, *, max_messages: int = MAX_BATCH_MESSAGES) -> MessageColumns:
    """The messages of a client's batch, all with this queue and this birth, by columns."""
    uniform = _uniform(batch, queue_id, born)
    if uniform is not None and len(uniform.bodies) <= max_messages:
        return uniform
    flags, bodies, given = _entries(batch, max_messages)
    # `stored_properties` inlined: properties that end with 0x02 and hold no "#" (so no stamp) are stored unchanged.
    stored = [text if text[-1:] == b"\x02" and _HASH not in text else stored_properties(text) for text in given]
    return MessageColumns([queue_id] * len(flags), [born] * len(flags), flags, bodies, stored)


def decode_batch(batch: Buffer, topic: str, *, max_messages: int = MAX_BATCH_MESSAGES) -> list[Message]:
    """The messages of a client's batch."""
    return [
        Message(topic, body, decode_properties(properties), flag)
        for flag, body, properties in zip(*_entries(batch, max_messages), strict=True)
    ]


def unwrap(message: StoredMessage, *, max_messages: int = MAX_BATCH_MESSAGES) -> list[StoredMessage]:
    """The messages of a batch that is stored as one record (`flags.is_wrapped_batch`), by consecutive queue offset."""
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


def _entries(batch: Buffer, max_messages: int) -> tuple[list[int], list[bytes], list[bytes]]:
    """The flags, bodies and properties of a batch, unchanged."""
    raw = bytes(batch)
    limit, start = len(raw), 0
    flags: list[int] = []
    bodies: list[bytes] = []
    properties: list[bytes] = []
    try:
        while start < limit:
            if len(flags) >= max_messages:
                raise BadBody(f"the batch holds more than {max_messages} messages")
            size, _, _, flag, body_length = _unpack_head(raw, start)
            body_start = start + _HEAD_SIZE
            body_end = body_start + body_length
            (properties_length,) = _unpack_short(raw, body_end)
            end = body_end + _LENGTH_SIZE + properties_length
            if body_length < 0 or properties_length < 0 or end > limit or end - start != size:
                raise _disagreement(raw, start, len(flags) + 1)
            flags.append(flag)
            bodies.append(raw[body_start:body_end])
            properties.append(raw[body_end + _LENGTH_SIZE : end])
            start = end
    except struct.error:
        raise _disagreement(raw, start, len(flags) + 1) from None
    return flags, bodies, properties


def _disagreement(raw: bytes, start: int, number: int) -> BadBody:
    """The error for the message at ``start``, whose sizes do not agree."""
    left = len(raw) - start
    if left < _SMALLEST:
        return BadBody(f"message {number} of the batch is cut off: {left} bytes are left at byte {start}")
    size, _, _, _, body_length = _unpack_head(raw, start)
    if body_length < 0 or _SMALLEST + body_length > left:
        return BadBody(f"message {number} of the batch, at byte {start}, has a body of {body_length} bytes")
    (properties_length,) = _unpack_short(raw, start + _HEAD_SIZE + body_length)
    return BadBody(
        f"message {number} of the batch says it has {size} bytes, {properties_length} of them properties; "
        f"its parts take {_SMALLEST + body_length + properties_length}, and {left} are left at byte {start}"
    )


def _uniform(batch: Buffer, queue_id: int, born: int) -> MessageColumns | None:
    """The messages of a uniform batch; None when the batch is not uniform, or its properties need `_entries`."""
    if len(batch) < _SMALLEST:
        return None
    size, _, _, flag, body_length = _unpack_head(batch, 0)
    if not 0 <= body_length <= size - _SMALLEST or size > _LONGEST_UNIFORM:
        return None
    count, rest = divmod(len(batch), size)
    if rest or not 1 < count <= _MOST_UNIFORM:
        return None
    properties = bytes(batch[_SMALLEST + body_length : size])
    key_at, differ_at = _key_of(properties)
    if differ_at < 0:
        return None
    # One unpack gives five values for each message, so the slice [n::5] is column n: 0 head, 1 body, 2 properties
    # before the end of the key, 3 the end of the key, 4 properties after it.
    values = _uniform_struct(count, body_length, _LENGTH_SIZE + differ_at, size).unpack(batch)
    heads, before, ends, after = values[0::5], values[2::5], values[3::5], values[4::5]
    if heads.count(heads[0]) != count or before.count(before[0]) != count or after.count(after[0]) != count:
        return None
    shared = before[0]
    if _unpack_short(shared)[0] != len(properties) or not b"".join(ends).isalnum():
        return None
    uniform = UniformProperties(shared[_LENGTH_SIZE:], properties[key_at:differ_at], ends, after[0])
    return MessageColumns([queue_id] * count, [born] * count, [flag] * count, values[1::5], uniform)


def _key_of(properties: bytes) -> tuple[int, int]:
    """Where the UNIQ_KEY begins and where its last `KEY_END` characters begin; -1 twice when there is no such key."""
    at = properties.rfind(_UNIQ_KEY)
    if at < 0 or (at and properties[at - 1] != _SEPARATOR) or properties[-1] != _SEPARATOR or _HASH in properties:
        return -1, -1
    at += len(_UNIQ_KEY)
    end = properties.index(b"\x02", at)
    return (at, end - KEY_END) if end - at >= KEY_END and b"\x01" not in properties[at:end] else (-1, -1)


@lru_cache(64)
def _uniform_struct(count: int, body_length: int, before: int, size: int) -> struct.Struct:
    after = size - _HEAD_SIZE - body_length - before - KEY_END
    return struct.Struct(">" + f"{_HEAD_SIZE}s{body_length}s{before}s{KEY_END}s{after}s" * count)
