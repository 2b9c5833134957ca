"""Parsed JSON -> values of a schema's columns: a converter for every type, made once. Pure, but for Spark's types.

A converter takes a JSON value and returns what Arrow takes for its column, or raises `Misfit`. Nothing is made null to
fit, and nothing is rounded or cut, but for two types: a float or double is the nearest one to the number, and a time is
cut to microseconds, the finest that Spark has. Fields that the schema does not have go to the `Rest`, at their place.

| column | JSON |
|---|---|
| boolean | true, false |
| byte, short, int, long | an integer within the type's range |
| float, double | a number within the type's range, or "NaN", "Infinity", "-Infinity" |
| decimal(p, s) | a number, or a text of one, that needs no more digits than the column has |
| string | a text; another value as its JSON |
| binary | a text in base64 |
| date, timestamp, timestamp_ntz | a text by ISO 8601; for timestamps also an integer: seconds since 1970 |
| struct, array, map | an object, an array, an object |
"""

import base64
import binascii
import json
import math
import re
import struct
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from decimal import Context, Decimal
from typing import Any, Final

from pyspark.errors import ParseException
from pyspark.sql import types as T  # noqa: N812 - the name everyone uses

from firearrow.errors import SettingsError
from firearrow.spark.bodies.misfit import Misfit, shown
from firearrow.spark.bodies.strict_json import Json, NumberText, text_of
from firearrow.spark.explanation import explain

Rest = dict[str, Json]
Convert = Callable[[Json, Rest], Any]
"""A JSON value, and where unknown fields inside it go -> a value of the column."""

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_BITS: Final[dict[type[T.DataType], int]] = {T.ByteType: 8, T.ShortType: 16, T.IntegerType: 32, T.LongType: 64}
_NO_NUMBERS: Final = ("NaN", "Infinity", "-Infinity")
_NUMBER: Final = re.compile(r"-?\d+(\.\d+)?([eE][+-]?\d+)?")
_DATE: Final = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
_TIME: Final = re.compile(r"\d{4}-\d\d-\d\d([Tt ]|$)", re.ASCII)
_EXACT: Final = Context(prec=76)
_INSIDE: Final = ""
"""Under which name an element of an array, or a value of a map, leaves its unknown fields."""


def schema_of(ddl: str) -> T.StructType:
    """The schema of bodies from Spark's DDL, for which a session is needed, or from Spark's JSON."""
    if ddl.lstrip().startswith("{"):
        return T.StructType.fromJson(json.loads(ddl))
    try:
        found = T.StructType.fromDDL(ddl)
    except ParseException as wrong:
        raise SettingsError(
            f"the schema of bodies (--body-schema) is {ddl!r}, which Spark does not understand: "
            f"{explain(wrong).text} Write fields with their types, as 'id long, item string'"
        ) from wrong
    if not isinstance(found, T.StructType):
        raise SettingsError(f"the schema of bodies is {ddl!r}; it takes fields, as 'id long, item string'")
    return found


def fields(schema: T.StructType, path: str = "") -> Convert:
    """The converter of an object to a tuple of its columns' values."""
    made = [(field.name, _field(field, f"{path}{field.name}")) for field in schema.fields]
    names = frozenset(schema.fieldNames())

    def convert(value: Json, rest: Rest) -> tuple[Any, ...]:
        if type(value) is not dict:
            raise Misfit(f"{_called(path)} is {_kind(value)}, not an object")
        if not names >= value.keys():
            rest.update({name: inner for name, inner in value.items() if name not in names})
        return tuple([get(value.get(name), rest) for name, get in made])

    return convert


def _called(path: str) -> str:
    return f"field {path[:-1]}" if path else "the body"


def _field(field: T.StructField, path: str) -> Convert:
    return _nullable(_converter(field.dataType, path, field.name), field.nullable, f"field {path}")


