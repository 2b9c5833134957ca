"""Whether rows fit a table: the columns of both, compared before anything is written. Pure.

A committer adds files without checking them. A column that the table does not have would never be read, a column of
another type would make every reader fail, and a forbidden null would be found much later. Columns of the table that the
rows do not have become null, if the table allows it.
"""

from collections.abc import Iterator

import pyarrow as pa

from firearrow.errors import SettingsError


class DoesNotFit(SettingsError):
    """Rows that a table cannot take; nothing was written."""


def require_fit(rows: pa.Schema, table: pa.Schema, name: str) -> None:
    """Raise unless rows can be appended to a table."""
    wrong = list(misfits(rows, table))
    if wrong:
        raise DoesNotFit(
            f"the rows do not fit table {name}: {'; '.join(wrong)}. Nothing was written. Change the table to fit "
            "(ALTER TABLE), change the schema of the rows back, or fill another table with another checkpoint"
        )


def misfits(rows: pa.Schema | pa.StructType, table: pa.Schema | pa.StructType, path: str = "") -> Iterator[str]:
    """What is wrong, column by column."""
    there = {field.name: field for field in table}
    for field in rows:
        name, known = f"{path}{field.name}", there.pop(field.name, None)
        if known is None:
            yield f"it has no column {name} ({_word(field.type)})"
            continue
        yield from _differences(field.type, known.type, name)
        if field.nullable and not known.nullable:
            yield f"column {name} must not be null there, and may be null in the rows"
    for left in there.values():
        if not left.nullable:
            yield f"column {path}{left.name} must not be null there, and the rows do not have it"


def _differences(rows: pa.DataType, table: pa.DataType, name: str) -> Iterator[str]:
    kinds = (pa.types.is_list, pa.types.is_large_list)
    if pa.types.is_struct(rows) and pa.types.is_struct(table):
        yield from misfits(_fields(rows), _fields(table), f"{name}.")
    elif pa.types.is_map(rows) and pa.types.is_map(table):
        yield from _differences(rows.key_type, table.key_type, f"{name}.key")
        yield from _differences(rows.item_type, table.item_type, f"{name}.value")
    elif any(is_list(rows) for is_list in kinds) and any(is_list(table) for is_list in kinds):
        yield from _differences(rows.value_type, table.value_type, f"{name}.element")
    elif _plain(rows) != _plain(table):
        yield f"column {name} is {_word(table)} there and {_word(rows)} in the rows"


def _fields(kind: pa.DataType) -> pa.Schema:
    return pa.schema([kind.field(number) for number in range(kind.num_fields)])


_PLAIN = {pa.large_string(): pa.string(), pa.large_binary(): pa.binary()}


def _plain(kind: pa.DataType) -> pa.DataType:
    """A type whatever the width of its offsets, and whatever its zone is called."""
    if pa.types.is_timestamp(kind) and kind.tz is not None:
        return pa.timestamp(kind.unit, "UTC")
    return _PLAIN.get(kind, kind)


def _word(kind: pa.DataType) -> str:
    return str(_plain(kind))


def without_small_integers(schema: pa.Schema) -> pa.Schema:
    """A schema as Iceberg keeps it, whose smallest integers have 32 bits."""
    small = (pa.int8(), pa.int16())
    return pa.schema([field.with_type(pa.int32()) if field.type in small else field for field in schema])
