"""The operators of CEL: arithmetic with checked 64-bit integers, equality, order, ``in`` and ``[]``. Pure.

Every function takes the meter of the evaluation and values, and raises `NoValue` where CEL has an error. An operation
whose time depends on the length of its values charges the meter for it.
"""

import math
from collections.abc import Callable
from typing import Any, Final

from firearrow.expression.cel.meter import ITEMS_A_STEP, CostMeter
from firearrow.expression.cel.values import (
    NUMBERS,
    Uint,
    Value,
    checked_int,
    checked_uint,
    key_of,
    type_of,
    value_of,
)
from firearrow.expression.errors import NoValue
from firearrow.expression.steps import CHARACTERS_A_STEP

Operator = Callable[..., Value]

_ORDERED: Final = frozenset({str, bytes, bool})


def no_overload(name: str, *values: Value) -> NoValue:
    """Return the error for values of types that an operator or function does not take."""
    kinds = ", ".join(type_of(value).value for value in values)
    return NoValue(f"{name} does not take {kinds}")


def equal(meter: CostMeter, left: Value, right: Value) -> bool:
    """Whether two values are equal; values of different types are not, numbers are compared by value."""
    kind, other = type(left), type(right)
    if kind in NUMBERS and other in NUMBERS:
        return bool(left == right)
    if kind is not other:
        return False
    if kind is list:
        return len(left) == len(right) and _all_equal(meter, left, right)
    if kind is dict:
        return len(left) == len(right) and _maps_equal(meter, left, right)
    if kind is str or kind is bytes:
        meter.charge(min(len(left), len(right)) // CHARACTERS_A_STEP)
    return bool(left == right)


def _all_equal(meter: CostMeter, left: list[Value], right: list[Value]) -> bool:
    for one, other in zip(left, right, strict=True):
        meter.charge(1)
        if not equal(meter, one, other):
            return False
    return True


def _maps_equal(meter: CostMeter, left: dict[Any, Value], right: dict[Any, Value]) -> bool:
    for key, value in left.items():
        meter.charge(1)
        if key not in right or not equal(meter, value, right[key]):
            return False
    return True


def unequal(meter: CostMeter, left: Value, right: Value) -> bool:
    """Whether two values are not equal."""
    return not equal(meter, left, right)


def below(meter: CostMeter, left: Value, right: Value) -> bool:
    """``<``."""
    left, right = _in_order(meter, left, right)
    return bool(left < right)


def at_most(meter: CostMeter, left: Value, right: Value) -> bool:
    """``<=``."""
    left, right = _in_order(meter, left, right)
    return bool(left <= right)


def above(meter: CostMeter, left: Value, right: Value) -> bool:
    """``>``."""
    left, right = _in_order(meter, left, right)
    return bool(left > right)


def at_least(meter: CostMeter, left: Value, right: Value) -> bool:
    """``>=``."""
    left, right = _in_order(meter, left, right)
    return bool(left >= right)


def _in_order(meter: CostMeter, left: Value, right: Value) -> tuple[Value, Value]:
    """Return two values that can be ordered, in a form that Python orders as CEL does."""
    kind, other = type(left), type(right)
    if kind in NUMBERS and other in NUMBERS:
        if kind is not other and (kind is float or other is float):
            return float(left), float(right)  # the specification orders an int and a double as doubles
        return left, right
    if kind is not other or kind not in _ORDERED:
        raise NoValue(f"a {type_of(left).value} and a {type_of(right).value} have no order")
    if kind is not bool:
        meter.charge(min(len(left), len(right)) // CHARACTERS_A_STEP)
    return left, right


def contained(meter: CostMeter, item: Value, container: Value) -> bool:
    """``in``: whether a list has an item, or a map a key."""
    if type(container) is dict:
        return key_of(item) in container
    if type(container) is not list:
        raise no_overload("in", item, container)
    for each in container:
        meter.charge(1)
        if equal(meter, each, item):
            return True
    return False


def indexed(_meter: CostMeter, container: Value, index: Value) -> Value:
    """``[]``: an item of a list, or the value of a key."""
    if type(container) is dict:
        key = key_of(index)
        if key not in container:
            raise NoValue(f"the map has no key {index if type(index) is not str else repr(index[:100])}")
        return container[key]
    if type(container) is not list or type(index) not in NUMBERS:
        raise no_overload("[]", container, index)
    if not 0 <= index < len(container) or index != int(index):
        raise NoValue(f"index {index} is not in a list of {len(container)}")
    return container[int(index)]


def selected(operand: Value, field: str) -> Value:
    """``operand.field``."""
    if type(operand) is not dict:
        raise NoValue(f"a {type_of(operand).value} has no fields")
    try:
        return operand[field]
    except KeyError:
        raise NoValue(f"the map has no key {field!r}") from None


def added(meter: CostMeter, left: Value, right: Value) -> Value:
    """``+``: a sum, or texts, bytes or lists one after the other."""
    kind = type(left)
    if kind is not type(right):
        raise no_overload("+", left, right)
    if kind is str or kind is bytes:
        meter.charge((len(left) + len(right)) // CHARACTERS_A_STEP)
        return left + right
    if kind is list:
        meter.charge((len(left) + len(right)) // ITEMS_A_STEP)
        return left + right
    return _sized("+", left, right, left + right if kind in NUMBERS else None)


def subtracted(_meter: CostMeter, left: Value, right: Value) -> Value:
    """``-`` between two values."""
    return _sized("-", left, right, left - right if _are_alike(left, right) else None)


def multiplied(_meter: CostMeter, left: Value, right: Value) -> Value:
    """``*``."""
    return _sized("*", left, right, left * right if _are_alike(left, right) else None)


def divided(_meter: CostMeter, left: Value, right: Value) -> Value:
    """``/``: towards zero for integers; for doubles as IEEE 754 has it."""
    if not _are_alike(left, right):
        raise no_overload("/", left, right)
    if type(left) is float:
        return _float_division(left, right)
    if right == 0:
        raise NoValue("a division by zero")
    quotient = abs(left) // abs(right)
    return _sized("/", left, right, quotient if (left < 0) == (right < 0) else -quotient)


def _float_division(left: float, right: float) -> float:
    if right != 0:
        return left / right
    if left == 0 or math.isnan(left):
        return math.nan
    return math.copysign(math.inf, left) * math.copysign(1, right)


def remainder(_meter: CostMeter, left: Value, right: Value) -> Value:
    """``%``: of integers alone, with the sign of the left one."""
    if not _are_alike(left, right) or type(left) is float:
        raise no_overload("%", left, right)
    if right == 0:
        raise NoValue("a modulus by zero")
    rest = abs(left) % abs(right)
    return _sized("%", left, right, rest if left >= 0 else -rest)


def negated(_meter: CostMeter, value: Value) -> Value:
    """``-`` before a value."""
    if type(value) is float:
        return -value
    if type(value) is int:
        return checked_int(-value)
    raise no_overload("-", value)


def inverted(_meter: CostMeter, value: Value) -> bool:
    """``!``."""
    if type(value) is bool:
        return not value
    raise no_overload("!", value)


def _are_alike(left: Value, right: Value) -> bool:
    return type(left) is type(right) and type(left) in NUMBERS


def _sized(name: str, left: Value, right: Value, result: Any) -> Value:  # noqa: ANN401 - a number of any type
    """Return a number as the type of its operands; None means that they are not numbers of one type."""
    if result is None:
        raise no_overload(name, left, right)
    if type(left) is float:
        return result
    return checked_uint(result) if type(left) is Uint else checked_int(result)


OPERATORS: Final[dict[str, Operator]] = {
    "==": equal,
    "!=": unequal,
    "<": below,
    "<=": at_most,
    ">": above,
    ">=": at_least,
    "in": contained,
    "[]": indexed,
    "+": added,
    "-": subtracted,
    "*": multiplied,
    "/": divided,
    "%": remainder,
    "negate": negated,
    "!": inverted,
}


def has_field(operand: Value, field: str) -> bool:
    """``has(operand.field)``."""
    if type(operand) is not dict:
        raise NoValue(f"a {type_of(operand).value} has no fields")
    return field in operand


def keys_of(container: Value) -> list[Value]:
    """Return what a macro goes through: the items of a list, or the keys of a map."""
    if type(container) is list:
        return container
    if type(container) is dict:
        return [value_of(key) for key in container]
    raise NoValue(f"a macro goes through a list or a map, not a {type_of(container).value}")
