"""JSON bodies held to a schema: what Spark's own parser lets pass, and what a row has that the schema does not name.

Spark's ``from_json`` refuses values of another type and numbers that do not fit. It takes the first object of a text
and drops what follows, ignores NOT NULL, takes the last of repeated fields, reads a number for a time as seconds
whatever year that gives, and drops fields that the schema does not have. Here all but the last are faults; the names of
unknown fields stand in a column. All of it is made of Spark's expressions: no row goes through Python.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F  # noqa: N812 - the name everyone uses
from pyspark.sql.types import DoubleType, FloatType, StructType, TimestampNTZType, TimestampType

from firearrow.errors import SettingsError

if TYPE_CHECKING:
    from pyspark.sql import Column
    from pyspark.sql.types import StructField

LAST_YEAR: Final = 9999
Path = tuple[str, ...]


def schema_of(ddl: str) -> StructType:
    """The schema of bodies from Spark's DDL."""
    found = StructType.fromDDL(ddl)
    if not isinstance(found, StructType):
        raise SettingsError(f"the schema of bodies is {ddl!r}; it takes fields, as 'id long, item string'")
    return found


def is_one_object(text: "Column") -> "Column":
    """Whether a text is one JSON object and nothing else: as the first of three elements it makes an array of three."""
    array = F.concat(F.lit("["), text, F.lit(",0,0]"))
    return text.rlike(r"^\s*\{") & F.coalesce(F.json_array_length(array) == 3, F.lit(False))


def fault(schema: StructType, parsed: "Column", text: "Column") -> "Column":
    """Why a body that Spark parsed is no row of the schema, or null."""
    keys = F.json_object_keys(text)
    found = [
        F.when(~is_one_object(text), F.lit("the body is not one JSON object and nothing else")),
        F.when(F.size(keys) != F.size(F.array_distinct(keys)), F.lit("the body repeats a field")),
    ]
    for path, field in _fields(schema):
        found += _faults_of(path, field, parsed)
    return F.coalesce(*found)


def _faults_of(path: Path, field: "StructField", parsed: "Column") -> "Iterator[Column]":
    name, value = ".".join(path), _at(parsed, path)
    if not field.nullable:
        is_there = _at(parsed, path[:-1]).isNotNull()
        yield F.when(is_there & value.isNull(), F.lit(f"field {name} must not be null"))
    if isinstance(field.dataType, TimestampType | TimestampNTZType):
        is_out = (F.year(value) > LAST_YEAR) | (F.year(value) < 1)
        yield F.when(
            is_out, F.lit(f"field {name} is outside of the years 1 to 9999: a number means seconds since 1970")
        )
    if isinstance(field.dataType, FloatType | DoubleType):
        yield F.when(F.abs(value) == F.lit(float("inf")), F.lit(f"field {name} is too large for its type"))


def unknown_fields(schema: StructType, text: "Column") -> "Column":
    """The names of fields that a body has and the schema does not, inner ones too; null without any."""
    lists = [_unknown(schema, F.json_object_keys(text), "")]
    for path, field in _fields(schema):
        if isinstance(field.dataType, StructType):
            inner = F.get_json_object(text, "$" + "".join(f"['{name}']" for name in path))
            lists.append(_unknown(field.dataType, F.json_object_keys(inner), ".".join(path) + "."))
    found = F.concat(*lists)
    return F.when(F.size(found) > 0, found)


def _unknown(schema: StructType, keys: "Column", prefix: str) -> "Column":
    known = F.array(*(F.lit(name) for name in schema.fieldNames()))
    names = F.transform(F.array_except(keys, known), lambda name: F.concat(F.lit(prefix), name))
    return F.coalesce(names, F.array().cast("array<string>"))


def _fields(schema: StructType, path: Path = ()) -> "Iterator[tuple[Path, StructField]]":
    """Every field with its path, those inside of structures too."""
    for field in schema.fields:
        yield (*path, field.name), field
        if isinstance(field.dataType, StructType):
            yield from _fields(field.dataType, (*path, field.name))


def _at(parsed: "Column", path: Path) -> "Column":
    for name in path:
        parsed = parsed[name]
    return parsed
