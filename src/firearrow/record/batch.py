"""A client's batch: many messages in one body.

A batch is a concatenation of::

    totalSize 4   magic 4 (0)   bodyCRC 4 (0)   flag 4   bodyLength 4   body   propertiesLength 2   properties

The broker stores each message as a record of its own with consecutive queue offsets (`columns_of`, then
`encode_columns`), except on topics with batch queues, where the whole body becomes one record that consumers split
(`unwrap`). The magic and the CRC inside are ignored, as in Java; sizes must agree with the lengths of the parts. Must
agree with Java's ``MessageDecoder.encodeMessages``, ``MessageExtEncoder.encode(MessageExtBatch)`` and
``MessageDecoder.decodeMessage``.

There are two parsers. `_even` splits a batch whose messages have bodies of one length and properties of one length with
one `struct` for all messages instead of a loop; `_entries` splits any batch. Both find the same messages. A batch is
*uniform* if its messages have one flag and properties of one form (`columns.uniform_properties`): views of the log then
read its properties by columns.
"""

import struct
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Final

from msgspec.structs import replace

from firearrow.errors import BadBody, IllegalMessage
from firearrow.model import Message, QueueOffset, StoredMessage
from firearrow.record.columns import MessageColumns, uniform_properties
from firearrow.record.layout import SHORT, Buffer
from firearrow.record.properties import decode_properties, encode_properties, stored_properties

MAX_BATCH_MESSAGES: Final = 65_536
"""More than a stock client fits into 4 MiB, because every message carries a UNIQ_KEY and takes at least 66 bytes."""

_HEAD = struct.Struct(">iiiii")
_HEAD_SIZE: Final = _HEAD.size
_LENGTH_SIZE: Final = 2
_SMALLEST: Final = _HEAD_SIZE + _LENGTH_SIZE
_HASH: Final = b"#"[0]
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
    flags, bodies, given = _even(batch, max_messages) or _entries(batch, max_messages)
    count = len(flags)
    stored: Sequence[bytes] | None = None
    if count > 1 and flags.count(flags[0]) == count:
        stored = uniform_properties(given)
    if stored is None:
        # `stored_properties` inlined: properties that end with 0x02 and hold no "#" (so no stamp) are stored unchanged.
        stored = [text if text[-1:] == b"\x02" and _HASH not in text else stored_properties(text) for text in given]
    return MessageColumns([queue_id] * count, [born] * count, flags, bodies, stored)


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


def _even(batch: Buffer, max_messages: int) -> tuple[list[int], Sequence[bytes], Sequence[bytes]] | None:
    """As `_entries`, for messages that agree in all but body and properties, and in the lengths of these; else None."""
    if len(batch) < _SMALLEST:
        return None
    size, _, _, flag, body_length = _unpack_head(batch, 0)
    properties_length = size - _SMALLEST - body_length
    if body_length < 0 or properties_length < 0:
        return None
    count, rest = divmod(len(batch), size)
    if rest or not 1 < count <= max_messages:
        return None
    cut = _even_struct(body_length, properties_length)
    heads, bodies, lengths, properties = zip(*cut.iter_unpack(batch), strict=True)
    if heads.count(heads[0]) != count or lengths.count(properties_length) != count:
        return None
    return [flag] * count, bodies, properties


@lru_cache(256)
def _even_struct(body_length: int, properties_length: int) -> struct.Struct:
    return struct.Struct(f">{_HEAD_SIZE}s{body_length}sh{properties_length}s")
