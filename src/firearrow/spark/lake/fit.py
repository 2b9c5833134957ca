"""Whether rows fit a table: the columns of both, compared before anything is written. Pure.

A committer adds files without checking them. A column that the table does not have would never be read, a column of
another type would make every reader fail, and a forbidden null would be found much later. `compare` lists what differs
and returns the table that would take the rows; `require` decides by the table's ``evolve`` whether it may become so.

Rows of a narrower type than the table's are cast and fit always. Columns that the rows do not have become null, if the
table allows it.
"""

from collections.abc import Callable, Collection, Iterable
from typing import Final, Literal

import pyarrow as pa
from msgspec import Struct

from firearrow.errors import SettingsError

Evolve = Literal["fail", "add", "widen"]
EVOLVE: Final = ("fail", "add", "widen")
MOST_TOLD: Final = 4

Path = tuple[str, ...]
Widening = Callable[[pa.DataType, pa.DataType], bool]
"""Whether a format can change a column of the first type to the second without rewriting files."""

_INTEGERS: Final = (pa.int8(), pa.int16(), pa.int32(), pa.int64())
_WORDS: Final = {
    pa.int8(): "byte", pa.int16(): "short", pa.int32(): "int", pa.int64(): "long", pa.float32(): "float",
    pa.bool_(): "boolean", pa.date32(): "date", pa.timestamp("us", "UTC"): "timestamp",
    pa.timestamp("us"): "timestamp_ntz",
}  # fmt: skip


class DoesNotFit(SettingsError):
    """Rows that a table cannot take; nothing was written."""


class Change(Struct, frozen=True):
    """A column that a table gets, or gets with another type.

    ``path`` leads through structures by their fields, through lists by ``element`` and through maps by ``value``.
    """

    path: tuple[str, ...]
    type: pa.DataType
    text: str


class Fit(Struct, frozen=True):
    """The differences between rows and a table, and the table that takes the rows.

    ``target`` has the table's columns in their order, then the added ones; ``wrong`` says what no change can mend,
    ``cast`` names the columns whose values must be cast to the table's wider type.
    """

    target: pa.Schema
    added: tuple[Change, ...] = ()
    widened: tuple[Change, ...] = ()
    wrong: tuple[str, ...] = ()
    cast: tuple[str, ...] = ()

    @property
    def is_change(self) -> bool:
        """Whether the table must change to take the rows."""
        return bool(self.added or self.widened)


def compare(rows: pa.Schema, table: pa.Schema, widening: Widening, partitions: Collection[str] = ()) -> Fit:
    """Compare rows with a table. The columns of its partitions keep their types."""
    seen = _Comparison(widening, partitions)
    target = pa.schema(seen.fields(rows, table, ()))
    return Fit(target, tuple(seen.added), tuple(seen.widened), tuple(seen.wrong), tuple(seen.cast))


def uncast(fit: Fit) -> Fit:
    """The same for a table whose writer casts nothing: columns of narrower types are wrong."""
    wrong = tuple(f"column {name} is wider there than in the rows" for name in fit.cast)
    return Fit(fit.target, fit.added, fit.widened, fit.wrong + wrong, fit.cast)


def require(fit: Fit, evolve: Evolve, name: str) -> None:
    """Raise unless the rows fit, or the table may change so that they do."""
    refused = list(fit.wrong)
    if evolve != "widen":
        refused += [change.text for change in fit.widened]
    if evolve == "fail":
        refused += [change.text for change in fit.added]
    if not refused:
        return
    more = f"; and {len(refused) - MOST_TOLD} more" if len(refused) > MOST_TOLD else ""
    raise DoesNotFit(
        f"the rows do not fit table {name}. Nothing was written.\n"
        f"{'; '.join(refused[:MOST_TOLD])}{more}.\n{_advice(fit)}"
    )


