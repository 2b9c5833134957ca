"""Avro schemas as Spark's types, with a converter for each: what fastavro reads -> what Arrow takes. Pure.

Unions of null and one type are nullable columns; int and long together are long, float and double are double; a union
of other types is a text with the value's JSON. Times of day stay numbers, as Spark reads them.
"""

import base64
import json
from collections.abc import Callable
from datetime import date, datetime
from decimal import Decimal
from typing import Any, Final

from pyspark.sql import types as T  # noqa: N812 - the name everyone uses

from firearrow.errors import SettingsError
from firearrow.spark.bodies.columns import fits
from firearrow.spark.bodies.misfit import Misfit, shown

Schema = Any
"""A schema as fastavro parsed it: a name, a dictionary, or a list for a union."""
Convert = Callable[[Any], Any]
Named = dict[str, Schema]

_PLAIN: Final[dict[str, T.DataType]] = {
    "null": T.StringType(),
    "boolean": T.BooleanType(),
    "int": T.IntegerType(),
    "long": T.LongType(),
    "float": T.FloatType(),
    "double": T.DoubleType(),
    "bytes": T.BinaryType(),
    "string": T.StringType(),
    "enum": T.StringType(),
    "fixed": T.BinaryType(),
}
_LOGICAL: Final[dict[str, T.DataType]] = {
    "date": T.DateType(),
    "timestamp-millis": T.TimestampType(),
    "timestamp-micros": T.TimestampType(),
    "local-timestamp-millis": T.TimestampNTZType(),
    "local-timestamp-micros": T.TimestampNTZType(),
}
KEPT: Final = (*_LOGICAL, "decimal")
"""Logical types that are read as such; values of others are read as what they are stored as."""


def plain(schema: Schema) -> Schema:
    """A schema without the logical types that are not kept."""
    if isinstance(schema, list):
        return [plain(each) for each in schema]
    if isinstance(schema, dict):
        drops = "logicalType" in schema and schema["logicalType"] not in KEPT
        return {name: _plain_part(name, part) for name, part in schema.items() if not (drops and name == "logicalType")}
    return schema


def _plain_part(name: str, part: Any) -> Any:  # noqa: ANN401 - a part of a schema
    if name == "fields":
        return [{**field, "type": plain(field["type"])} for field in part]
    return plain(part) if name in ("type", "items", "values") else part


def named_types(schema: Schema, found: Named | None = None) -> Named:
    """Every named type inside a schema, by its full name."""
    found = {} if found is None else found
    if isinstance(schema, list):
        for each in schema:
            named_types(each, found)
    elif isinstance(schema, dict):
        if "name" in schema:
            found[schema["name"]] = schema
        for field in schema.get("fields", ()):
            named_types(field["type"], found)
        for part in ("items", "values", "type"):
            if isinstance(schema.get(part), dict | list):
                named_types(schema[part], found)
    return found


def branches(schema: Schema) -> tuple[list[Schema], bool]:
    """The types of a union other than null, and whether null is one of them; another schema is a union of itself."""
    if not isinstance(schema, list):
        return [schema], schema == "null"
    return [each for each in schema if each != "null"], "null" in schema


def column(schema: Schema, named: Named, path: tuple[str, ...] = ()) -> tuple[T.DataType, Convert]:
    """The type of a column for a schema, and the converter of its values."""
    kinds, _ = branches(schema)
    if len(kinds) != 1:
        return _several(kinds)
    (one,) = kinds
    if isinstance(one, str) and one in named:
        one = named[one]
    kind = one["type"] if isinstance(one, dict) else one
    nested = _NESTED.get(kind) if isinstance(kind, str) else None
    if nested is not None:
        return nested(one, named, path)
    logical = one.get("logicalType") if isinstance(one, dict) else None
    if logical == "decimal":
        return _decimal(one["precision"], one.get("scale", 0))
    if isinstance(kind, dict | list):
        return column(kind, named, path)
    return _LOGICAL.get(logical or "", _PLAIN[kind]), _same


def _decimal(precision: int, scale: int) -> tuple[T.DataType, Convert]:
    def convert(value: Decimal) -> Decimal:
        if not fits(value, precision, scale):  # fastavro has rounded it, which leaves too many digits before the point
            raise Misfit(f"a decimal does not fit decimal({precision},{scale}): about {shown(value)}")
        return value

    return T.DecimalType(precision, scale), convert


def _same(value: Any) -> Any:  # noqa: ANN401 - of any column
    return value


def _several(kinds: list[Schema]) -> tuple[T.DataType, Convert]:
    if set(map(str, kinds)) == {"int", "long"}:
        return T.LongType(), _same
    if set(map(str, kinds)) == {"float", "double"}:
        return T.DoubleType(), _same
    return T.StringType(), json_text


def _record(schema: Schema, named: Named, path: tuple[str, ...]) -> tuple[T.DataType, Convert]:
    name = schema["name"]
    if name in path:
        raise SettingsError(f"the Avro schema has record {name} inside itself, which no column can hold")
    made = [(field["name"], *column(field["type"], named, (*path, name))) for field in schema["fields"]]

    def convert(value: Any) -> dict[str, Any]:  # noqa: ANN401 - a record as fastavro read it
        return {field: None if value[field] is None else inner(value[field]) for field, _, inner in made}

    return T.StructType([T.StructField(field, kind) for field, kind, _ in made]), convert


def _array(schema: Schema, named: Named, path: tuple[str, ...]) -> tuple[T.DataType, Convert]:
    element, convert = column(schema["items"], named, path)
    return T.ArrayType(element), lambda value: [None if each is None else convert(each) for each in value]


def _map(schema: Schema, named: Named, path: tuple[str, ...]) -> tuple[T.DataType, Convert]:
    inner, convert = column(schema["values"], named, path)
    made = T.MapType(T.StringType(), inner)
    return made, lambda value: [(name, None if each is None else convert(each)) for name, each in value.items()]


_NESTED: Final = {"record": _record, "error": _record, "array": _array, "map": _map}


def json_text(value: Any) -> str:  # noqa: ANN401 - of any type of Avro
    """A value as JSON: bytes in base64, times by ISO 8601, decimals as texts."""
    return json.dumps(value, ensure_ascii=False, default=_json_value)


def _json_value(value: object) -> str:
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, date | datetime):
        return value.isoformat()
    if isinstance(value, Decimal):
        return str(value)
    raise TypeError(f"{type(value)} has no form in JSON")