def _nullable(convert: Convert, nullable: bool, called: str) -> Convert:
    def check(value: Json, rest: Rest) -> Any:  # noqa: ANN401 - of any column
        if value is None:
            if nullable:
                return None
            raise Misfit(f"{called} must not be null or missing")
        return convert(value, rest)

    return check


def _converter(kind: T.DataType, path: str, name: str) -> Convert:
    if isinstance(kind, T.StructType):
        return _struct(kind, path, name)
    if isinstance(kind, T.ArrayType):
        return _array(kind, path, name)
    if isinstance(kind, T.MapType):
        return _map(kind, path, name)
    if isinstance(kind, T.DecimalType):
        return _decimal(kind, path)
    if type(kind) in _BITS:
        return _integer(_BITS[type(kind)], path)
    plain = _PLAIN.get(type(kind))
    if plain is None:
        raise SettingsError(
            f"field {path} has type {kind.simpleString()}, which bodies are not read as; use string and cast it"
        )
    return plain(path)


def _struct(kind: T.StructType, path: str, name: str) -> Convert:
    inner = fields(kind, f"{path}.")
    names = kind.fieldNames()

    def convert(value: Json, rest: Rest) -> dict[str, Any]:
        unknown: Rest = {}
        made = dict(zip(names, inner(value, unknown), strict=True))
        if unknown:
            rest[name] = unknown
        return made

    return convert


def _array(kind: T.ArrayType, path: str, name: str) -> Convert:
    element_of = _converter(kind.elementType, f"{path}.element", _INSIDE)
    inner = _nullable(element_of, kind.containsNull, f"an element of field {path}")

    def convert(value: Json, rest: Rest) -> list[Any]:
        if type(value) is not list:
            raise _wrong(path, "an array", value)
        made, unknown = [], {}
        for number, element in enumerate(value):
            left: Rest = {}
            made.append(inner(element, left))
            if left:
                unknown[str(number)] = left[_INSIDE]
        if unknown:
            rest[name] = unknown
        return made

    return convert


def _map(kind: T.MapType, path: str, name: str) -> Convert:
    if not isinstance(kind.keyType, T.StringType):
        raise SettingsError(f"field {path} is a map whose names are no texts; objects of JSON have no others")
    value_of = _converter(kind.valueType, f"{path}.value", _INSIDE)
    inner = _nullable(value_of, kind.valueContainsNull, f"a value of field {path}")

    def convert(value: Json, rest: Rest) -> list[tuple[str, Any]]:
        if type(value) is not dict:
            raise _wrong(path, "an object", value)
        made, unknown = [], {}
        for word, given in value.items():
            left: Rest = {}
            made.append((word, inner(given, left)))
            if left:
                unknown[word] = left[_INSIDE]
        if unknown:
            rest[name] = unknown
        return made

    return convert


def _boolean(path: str) -> Convert:
    def convert(value: Json, _: Rest) -> bool:
        if type(value) is not bool:
            raise _wrong(path, "true or false", value)
        return value

    return convert


def _integer(bits: int, path: str) -> Convert:
    low, high = -(1 << bits - 1), (1 << bits - 1) - 1

    def convert(value: Json, _: Rest) -> int:
        if type(value) is not int:
            raise _wrong(path, "an integer", value)
        if not low <= value <= high:
            raise Misfit(f"field {path} is {shown(value)}, which does not fit {bits} bits")
        return value

    return convert


def _float(path: str) -> Convert:
    double = _double(path)

    def convert(value: Json, rest: Rest) -> float:
        found: float = double(value, rest)
        try:
            struct.pack("<f", found)
        except OverflowError:
            raise Misfit(f"field {path} is too large for its type: {shown(value)}") from None
        return found

    return convert


def _double(path: str) -> Convert:
    def convert(value: Json, _: Rest) -> float:
        if type(value) not in (int, NumberText):
            if value in _NO_NUMBERS:
                return float(value)
            raise _wrong(path, "a number", value)
        try:
            found = float(value)
        except OverflowError:
            found = math.inf
        if math.isinf(found):
            raise Misfit(f"field {path} is too large for its type: {shown(value)}")
        return found

    return convert


