"""Frozen nouns: what things are, without any bytes or effects.

The everyday ones are re-exported here; vocabularies stay in their modules: ``flags`` (bits), ``keys`` (property keys),
``names`` (topics and groups), ``delays``, ``versions``, ``java_hash``.
"""

from firearrow.model.message import Address, Message, MessageQueue, StoredMessage
from firearrow.model.units import EpochMs, PhysicalOffset, QueueOffset

__all__ = [
    "Address",
    "EpochMs",
    "Message",
    "MessageQueue",
    "PhysicalOffset",
    "QueueOffset",
    "StoredMessage",
]
