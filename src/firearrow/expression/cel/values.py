"""The values of CEL as Python's: how they are told apart, compared and used as keys. Pure.

An int is an ``int`` of 64 bits, a uint a `Uint`, a double a ``float``; ``None`` is null, and a type is a `TypeValue`.
Numbers are compared by their mathematical values, whatever their types; other values of different types are unequal.
A map is a ``dict``. Python holds True for 1, so a bool is a key as `BoolKey`.
"""

from enum import Enum
from typing import Any, Final

from firearrow.expression.errors import NoValue

MAX_INT: Final = 2**63 - 1
MIN_INT: Final = -(2**63)
MAX_UINT: Final = 2**64 - 1

Value = Any
"""A value of CEL."""


class Uint(int):
    """An unsigned integer of 64 bits."""

    __slots__ = ()


class TypeValue(Enum):
    """A type, which is a value too: ``type(1) == int``."""

    INT = "int"
    UINT = "uint"
    DOUBLE = "double"
    BOOL = "bool"
    STRING = "string"
    BYTES = "bytes"
    LIST = "list"
    MAP = "map"
    NULL = "null_type"
    TYPE = "type"


class BoolKey(Enum):
    """A bool as a key of a map."""

    TRUE = True
    FALSE = False


_TYPES: Final[dict[type, TypeValue]] = {
    int: TypeValue.INT,
    Uint: TypeValue.UINT,
    float: TypeValue.DOUBLE,
    bool: TypeValue.BOOL,
    str: TypeValue.STRING,
    bytes: TypeValue.BYTES,
    list: TypeValue.LIST,
    dict: TypeValue.MAP,
    type(None): TypeValue.NULL,
    TypeValue: TypeValue.TYPE,
}
NUMBERS: Final = frozenset({int, Uint, float})


def type_of(value: Value) -> TypeValue:
    """Return the type of a value."""
    return _TYPES[type(value)]


def checked_int(value: int) -> int:
    """Return an int of 64 bits; raise `NoValue` for an overflow."""
    if MIN_INT <= value <= MAX_INT:
        return value
    raise NoValue("an integer overflows 64 bits")


def checked_uint(value: int) -> Uint:
    """Return a uint of 64 bits; raise `NoValue` for an overflow."""
    if 0 <= value <= MAX_UINT:
        return Uint(value)
    raise NoValue("an unsigned integer overflows 64 bits")


def key_of(value: Value) -> Any:  # noqa: ANN401 - a key of a dict
    """Return a value as a key, to be looked up; raise `NoValue` if it can be none."""
    kind = type(value)
    if kind is str or kind is int or kind is Uint or kind is float:
        return value
    if kind is bool:
        return BoolKey(value)
    raise NoValue(f"a {type_of(value).value} is no key of a map")


def new_key(value: Value) -> Any:  # noqa: ANN401 - a key of a dict
    """Return a value as a key of a map literal, which cannot be a double."""
    if type(value) is float:
        raise NoValue("a double is no key of a map")
    return key_of(value)


def value_of(key: Any) -> Value:  # noqa: ANN401 - a key of a dict
    """Return the value that a key stands for."""
    return key.value if type(key) is BoolKey else key