def _decimal(kind: T.DecimalType, path: str) -> Convert:
    precision, scale, step = kind.precision, kind.scale, Decimal(1).scaleb(-kind.scale)

    def convert(value: Json, _: Rest) -> Decimal:
        if type(value) not in (int, NumberText) and not (type(value) is str and _NUMBER.fullmatch(value)):
            raise _wrong(path, "a number", value)
        found = Decimal(value)
        if not fits(found, precision, scale):
            raise Misfit(f"field {path} is {shown(value)}, which does not fit decimal({precision},{scale})")
        return found.quantize(step, context=_EXACT)

    return convert


def fits(number: Decimal, precision: int, scale: int) -> bool:
    """Whether a decimal has all its digits in a column of this precision and scale."""
    _, digits, exponent = number.as_tuple()
    if not isinstance(exponent, int):
        return False
    if not number:
        return True
    trailing = next(place for place, digit in enumerate(reversed(digits)) if digit)
    return exponent + trailing >= -scale and len(digits) + exponent <= precision - scale


def _string(path: str) -> Convert:  # noqa: ARG001 - every converter is told its path
    def convert(value: Json, _: Rest) -> str:
        return value if type(value) is str else text_of(value)

    return convert


def _binary(path: str) -> Convert:
    def convert(value: Json, _: Rest) -> bytes:
        if type(value) is not str:
            raise _wrong(path, "a text in base64", value)
        try:
            return base64.b64decode(value, validate=True)
        except (binascii.Error, ValueError):
            raise _wrong(path, "a text in base64", value) from None

    return convert


def _date(path: str) -> Convert:
    def convert(value: Json, _: Rest) -> date:
        try:
            if type(value) is str and _DATE.fullmatch(value):
                return date.fromisoformat(value)
        except ValueError:
            pass
        raise _wrong(path, "a date as 2026-05-01", value)

    return convert


def _timestamp(path: str) -> Convert:
    def convert(value: Json, _: Rest) -> datetime:
        if type(value) is int:
            return _since_1970(value, path)
        found = _moment(value, path)
        return found if found.tzinfo is not None else found.replace(tzinfo=UTC)

    return convert


def _timestamp_ntz(path: str) -> Convert:
    def convert(value: Json, _: Rest) -> datetime:
        if type(value) is int:
            return _since_1970(value, path).replace(tzinfo=None)
        found = _moment(value, path)
        if found.tzinfo is not None:
            raise _wrong(path, "a time without a zone", value)
        return found

    return convert


def _since_1970(seconds: int, path: str) -> datetime:
    try:
        return _EPOCH + timedelta(seconds=seconds)
    except OverflowError:
        raise Misfit(
            f"field {path} is outside of the years 1 to 9999: a number means seconds since 1970, and it is "
            f"{shown(seconds)}"
        ) from None


def _moment(value: Json, path: str) -> datetime:
    try:
        if type(value) is str and _TIME.match(value):
            found = datetime.fromisoformat(value)
            return found if found.tzinfo is None else found.astimezone(UTC)
    except (ValueError, OverflowError):
        pass
    raise _wrong(path, "a time as 2026-05-01T12:00:00Z", value)


_PLAIN: Final[dict[type[T.DataType], Callable[[str], Convert]]] = {
    T.BooleanType: _boolean,
    T.FloatType: _float,
    T.DoubleType: _double,
    T.StringType: _string,
    T.BinaryType: _binary,
    T.DateType: _date,
    T.TimestampType: _timestamp,
    T.TimestampNTZType: _timestamp_ntz,
}


def _wrong(path: str, wanted: str, value: Json) -> Misfit:
    return Misfit(f"field {path} is {_kind(value)}, not {wanted}")


def _kind(value: Json) -> str:
    if isinstance(value, dict):
        return "an object"
    if isinstance(value, list):
        return "an array"
    return shown(text_of(value))
