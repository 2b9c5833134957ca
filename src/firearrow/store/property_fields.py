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
MOST_WORDS: Final = 128
MOST_KEY_BYTES: Final = 4096
"""The bytes of KEYS that are indexed: all of KEYS could be 16,000 words, and 26 ms. Apache's index has no bound."""


def field(properties: bytes, mark: bytes) -> bytes:
    """Return the value of the property whose name and 0x01 are ``mark``, as UTF-8; empty without this property."""
    before, found, after = properties.rpartition(mark)
    if not found:
        return b""
    value = after.partition(b"\x02")[0]
    if not value or (before and before[-1] != SEPARATOR) or 1 in value:
        return decode_properties(properties).get(mark[:-1].decode(), "").encode()
    return value


def indexed_words(words: bytes) -> list[bytes]:
    """The words of KEYS that the index takes: the first `MOST_WORDS` that lie within the first `MOST_KEY_BYTES`."""
    if len(words) > MOST_KEY_BYTES:
        words = words[: MOST_KEY_BYTES + 1].rpartition(b" ")[0]
    return [word for word in words.split(b" ", MOST_WORDS)[:MOST_WORDS] if word]


def has_key(properties: bytes, wanted: bytes) -> bool:
    """Whether ``wanted`` is one of `keys_of`, without making them all."""
    if not wanted or field(properties, UNIQ_KEY_MARK) == wanted:
        return bool(wanted)
    return b" " not in wanted and b" %b " % wanted in b" %b " % field(properties, KEYS_MARK)


def keys_of(properties: bytes) -> list[bytes]:
    """The keys of a message: its UNIQ_KEY, then every word of its KEYS. Not all are indexed: see `indexed_words`."""
    unique = field(properties, UNIQ_KEY_MARK)
    found = [unique] if unique else []
    words = field(properties, KEYS_MARK)
    if words:
        found += [word for word in words.split(b" ") if word]
    return found
