"""Keys of rows in Arrow tables: read, bounded, matched."""

from collections.abc import Iterator, Sequence
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

DELETED: Final = "__row_deleted"
"""The column of a batch of changes that says whether a row deletes its key."""

Key = tuple[Any, ...]


def keys_of(rows: pa.Table, key: Sequence[str]) -> Iterator[Key]:
    """The key of every row."""
    return zip(*(rows.column(name).to_pylist() for name in key), strict=True)


def columns_of(changes: pa.Table) -> pa.Schema:
    """The columns of changed rows, without the one that deletes."""
    return changes.schema.remove(changes.schema.get_field_index(DELETED))


def bounds(keys: pa.Table) -> tuple[str, Any, Any]:
    """The first column of keys, and its smallest and largest value."""
    name = keys.schema.names[0]
    ends = pc.min_max(keys.column(name)).as_py()
    return name, ends["min"], ends["max"]


def without(rows: pa.Table, key: Sequence[str], gone: set[Key]) -> pa.Table:
    """The rows whose keys are not among these."""
    return rows.filter(pa.array([name not in gone for name in keys_of(rows, key)], pa.bool_()))


def shaped(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """Rows with the columns of a schema, in its order; columns that they do not have are null."""
    columns = [
        rows.column(field.name).cast(field.type)
        if field.name in rows.schema.names
        else pa.nulls(rows.num_rows, field.type)
        for field in schema
    ]
    return pa.table(columns, schema=schema)
