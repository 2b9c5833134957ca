"""Single values of a record's properties, without decoding all of them.

Dispatch needs two or three values of every message, and a search for ``key 0x01`` takes 0.2 us. When the text that is
found is not certainly the last entry of that key, all properties are decoded, so the value is always that of
`record.properties.decode_properties`. Pure.
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
    """The value of the property whose name and 0x01 are ``mark``, as UTF-8; empty when there is none."""
    before, found, after = properties.rpartition(mark)
    if not found:
        return b""
    value = after.partition(b"\x02")[0]
    if not value or (before and before[-1] != SEPARATOR) or 1 in value:
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
