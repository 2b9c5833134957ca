"""Avro bodies: one datum each, by a schema file, or with the id of its writer's schema in a registry in front.

The columns are those of the reader's schema: the file, or the latest one of a subject. A registered body is read with
its writer's schema and resolved by Avro's rules (promotions, defaults, aliases). Fields of the writer that the reader
does not have are rescued.
"""

import json
import struct
from collections.abc import Iterator
from io import BytesIO
from typing import Any, Final, NamedTuple

from pyspark.sql.types import StructField, StructType

from firearrow.errors import SettingsError
from firearrow.spark.bodies.avro_types import Named, Schema, branches, column, json_text, named_types, plain
from firearrow.spark.bodies.misfit import DecodedBody, Misfit, shown
from firearrow.spark.bodies.registry import SchemaRegistry, split

UNREADABLE: Final = (
    EOFError, ValueError, IndexError, KeyError, TypeError, ArithmeticError, MemoryError, AttributeError, struct.error,
)  # fmt: skip
"""Errors that fastavro raises for bytes that are not of a schema."""


class Writer(NamedTuple):
    """A schema that bodies were written with."""

    schema: Schema
    named: Named
    has_more: bool
    """Whether it has fields that the reader's does not."""


class AvroBodies:
    """Reads Avro bodies."""

    def __init__(self, text: str, registry: str = "") -> None:
        self._reader = parsed(text)
        self._named = named_types(self._reader)
        if not isinstance(self._reader, dict) or self._reader["type"] != "record":
            raise SettingsError("the Avro schema of bodies is not a record, which has the columns of a table")
        made = [(field["name"], *column(field["type"], self._named)) for field in self._reader["fields"]]
        self._fields = [(name, convert) for name, _, convert in made]
        self.schema = StructType([StructField(name, kind) for name, kind, _ in made])
        self._registry = SchemaRegistry(registry) if registry else None
        self._writers: dict[int, Writer] = {}

    def decode(self, body: bytes) -> DecodedBody:
        """A body as values of the schema."""
        if self._registry is None:
            return self._values(read(body, self._reader, None), None)
        number, datum = split(body)
        writer = self._writer(number)
        found = read(datum, writer.schema, self._reader)
        rest = None
        if writer.has_more:
            whole = read(datum, writer.schema, None)
            rest = more_of(whole, (writer.schema, writer.named), (self._reader, self._named))
        return self._values(found, rest)

    def _values(self, found: Any, rest: Any) -> DecodedBody:  # noqa: ANN401 - a datum
        values = tuple(None if found[name] is None else convert(found[name]) for name, convert in self._fields)
        return DecodedBody(values, json_text(rest) if rest else None)

    def _writer(self, number: int) -> Writer:
        assert self._registry is not None
        known = self._writers.get(number)
        if known is None:
            found = self._registry.by_id(number)
            if found.kind != "AVRO":
                raise Misfit(f"the schema with the id {number} is {found.kind}, not AVRO")
            schema = parsed(found.schema)
            named = named_types(schema)
            has_more = has_more_fields((schema, named), (self._reader, self._named))
            known = self._writers[number] = Writer(schema, named, has_more)
        return known


def parsed(text: str) -> Schema:
    """An Avro schema from its JSON."""
    import fastavro
    from fastavro.schema import SchemaParseException, UnknownType

    try:
        return fastavro.parse_schema(plain(json.loads(text)))
    except (ValueError, SchemaParseException, UnknownType) as wrong:
        raise SettingsError(f"the Avro schema cannot be read: {wrong}; it is {shown(text)}") from None


def read(datum: bytes, writer: Schema, reader: Schema | None) -> Any:  # noqa: ANN401 - a datum
    """A datum and nothing after it."""
    import fastavro
    from fastavro.read import SchemaResolutionError

    source = BytesIO(datum)
    try:
        found = fastavro.schemaless_reader(source, writer, reader)
    except SchemaResolutionError as wrong:
        raise Misfit(f"the writer's schema does not become the reader's: {shown(wrong)}") from None
    except UNREADABLE as wrong:
        raise Misfit(f"the body is not Avro of its schema: {shown(wrong) or type(wrong).__name__}") from None
    if source.tell() != len(datum):
        raise Misfit(f"the body goes on after its Avro value (byte {source.tell()})")
    return found


Known = tuple[Schema, Named]


def _single(known: Known) -> tuple[str, Schema]:
    """The only type of a schema besides null: its kind, and the schema itself; an empty kind for several."""
    kinds, _ = branches(known[0])
    if len(kinds) != 1:
        return "", kinds
    found = kinds[0]
    found = known[1].get(found, found) if isinstance(found, str) else found
    return (found["type"] if isinstance(found, dict) else found), found


def _names(schema: Schema) -> dict[str, Schema]:
    """The fields of a record by every name they go by."""
    return {name: field for field in schema["fields"] for name in (field["name"], *field.get("aliases", ()))}


def has_more_fields(writer: Known, reader: Known, depth: int = 0) -> bool:
    """Whether a writer's schema has fields that a reader's does not."""
    (kind, mine), (other, theirs) = _single(writer), _single(reader)
    if kind != other or depth > 32:
        return False
    if not kind:
        return bool(mine != theirs)
    if kind == "record":
        known = _names(theirs)
        return any(
            field["name"] not in known
            or has_more_fields((field["type"], writer[1]), (known[field["name"]]["type"], reader[1]), depth + 1)
            for field in mine["fields"]
        )
    part = {"array": "items", "map": "values"}.get(kind)
    return bool(part) and has_more_fields((mine[part], writer[1]), (theirs[part], reader[1]), depth + 1)


def more_of(value: Any, writer: Known, reader: Known) -> Any:  # noqa: ANN401 - a datum
    """Return the parts of a value that the reader's schema lacks, at their places; None without any."""
    (kind, mine), (other, theirs) = _single(writer), _single(reader)
    if value is None or kind != other:
        return None
    if not kind:  # a union of several types is a text with what the reader knows of the value
        return value if isinstance(value, dict | list) and mine != theirs else None
    found = {}
    for place, inner, written, known in _parts(value, kind, mine, theirs):
        left = inner if known is None else more_of(inner, (written, writer[1]), (known, reader[1]))
        if left or known is None:
            found[place] = left
    return found or None


def _parts(value: Any, kind: str, mine: Schema, theirs: Schema) -> Iterator[tuple[str, Any, Schema, Schema | None]]:  # noqa: ANN401 - a datum
    """Yield the values inside a value: the place, the value, and its two schemas; None where the reader has none."""
    if kind == "record":
        known = _names(theirs)
        for field in mine["fields"]:
            name = field["name"]
            yield name, value[name], field["type"], known[name]["type"] if name in known else None
    elif kind == "array":
        for number, each in enumerate(value):
            yield str(number), each, mine["items"], theirs["items"]
    elif kind == "map":
        for name, each in value.items():
            yield name, each, mine["values"], theirs["values"]
