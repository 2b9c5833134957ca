"""The byte layout of a record: the same on disk, in pull answers and in the bodies of requests 39 and 309.

All numbers are big-endian and signed. With both hosts IPv4::

     0 totalSize 4         36 sysFlag 4              72 reconsumeTimes 4
     4 magic 4             40 bornTimestamp 8        76 preparedTransactionOffset 8
     8 bodyCRC 4           48 bornHost 8 | 20        84 bodyLength 4
    12 queueId 4           56 storeTimestamp 8       88 body
    16 flag 4              64 storeHost 8 | 20          topicLength 1 (v1) | 2 (v2)
    20 queueOffset 8                                    topic
    28 physicalOffset 8                                 propertiesLength 2
                                                        properties

A host is 4 or 16 bytes of address and 4 of port; each IPv6 host moves the fields behind it by 12. Version 2 differs
only by its magic and the two-byte topic length, and is used for topics over 127 bytes. bodyCRC is CRC-32 with the top
bit cleared, of the body as stored (compressed or not).

Every file of a commit log ends with a filler of at least 8 bytes: the number of bytes left as an int, the BLANK magic.

Must agree with Java's ``MessageDecoder``, ``MessageVersion``, ``MessageExtEncoder`` and ``CommitLog``.
"""

import struct
from functools import lru_cache
from typing import Final, TypeAlias

from firearrow.errors import IllegalMessage

Buffer: TypeAlias = bytes | bytearray | memoryview

MAGIC_V1: Final = 0xDAA320A7
MAGIC_V2: Final = 0xDAA320AB
BLANK_MAGIC: Final = 0xCBD43194

HEAD_SIZE: Final = 88
"""Bytes before the body when both hosts are IPv4."""
V6_EXTRA: Final = 12
"""Bytes that one IPv6 host adds."""
SMALLEST_RECORD: Final = HEAD_SIZE + 1 + 2
BLANK_SIZE: Final = 8
"""Bytes at the end of every commit log file that are reserved for the filler."""

MAX_TOPIC_BYTES_V1: Final = 127
MAX_TOPIC_BYTES_V2: Final = 32_767
MAX_PROPERTIES_BYTES: Final = 32_767
CRC_MASK: Final = 0x7FFFFFFF

HEAD_V4 = struct.Struct(">iIiiiqqiq8sq8siqi")
SIZE_AND_MAGIC = struct.Struct(">iI")
SHORT = struct.Struct(">h")
HEADS = {
    0x00: HEAD_V4,
    0x10: struct.Struct(">iIiiiqqiq20sq8siqi"),
    0x20: struct.Struct(">iIiiiqqiq8sq20siqi"),
    0x30: struct.Struct(">iIiiiqqiq20sq20siqi"),
}
"""The struct of the head, by the two IPv6 bits of sysFlag."""

TOPICS_REMEMBERED: Final = 65_536
"""Size of the cache; more than any broker has topics, because an LRU cache that is too small misses on every cycle."""


@lru_cache(TOPICS_REMEMBERED)
def topic_field(topic: str) -> tuple[int, bytes]:
    """The magic for a topic of this length, and the topic behind its length. Cached: brokers repeat topics."""
    raw = topic.encode("utf-8", "replace")
    if len(raw) <= MAX_TOPIC_BYTES_V1:
        return MAGIC_V1, bytes((len(raw),)) + raw
    if len(raw) <= MAX_TOPIC_BYTES_V2:
        return MAGIC_V2, SHORT.pack(len(raw)) + raw
    raise IllegalMessage(f"a topic of {len(raw)} bytes fits no record; use at most {MAX_TOPIC_BYTES_V2}")


def blank(remaining: int) -> bytes:
    """The filler for the last ``remaining`` bytes of a commit log file: 8 bytes. The bytes behind them stay."""
    return SIZE_AND_MAGIC.pack(remaining, BLANK_MAGIC)
