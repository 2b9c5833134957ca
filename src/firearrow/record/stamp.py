"""The stamp: a checksum of the whole record, kept as its last property.

RocketMQ's body CRC covers only the body; the stamp detects a flipped bit anywhere in the record. Apache 5.x writes the
same stamp under ``enabledAppendPropCRC`` and checks it under ``forceVerifyPropCRC``. The stamp is the last 20 bytes of
the properties, and so of the record::

    __CRC32#  0x01  ten decimal digits, least significant first, padded with 0  0x02

The number is CRC-32 with the top bit cleared, over the record without those 20 bytes. The totalSize and
propertiesLength inside the summed bytes already count the 20. Must agree with Java's
``MessageDecoder.createCrc32``, ``CommitLog.DefaultAppendMessageCallback`` and
``CommitLog.checkMessageAndReturnSize``.
"""

from typing import Final

from firearrow.model import keys
from firearrow.record.layout import CRC_MASK

STAMP_SIZE: Final = 20
STAMP_KEY: Final = keys.CRC32.encode() + b"\x01"
REVERSED_STAMP: Final = b"\x02%010d" + STAMP_KEY[::-1]
"""The stamp reversed, because its digits go least significant first: format the CRC into this, then reverse it."""
_KEY_END: Final = -STAMP_SIZE + len(STAMP_KEY)


def stamp_of(crc: int) -> bytes:
    """The 20 bytes that stamp a record whose other bytes have this CRC-32."""
    return (REVERSED_STAMP % (crc & CRC_MASK))[::-1]


def stamps_of(crcs: list[int]) -> bytes:
    """The stamps of records with these CRCs, joined."""
    backwards = tuple([crc & CRC_MASK for crc in reversed(crcs)])
    return (REVERSED_STAMP * len(crcs) % backwards)[::-1]


def ends_with_stamp(properties: bytes) -> bool:
    """Whether the last 20 bytes of a record's properties are a stamp, right or wrong.

    Apache's broker glues the stamp to an entry that a client left open (``TAGS 0x01 a __CRC32# 0x01 ...``), and a key
    may happen to end in the stamp's key (``x__CRC32# 0x01 ...``): the first is a stamp, the second is not.
    """
    if properties[-STAMP_SIZE:_KEY_END] != STAMP_KEY or properties.find(b"\x02", _KEY_END) != len(properties) - 1:
        return False
    begins = len(properties) - STAMP_SIZE
    entry = properties.rfind(b"\x02", 0, begins) + 1
    return entry == begins or properties.find(b"\x01", entry, begins) >= 0
