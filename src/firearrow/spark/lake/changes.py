"""Changes of rows by key -> a table of a lake, in one commit a batch; the same changes again change nothing.

``gone`` is the table of deleted keys, beside the table itself: where each was deleted in the order of versions
(`order`). Without it an earlier version that comes later, from another queue or by a retry, would bring a deleted row
back. It is written first. A kill between the two commits leaves a batch that Spark repeats: what is in both tables
already is not later than itself and is passed over, the rest is done.

Delta tables are merged by deltalake. For Iceberg the files that hold changed keys are written anew without them
(copy-on-write), and one snapshot replaces them together with the new rows. A table that may evolve gets new columns in
the same commit (Iceberg), or in one before it (Delta).
"""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
from msgspec.structs import replace as replace_fields

from firearrow.errors import SettingsError, Unsupported
from firearrow.spark.lake.keys import DELETED, Key, keys_of
from firearrow.spark.lake.order import PLACE, VERSION, Place, order_columns
from firearrow.spark.lake.sink import committer
from firearrow.spark.lake.table import LakeTable, beside

if TYPE_CHECKING:
    from types import ModuleType


def gone_table(table: LakeTable) -> LakeTable:
    """The table of deleted keys. It has the columns that it needs, whether the table itself may evolve or not."""
    evolve = "widen" if table.evolve == "widen" else "add"
    return replace_fields(beside(table, "deleted"), partition_by="", evolve=evolve)


def gone_columns(names: Sequence[str], key: Sequence[str]) -> list[str]:
    """The columns of the table of deleted keys."""
    return [*key, *(name for name in order_columns(names) if name not in key)]


def require_changeable(table: LakeTable) -> None:
    """Raise unless rows of the table can be replaced."""
    if table.format == "parquet":
        raise Unsupported("a Parquet table has no way to change rows; use iceberg or delta")
    if table.native:
        raise Unsupported("rows are changed from Python, not by the runtime inside Spark; leave --native out")


def require_key(table: LakeTable, key: Sequence[str]) -> None:
    """Raise if the rows of a table were told apart by another key before."""
    known = committer(gone_table(table)).schema(gone_table(table)).names
    before = [name for name in known if name not in (VERSION, *PLACE)]
    if set(before) != set(key):
        raise SettingsError(
            f"table {table.called} has the key {','.join(before)}, not {','.join(key)}. Give --key {','.join(before)}, "
            "or fill another table with another checkpoint"
        )


def apply(table: LakeTable, rows: pa.Table, key: Sequence[str]) -> int:
    """Change a table by rows, one for each key, and return how many rows counted; the others came too late."""
    gone = gone_table(table)
    ended = _places(gone, rows, key)
    rows = _chosen(rows, key, ended, is_same_enough=True)
    ending = _chosen(rows.filter(pc.field(DELETED)), key, ended)
    if ending.num_rows:
        stays = pa.array([False] * ending.num_rows, pa.bool_())
        replace(gone, ending.select(gone_columns(rows.schema.names, key)).append_column(DELETED, stays), key)
    rows = _chosen(rows, key, _places(table, rows, key))
    if rows.num_rows:
        replace(table, rows, key)
    return int(rows.num_rows)


def replace(table: LakeTable, rows: pa.Table, key: Sequence[str]) -> None:
    """Put rows in the place of those with the same keys; rows that delete leave theirs empty. One commit, or none."""
    _module(table).replace(table, rows, key)


def _module(table: LakeTable) -> "ModuleType":
    from firearrow.spark.lake import delta_changes, iceberg_changes

    return {"iceberg": iceberg_changes, "delta": delta_changes}[table.format]


def _places(table: LakeTable, rows: pa.Table, key: Sequence[str]) -> dict[Key, Place]:
    """Where the versions of these keys stand that a table holds."""
    if not rows.num_rows:
        return {}
    known = committer(table).schema(table).names
    names = [name for name in gone_columns(rows.schema.names, key) if name in known]
    found: pa.Table = _module(table).rows_near(table, rows.select(key), names)
    wanted = set(keys_of(rows, key))
    return {name: place for name, place in zip(keys_of(found, key), places_of(found), strict=True) if name in wanted}


def _chosen(rows: pa.Table, key: Sequence[str], known: dict[Key, Place], is_same_enough: bool = False) -> pa.Table:
    """The rows that are later than what is known of their keys, or, if that is enough, the same."""
    if not known:
        return rows
    kept = [
        name not in known or place.is_after(known[name]) or (is_same_enough and place == known[name])
        for name, place in zip(keys_of(rows, key), places_of(rows), strict=True)
    ]
    return rows.filter(pa.array(kept, pa.bool_()))


def places_of(rows: pa.Table) -> Iterator[Place]:
    """Where the version of every row stands."""
    names = (VERSION, "_topic", "_broker", "_queue_id", "_queue_offset", "_store_timestamp")
    columns = [rows.column(name).to_pylist() if name in rows.schema.names else [None] * rows.num_rows for name in names]
    return (Place(*values) for values in zip(*columns, strict=True))