def _advice(fit: Fit) -> str:
    if fit.wrong:
        return "Change the schema of the rows back, or fill another table with another checkpoint"
    how = "--evolve widen to widen the types" if fit.widened else "--evolve add to add the columns"
    return f"Give {how} with the next commit, or change the schema of the rows back"


class _Comparison:
    """Walks through two schemas and notes what differs."""

    def __init__(self, widening: Widening, partitions: Collection[str] = ()) -> None:
        self._widening = widening
        self._partitions = partitions
        self.added: list[Change] = []
        self.widened: list[Change] = []
        self.wrong: list[str] = []
        self.cast: list[str] = []

    def fields(self, rows: Iterable[pa.Field], table: Iterable[pa.Field], path: Path) -> list[pa.Field]:
        given, known = {field.name: field for field in rows}, {field.name: field for field in table}
        made = [self._known(given.get(name), field, path) for name, field in known.items()]
        cases = {name.lower(): name for name in known}
        return made + [self._new(field, cases, path) for name, field in given.items() if name not in known]

    def _new(self, field: pa.Field, cases: dict[str, str], path: Path) -> pa.Field:
        place, kind = (*path, field.name), plain(field.type)
        like = cases.setdefault(field.name.lower(), field.name)
        if like == field.name:
            self.added.append(Change(place, kind, f"it has no column {_dotted(place)} ({word(kind)})"))
        else:
            self.wrong.append(f"column {_dotted(place)} differs from column {like} only by case")
        return pa.field(field.name, kind, nullable=True)

    def _known(self, given: pa.Field | None, known: pa.Field, path: Path) -> pa.Field:
        place = (*path, known.name)
        if given is not None:
            return self._inner(given, known, place)
        if not known.nullable:
            self.wrong.append(f"column {_dotted(place)} must not be null there, and the rows do not have it")
        return pa.field(known.name, plain(known.type), nullable=known.nullable)

    def _inner(self, rows: pa.Field, table: pa.Field, path: Path) -> pa.Field:
        if rows.nullable and not table.nullable:
            self.wrong.append(f"column {_dotted(path)} must not be null there, and may be null in the rows")
        return pa.field(table.name, self._type(rows.type, table.type, path), nullable=table.nullable)

    def _type(self, rows: pa.DataType, table: pa.DataType, path: Path) -> pa.DataType:
        if pa.types.is_struct(rows) and pa.types.is_struct(table):
            return pa.struct(self.fields(_fields(rows), _fields(table), path))
        if pa.types.is_map(rows) and pa.types.is_map(table):
            key = self._key(rows.key_type, table.key_type, (*path, "key"))
            return pa.map_(key, self._inner(rows.item_field, table.item_field, (*path, "value")))
        if _is_list(rows) and _is_list(table):
            return pa.list_(self._inner(rows.value_field, table.value_field, (*path, "element")))
        return self._leaf(plain(rows), plain(table), path)

    def _key(self, rows: pa.DataType, table: pa.DataType, path: Path) -> pa.DataType:
        """Keys of maps cannot change in either format."""
        seen = _Comparison(no_widening)
        found = seen._type(rows, table, path)
        self.wrong += [change.text for change in seen.added + seen.widened] + seen.wrong
        self.cast += seen.cast
        return found

    def _leaf(self, rows: pa.DataType, table: pa.DataType, path: Path) -> pa.DataType:
        if rows == table:
            return table
        if is_wider(table, rows):
            self.cast.append(_dotted(path))
            return table
        differs = f"column {_dotted(path)} is {word(table)} there and {word(rows)} in the rows"
        if is_wider(rows, table) and path[0] in self._partitions:
            self.wrong.append(f"{differs}, and the table is partitioned by it")
        elif is_wider(rows, table) and self._widening(table, rows):
            self.widened.append(Change(path, rows, differs))
            return rows
        else:
            self.wrong.append(differs)
        return table


def _dotted(path: Path) -> str:
    return ".".join(path)


