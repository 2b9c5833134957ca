"""The identity of a row, as its message carries it, and the key under which a window knows it. Pure.

A message with property FIREARROW_ROW_ID is stored once in its queue while the window remembers its identity and body,
unless its properties say otherwise:

- FIREARROW_ROW_REPEATS, with any value: the sender wants repeats stored;
- ORIGIN_MESSAGE_ID, DLQ_ORIGIN_MESSAGE_ID or RECONSUME_TIME: a message that was consumed in vain and is sent again.

Messages to retry and dead-letter topics have no identity either, and messages of transactions have none: a half message
that repeats another one is a transaction of its own, with an end of its own.
"""

from collections.abc import Sequence
from hashlib import blake2b
from typing import Final

from firearrow.model import keys, names
from firearrow.model.flags import TRANSACTION_MASK
from firearrow.record.columns import UniformProperties
from firearrow.store.property_fields import field

ROW_ID_MARK: Final = keys.ROW_ID.encode() + b"\x01"
_ROW_REPEATS_MARK: Final = keys.ROW_REPEATS.encode() + b"\x01"
_ORIGIN_MARK: Final = keys.ORIGIN_MESSAGE_ID.encode() + b"\x01"
"""Also the end of the mark of DLQ_ORIGIN_MESSAGE_ID."""
_RECONSUME_MARK: Final = keys.RECONSUME_TIME.encode() + b"\x01"
_ROW_ID: Final = ROW_ID_MARK[:-1]
_STORED_AGAIN: Final = (_ROW_REPEATS_MARK[:-1], _ORIGIN_MARK[:-1], _RECONSUME_MARK[:-1])
LONGEST_KEY: Final = 96
"""Identities of more bytes are remembered by their digest."""
DIGEST_BYTES: Final = 16


def key_of(properties: bytes) -> bytes:
    """Return the key of the identity in stored properties; empty for a message that is stored whenever it is sent."""
    identity = field(properties, ROW_ID_MARK)
    if not identity or _ROW_REPEATS_MARK in properties or _ORIGIN_MARK in properties or _RECONSUME_MARK in properties:
        return b""
    if len(identity) <= LONGEST_KEY:
        return identity
    # No identity holds 0x01, the separator of properties, so a digest is never the key of a short identity.
    return b"\x01" + blake2b(identity, digest_size=DIGEST_BYTES).digest()


def keys_of(properties: Sequence[bytes]) -> Sequence[bytes]:
    """Return the keys of the identities of many messages, as `key_of`."""
    if type(properties) is not UniformProperties:
        return list(map(key_of, properties))
    identities = properties.values.get(_ROW_ID)
    if identities is None or any(name.endswith(_STORED_AGAIN) for name in properties.values):
        return [b""] * len(properties)
    return identities if len(identities[0]) <= LONGEST_KEY else list(map(key_of, properties))


def key_in_queue(key: bytes, topic: str, queue_id: int, life: int) -> bytes:
    """Return the key of an identity among those of all queues, in one life of the topic; empty for an empty key."""
    return b"%b\x01%d\x01%d\x01%b" % (topic.encode(), queue_id, life, key) if key else b""


def has_windows(topic: str, sys_flag: int) -> bool:
    """Whether messages of a topic, with this sysFlag, may be rows at all."""
    return not (sys_flag & TRANSACTION_MASK or topic.startswith((names.RETRY_PREFIX, names.DLQ_PREFIX)))


def hold_rows(properties: Sequence[bytes]) -> bool:
    """Whether some of these properties may hold an identity. Costs messages without one as little as possible."""
    if type(properties) is UniformProperties:
        return _ROW_ID in properties.values
    return ROW_ID_MARK in b"".join(properties)
