"""The functions and methods of CEL that are offered, but for ``matches`` (see `patterns`). Pure."""

import math
import re
from collections.abc import Callable
from typing import Final

from firearrow.expression.cel.meter import CostMeter
from firearrow.expression.cel.operators import no_overload
from firearrow.expression.cel.values import MAX_INT, MAX_UINT, MIN_INT, Uint, Value, checked_int, checked_uint, type_of
from firearrow.expression.errors import NoValue
from firearrow.expression.steps import CHARACTERS_A_STEP, search_steps

Function = Callable[..., Value]

_INT: Final = re.compile(r"[+-]?[0-9]{1,20}")
_UINT: Final = re.compile(r"[0-9]{1,20}")
_DOUBLE: Final = re.compile(
    r"[+-]?(?:[0-9]+(?:\.[0-9]*)?(?:[eE][+-]?[0-9]+)?|\.[0-9]+(?:[eE][+-]?[0-9]+)?|inf|infinity|nan)", re.IGNORECASE
)
_MOST_NUMBER: Final = 400
_BOOLS: Final = {
    **dict.fromkeys(("true", "True", "TRUE", "t", "1"), True),
    **dict.fromkeys(("false", "False", "FALSE", "f", "0"), False),
}
_SCIENTIFIC_ABOVE: Final = 1e21
_SCIENTIFIC_BELOW: Final = 1e-6


def size(_meter: CostMeter, value: Value) -> int:
    """The characters of a text, the bytes of bytes, the items of a list or the entries of a map."""
    if type(value) in (str, bytes, list, dict):
        return len(value)
    raise no_overload("size", value)


def contains(meter: CostMeter, text: Value, part: Value) -> bool:
    """Whether a text contains another."""
    _check_texts("contains", text, part)
    meter.charge(search_steps(len(text), len(part)))
    return part in text


def starts_with(meter: CostMeter, text: Value, part: Value) -> bool:
    """Whether a text starts with another."""
    _check_texts("startsWith", text, part)
    meter.charge(len(part) // CHARACTERS_A_STEP)
    return bool(text.startswith(part))


def ends_with(meter: CostMeter, text: Value, part: Value) -> bool:
    """Whether a text ends with another."""
    _check_texts("endsWith", text, part)
    meter.charge(len(part) // CHARACTERS_A_STEP)
    return bool(text.endswith(part))


def _check_texts(name: str, text: Value, part: Value) -> None:
    if type(text) is not str or type(part) is not str:
        raise no_overload(name, text, part)


# -- conversions


def to_int(_meter: CostMeter, value: Value) -> int:
    """``int(value)``; a double is cut off towards zero."""
    if type(value) is float:
        if not float(MIN_INT) < value < float(MAX_INT):
            raise NoValue(f"{value} does not fit into an int")
        return int(value)
    if type(value) is str:
        if not _INT.fullmatch(value):
            raise NoValue(f"{value[:100]!r} is not an int")
        return checked_int(int(value))
    if type(value) in (int, Uint):
        return checked_int(int(value))
    raise no_overload("int", value)


def to_uint(_meter: CostMeter, value: Value) -> Uint:
    """``uint(value)``; a double is cut off towards zero."""
    if type(value) is float:
        if not -1 < value < float(MAX_UINT):
            raise NoValue(f"{value} does not fit into a uint")
        return Uint(int(value))
    if type(value) is str:
        if not _UINT.fullmatch(value):
            raise NoValue(f"{value[:100]!r} is not a uint")
        return checked_uint(int(value))
    if type(value) in (int, Uint):
        return checked_uint(int(value))
    raise no_overload("uint", value)


def to_double(_meter: CostMeter, value: Value) -> float:
    """``double(value)``."""
    if type(value) is str:
        if len(value) > _MOST_NUMBER or not _DOUBLE.fullmatch(value):
            raise NoValue(f"{value[:100]!r} is not a double")
        return float(value)
    if type(value) in (int, Uint, float):
        return float(value)
    raise no_overload("double", value)


def to_string(meter: CostMeter, value: Value) -> str:
    """``string(value)``."""
    kind = type(value)
    if kind is str:
        return str(value)
    if kind is bool:
        return "true" if value else "false"
    if kind is int or kind is Uint:
        return str(int(value))
    if kind is float:
        return _spoken(value)
    if kind is bytes:
        meter.charge(len(value) // CHARACTERS_A_STEP)
        try:
            return str(value, "utf-8")
        except UnicodeDecodeError:
            raise NoValue("the bytes are not UTF-8") from None
    raise no_overload("string", value)


def _spoken(value: float) -> str:
    """Return a double as text: the shortest that gives the double again, without ``.0``."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    if value == 0 or _SCIENTIFIC_BELOW <= abs(value) < _SCIENTIFIC_ABOVE:
        text = format(value, "f") if "e" in repr(value) else repr(value)
        return text.removesuffix(".0")
    mantissa, _, exponent = repr(value).partition("e")
    return f"{mantissa.removesuffix('.0')}e{exponent[0]}{exponent[1:].zfill(2)}"


def to_bool(_meter: CostMeter, value: Value) -> bool:
    """``bool(value)``, of a bool or a text."""
    if type(value) is bool:
        return bool(value)
    if type(value) is str:
        if value in _BOOLS:
            return _BOOLS[value]
        raise NoValue(f"{value[:100]!r} is not a bool")
    raise no_overload("bool", value)


def to_bytes(meter: CostMeter, value: Value) -> bytes:
    """``bytes(value)``, of a text as UTF-8."""
    if type(value) is bytes:
        return bytes(value)
    if type(value) is str:
        meter.charge(len(value) // CHARACTERS_A_STEP)
        try:
            return bytes(value, "utf-8")
        except UnicodeEncodeError:
            raise NoValue("the text is not valid Unicode") from None
    raise no_overload("bytes", value)


def dyn(_meter: CostMeter, value: Value) -> Value:
    """``dyn(value)``: the value; types are not checked before the evaluation here."""
    return value


def kind_of(_meter: CostMeter, value: Value) -> Value:
    """``type(value)``."""
    return type_of(value)


FUNCTIONS: Final[dict[tuple[str, int], Function]] = {
    ("size", 1): size,
    ("int", 1): to_int,
    ("uint", 1): to_uint,
    ("double", 1): to_double,
    ("string", 1): to_string,
    ("bool", 1): to_bool,
    ("bytes", 1): to_bytes,
    ("dyn", 1): dyn,
    ("type", 1): kind_of,
}
"""The functions, by name and number of arguments."""

METHODS: Final[dict[tuple[str, int], Function]] = {
    ("size", 1): size,
    ("contains", 2): contains,
    ("startsWith", 2): starts_with,
    ("endsWith", 2): ends_with,
}
"""The methods, by name and number of arguments with the value that they are called on."""
