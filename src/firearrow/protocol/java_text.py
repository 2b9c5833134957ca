"""Header values as text, read and written as Java does.

Every value in a header travels as a string. Java reads them with ``Integer.parseInt``, ``Long.parseLong``,
``Double.parseDouble`` and ``Boolean.parseBoolean``; the functions here accept what those accept and raise
``ValueError`` for the rest, with one exception: digits beyond ASCII, which Java's integers would take, are refused.
"""

import re
from typing import Final

from firearrow.protocol.conversation import INT32_MAX, INT32_MIN, INT64_MAX, INT64_MIN

_INTEGER: Final = re.compile(r"[+-]?[0-9]{1,4000}", re.ASCII)
_DOUBLE: Final = re.compile(
    r"[\x00-\x20]*[+-]?(?:NaN|Infinity|(?:[0-9]{1,400}\.?[0-9]{0,400}|\.[0-9]{1,400})(?:[eE][+-]?[0-9]{1,10})?[fFdD]?)"
    r"[\x00-\x20]*",
    re.ASCII,
)


def parse_int32(text: str) -> int:
    """``Integer.parseInt``."""
    return _parse_integer(text, INT32_MIN, INT32_MAX)


def parse_int64(text: str) -> int:
    """``Long.parseLong``."""
    return _parse_integer(text, INT64_MIN, INT64_MAX)


def _parse_integer(text: str, least: int, most: int) -> int:
    if _INTEGER.fullmatch(text) is None:
        raise ValueError("it is not an integer")
    value = int(text)
    if not least <= value <= most:
        raise ValueError(f"it is not within {least} and {most}")
    return value


def parse_boolean(text: str) -> bool:
    """``Boolean.parseBoolean``: "true" in any case is true and everything else, "1" included, is false."""
    return text.isascii() and text.lower() == "true"


def parse_double(text: str) -> float:
    """``Double.parseDouble``, hexadecimal forms left out."""
    if _DOUBLE.fullmatch(text) is None:
        raise ValueError("it is not a number")
    return float(text.strip().rstrip("fFdD"))


def java_text(value: object) -> str:
    """Return the text that stands for a header value."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)
