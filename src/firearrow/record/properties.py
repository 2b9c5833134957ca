"""Properties as bytes: ``key 0x01 value 0x02 key 0x01 value 0x02 ...``.

The last 0x02 may be missing (4.9 leaves it out). There is no escaping, so a separator inside a key or a value would
forge another property: encoding refuses such a text. Decoding must accept what Java consumers accept, so it agrees with
``MessageDecoder.string2messageProperties``: entries without a key or a value are skipped, the last of equal keys wins,
and bytes that are not UTF-8 become U+FFFD.
"""

from collections.abc import Mapping
from typing import Final, NewType

from firearrow.errors import IllegalMessage
from firearrow.record.layout import MAX_PROPERTIES_BYTES
from firearrow.record.stamp import STAMP_KEY, STAMP_SIZE, ends_with_stamp

StoredProperties = NewType("StoredProperties", bytes)
"""Properties fit for a record: closed by 0x02 unless empty, and without a stamp. Made by `stored_properties`."""

_HASH: Final = ord("#")
_SEPARATOR: Final = 2


def parse_properties(text: str) -> dict[str, str]:
    """The properties in a text as requests carry it."""
    properties = {}
    for entry in text.split("\x02"):
        key, _, value = entry.partition("\x01")
        if key and value:
            properties[key] = value
    return properties


def decode_properties(raw: bytes) -> dict[str, str]:
    """The properties in a record's bytes, without the stamp."""
    return parse_properties(without_stamps(raw).decode("utf-8", "replace"))


def format_properties(properties: Mapping[str, str]) -> str:
    """The text that requests carry; the reverse of `parse_properties`."""
    text = "".join([f"{key}\x01{value}\x02" for key, value in properties.items()])
    if text.count("\x01") != len(properties) or text.count("\x02") != len(properties) or "\x00" in text:
        raise IllegalMessage(_forgery(properties))
    return text


def _forgery(properties: Mapping[str, str]) -> str:
    for key, value in properties.items():
        if any(separator in key + value for separator in "\x00\x01\x02"):
            return f"property {key!r} holds a character 0, 1 or 2, which RocketMQ cannot store; encode it first"
    raise AssertionError("the number of separators is wrong, but no property holds one")


def stored_properties(text: str | bytes) -> StoredProperties:
    """Properties of a request, ready for a record: any stamp removed, the last entry closed."""
    raw = _utf8(text) if isinstance(text, str) else text
    raw = without_stamps(raw)
    if raw and raw[-1] != _SEPARATOR:
        raw += b"\x02"
    if len(raw) > MAX_PROPERTIES_BYTES:
        raise IllegalMessage(f"the properties take {len(raw)} bytes, more than the {MAX_PROPERTIES_BYTES} allowed")
    return StoredProperties(raw)


def _utf8(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-8", "replace")  # a lone surrogate becomes "?", as in Java


def without_stamps(raw: bytes) -> bytes:
    """The properties without any stamp: the record's own, or one left over from a record that was written again."""
    if _HASH not in raw or STAMP_KEY not in raw:
        return raw
    if ends_with_stamp(raw) and raw.find(STAMP_KEY) == len(raw) - STAMP_SIZE:
        return raw[:-STAMP_SIZE]
    kept = [_unglued(entry) + b"\x02" for entry in raw.split(b"\x02") if entry and not entry.startswith(STAMP_KEY)]
    return b"".join(kept)


def _unglued(entry: bytes) -> bytes:
    glued = -STAMP_SIZE + 1
    while entry[glued : glued + len(STAMP_KEY)] == STAMP_KEY and b"\x01" in entry[:glued]:
        entry = entry[:glued]
    return entry


def encode_properties(properties: Mapping[str, str]) -> StoredProperties:
    """Properties as bytes, ready for a record."""
    return stored_properties(format_properties(properties))
