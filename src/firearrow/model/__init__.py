"""The nouns as frozen data: messages, queues, names, flags. No bytes, no effects.

The everyday ones are re-exported here; vocabularies stay in their modules: ``flags`` (bits), ``keys`` (property keys),
``names`` (topics and groups), ``delays``, ``versions``, ``java_hash``.
"""

from firearrow.model.message import Host, Message, MessageQueue, StoredMessage
from firearrow.model.units import EpochMs, PhysicalOffset, QueueOffset

__all__ = [
    "EpochMs",
    "Host",
    "Message",
    "MessageQueue",
    "PhysicalOffset",
    "QueueOffset",
    "StoredMessage",
]
