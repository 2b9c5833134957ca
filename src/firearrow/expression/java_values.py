"""Values of SQL92 expressions as Java has them, and how Java compares them. Pure.

A value is None (null), a text, a boolean, an ``Integer`` (Python's int), a ``Long`` (`Long`) or a ``Double`` (float).
A text that is compared with a number becomes a number of the same type first, so ``'3000000000'`` has no value beside
an ``Integer``. Java: ``ComparisonExpression.__compare``, ``Integer.valueOf``, ``Double.valueOf``.
"""

import re
from functools import cache
from math import copysign, inf, isnan
from typing import Final

from firearrow.expression.errors import NoValue


class Long(int):
    """A number of 64 bits: a literal beyond 32 bits, or its negation."""


Number = int | float
Value = str | bool | Number | None

INTEGER_BITS: Final = 31
LONG_BITS: Final = 63
_MOST_DIGITS: Final = 19
_SIGNS: Final = ("+", "-")
_DIGITS: Final = re.compile(r"\d*")
# No digit can be taken by two parts of a pattern: a match takes time by the length of the text, not by its square.
_DECIMAL: Final = re.compile(r"([+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)[fFdD]?")
_HEXADECIMAL: Final = re.compile(
    r"([+-]?0[xX](?:[0-9a-fA-F]+(?:\.[0-9a-fA-F]*)?|\.[0-9a-fA-F]+)[pP][+-]?[0-9]+)[fFdD]?"
)
_WORDS: Final = {
    sign + word: -value if sign == "-" else value
    for word, value in (("NaN", float("nan")), ("Infinity", inf))
    for sign in ("", "+", "-")
}
_SPACE: Final = "".join(map(chr, range(0x21)))


def whole(text: str, bits: int) -> int:
    """Return a text as ``Integer.valueOf`` (31 bits) or ``Long.valueOf`` (63 bits) reads it; raise `NoValue`."""
    if len(text) < 10 and text.isascii() and text.isdigit():
        return int(text)
    digits = text[1:] if text[:1] in _SIGNS else text
    short = digits.lstrip("0" if text.isascii() else _zeros())
    if not digits or len(short) > _MOST_DIGITS or not _DIGITS.fullmatch(short) or max(short, default="") > "\uffff":
        raise NoValue(f"{text[:60]!r} is not a whole number of {bits + 1} bits")
    number = int(text[: len(text) - len(digits)] + (short or "0"))
    if not -(1 << bits) <= number < 1 << bits:
        raise NoValue(f"{text!r:.60} does not fit into {bits + 1} bits")
    return number


@cache
def _zeros() -> str:
    """Return the digits 0 of all scripts that Java's ``char`` holds."""
    return "".join(digit for code in range(0x10000) if (digit := chr(code)).isdecimal() and int(digit) == 0)


def double(text: str) -> float:
    """Return a text as ``Double.valueOf`` reads it; raise `NoValue`."""
    text = text.strip(_SPACE)
    found = _DECIMAL.fullmatch(text)
    if found is not None:
        return float(found[1])
    word = _WORDS.get(text)
    if word is not None:
        return word
    found = _HEXADECIMAL.fullmatch(text)
    if found is None:
        raise NoValue(f"{text!r:.60} is not a number")
    try:
        return float.fromhex(found[1])
    except OverflowError:
        return -inf if text.startswith("-") else inf


def truth(text: str) -> bool:
    """Return a text as ``Boolean.valueOf`` reads it: everything but ``true`` is false."""
    return len(text) == len("true") and text.lower() == "true"


def compare_doubles(left: float, right: float) -> int:
    """Compare as ``Double.compareTo``: NaN is the greatest and equal to itself, -0.0 is below 0.0."""
    if left < right:
        return -1
    if left > right:
        return 1
    if left == right:
        return 0 if left else int(copysign(1, left) - copysign(1, right))
    return int(isnan(left)) - int(isnan(right))


def compare(left: str | bool | float, right: str | bool | float) -> int:
    """Compare two values, none of them null, as Java does; values that cannot be compared give -1 or `NoValue`."""
    if type(left) is type(right):
        return _compare_same(left, right)
    if isinstance(left, bool):
        if isinstance(right, str):
            raise NoValue("a boolean on the left cannot be compared with a text")  # Java: ClassCastException
        return -1
    if isinstance(right, bool):
        return _order(truth(left), right) if isinstance(left, str) else -1
    if isinstance(left, str):
        return _compare_same(as_type_of(left, right), right)  # type: ignore[arg-type]  # right is a number
    if isinstance(right, str):
        return _compare_same(left, as_type_of(right, left))
    if isinstance(left, float) or isinstance(right, float):
        return compare_doubles(float(left), float(right))
    return _order(left, right)


def as_type_of(text: str, number: Number) -> Number:
    """Return a text as a number of the type of another number; raise `NoValue`."""
    if isinstance(number, float):
        return double(text)
    return whole(text, LONG_BITS if isinstance(number, Long) else INTEGER_BITS)


def _compare_same(left: str | float, right: str | float) -> int:
    if isinstance(left, float) and isinstance(right, float):
        return compare_doubles(left, right)
    return _order(left, right)


def _order(left: str | float, right: str | float) -> int:
    return (left > right) - (left < right)  # type: ignore[operator]
