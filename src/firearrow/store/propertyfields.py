"""Single values out of a record's properties, without taking all of them apart.

Dispatch wants two or three values of every message, and looking for ``key 0x01`` costs two tenths of a microsecond.
Whenever what is found is not plainly the last entry of that key, the properties are read in full, so the answer is
always that of `record.properties.decode_properties`. Pure.
"""

from typing import Final

from firearrow.model import keys
from firearrow.record.properties import decode_properties

TAGS_MARK: Final = keys.TAGS.encode() + b"\x01"
KEYS_MARK: Final = keys.KEYS.encode() + b"\x01"
UNIQ_KEY_MARK: Final = keys.UNIQ_KEY.encode() + b"\x01"
DELAY_MARK: Final = keys.DELAY.encode() + b"\x01"

SEPARATOR: Final = 2


def field(properties: bytes, mark: bytes) -> bytes:
    """The value of the key that ``mark`` names, as UTF-8; empty when there is none."""
    before, found, after = properties.rpartition(mark)
    if not found:
        return b""
    value = after.partition(b"\x02")[0]
    if not value or (before and before[-1] != SEPARATOR) or b"\x01" in value:
        return decode_properties(properties).get(mark[:-1].decode(), "").encode()
    return value


def keys_of(properties: bytes) -> list[bytes]:
    """The keys that a message is indexed by: its UNIQ_KEY, then every word of its KEYS."""
    unique = field(properties, UNIQ_KEY_MARK)
    found = [unique] if unique else []
    words = field(properties, KEYS_MARK)
    if words:
        found += [word for word in words.split(b" ") if word]
    return found