def is_wider(wide: pa.DataType, narrow: pa.DataType) -> bool:
    """Whether a type holds every value of another one and more of the same kind."""
    if wide in _INTEGERS and narrow in _INTEGERS:
        return bool(wide.bit_width > narrow.bit_width)
    if pa.types.is_decimal(wide) and pa.types.is_decimal(narrow):
        whole = wide.precision - wide.scale >= narrow.precision - narrow.scale
        return bool(whole and wide.scale >= narrow.scale and wide != narrow)
    return bool(wide == pa.float64() and narrow == pa.float32())


def iceberg_widening(narrow: pa.DataType, wide: pa.DataType) -> bool:
    """Whether version 2 of Iceberg's format promotes: int to long, float to double, decimals of the same scale."""
    return is_wider(wide, narrow) and (not pa.types.is_decimal(wide) or wide.scale == narrow.scale)


def delta_widening(narrow: pa.DataType, wide: pa.DataType) -> bool:
    """Whether Delta's table feature ``typeWidening`` allows the change, within one kind of type."""
    return is_wider(wide, narrow)


def no_widening(narrow: pa.DataType, wide: pa.DataType) -> bool:  # noqa: ARG001 - the shape of a Widening
    """For committers that cannot change a type."""
    return False


def _fields(kind: pa.DataType) -> list[pa.Field]:
    return [kind.field(number) for number in range(kind.num_fields)]


def _is_list(kind: pa.DataType) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind))


_PLAIN: Final = {pa.large_string(): pa.string(), pa.large_binary(): pa.binary()}


def plain(kind: pa.DataType) -> pa.DataType:
    """A type whatever the width of its offsets, and whatever its zone is called."""
    return _mapped(kind, _plain_leaf)


def _plain_leaf(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_timestamp(kind) and kind.tz is not None:
        return pa.timestamp(kind.unit, "UTC")
    return _PLAIN.get(kind, kind)


ICEBERG_COLUMNS: Final = (
    "_file", "_pos", "_deleted", "_spec_id", "_partition", "_row_id", "_last_updated_sequence_number", "_change_type",
    "_change_ordinal", "_commit_snapshot_id",
)  # fmt: skip
"""Names that Iceberg's readers give to columns of their own. Java: ``MetadataColumns``."""


def as_iceberg(schema: pa.Schema) -> pa.Schema:
    """A schema as Iceberg keeps it, whose smallest integers have 32 bits; raise for names of Iceberg's own columns."""
    taken = [name for name in schema.names if name.lower() in ICEBERG_COLUMNS]
    if taken:
        raise SettingsError(
            f"Iceberg has columns of its own called {', '.join(taken)}, and its readers refuse tables with such names. "
            "Rename the fields in the schema of bodies, or leave them out: they are rescued then"
        )
    return pa.schema([field.with_type(_mapped(field.type, _without_small)) for field in schema])


def _without_small(kind: pa.DataType) -> pa.DataType:
    return pa.int32() if kind in (pa.int8(), pa.int16()) else kind


def _mapped(kind: pa.DataType, leaf: Callable[[pa.DataType], pa.DataType]) -> pa.DataType:
    """A type with every type inside of it replaced."""

    def inner(field: pa.Field) -> pa.Field:
        return pa.field(field.name, _mapped(field.type, leaf), nullable=field.nullable)

    if pa.types.is_struct(kind):
        return pa.struct([inner(field) for field in _fields(kind)])
    if pa.types.is_map(kind):
        return pa.map_(_mapped(kind.key_type, leaf), inner(kind.item_field))
    if _is_list(kind):
        return pa.list_(inner(kind.value_field))
    return leaf(kind)


def word(kind: pa.DataType) -> str:
    """A type as Spark's DDL calls it, where the two differ."""
    found = plain(kind)
    return _WORDS.get(found) or str(found).replace("decimal128", "decimal")
