"""Changes of rows by key -> a table of a lake, in one commit a batch; the same changes again change nothing.

``gone`` is the table of deleted keys, beside the table itself: where each was deleted in the order of versions
(`order`). Without it an earlier version that comes later, from another queue or by a retry, would bring a deleted row
back. It is written first. A kill between the two commits leaves a batch that Spark repeats: what is in both tables
already is not later than itself and is passed over, the rest is done. Several writers may change a table: the rows that
count are chosen against the version of the table that a commit replaces, anew after each conflict.

Delta tables are merged by deltalake. For Iceberg the files that hold changed keys are written anew without them
(copy-on-write), and one snapshot replaces them together with the new rows. A table that may evolve gets new columns in
the same commit (Iceberg), or in one before it (Delta).
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
from msgspec.structs import replace as replace_fields

from firearrow.errors import SettingsError, Unsupported
from firearrow.spark.lake.keys import DELETED
from firearrow.spark.lake.order import PLACE, VERSION, ended, order_columns
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


def require_by_key(table: LakeTable) -> None:
    """Raise if a table was made by appends: its keys may stand in it several times."""
    gone = gone_table(table)
    if committer(table).exists(table) and not committer(gone).exists(gone):
        raise SettingsError(
            f"table {table.called} was filled by appends, so a key may stand in it several times. Fill another table "
            "by key, with another checkpoint"
        )


def require_order(table: LakeTable, names: Sequence[str], key: Sequence[str]) -> None:
    """Raise if the rows of a table were told apart by another key before, or ordered by a version."""
    known = committer(gone_table(table)).schema(gone_table(table)).names
    before = [name for name in known if name not in (VERSION, *PLACE)]
    if VERSION in known and VERSION not in names:
        raise SettingsError(
            f"rows of table {table.called} were ordered by --version before; without it no later change would count. "
            "Give the same --version, or fill another table with another checkpoint"
        )
    if set(before) != set(key):
        raise SettingsError(
            f"table {table.called} has the key {','.join(before)}, not {','.join(key)}. Give --key {','.join(before)}, "
            "or fill another table with another checkpoint"
        )


def apply(table: LakeTable, rows: pa.Table, key: Sequence[str]) -> None:
    """Change a table by rows, one for each key. Rows that came too late change nothing.

    Other writers may change both tables meanwhile. A deletion that is noted while the table is changed makes another
    version of the deleted keys, which are then read again; or its writer sees the change when it looks at the table.
    """
    gone = gone_table(table)
    ending = rows.filter(pc.field(DELETED))
    if ending.num_rows:
        stays = pa.array([False] * ending.num_rows, pa.bool_())
        noted = ending.select(gone_columns(rows.schema.names, key)).append_column(DELETED, stays)
        replace(gone, noted, key, only_later=True)
    if not rows.num_rows:
        return
    version, deleted = _module(gone).rows_near(gone, rows.select(key), key)
    while True:
        replace(table, ended(rows, key, deleted), key, only_later=True)
        if _module(gone).version(gone) == version:
            return
        before = deleted
        version, deleted = _module(gone).rows_near(gone, rows.select(key), key)
        if deleted.equals(before):
            return


def replace(table: LakeTable, rows: pa.Table, key: Sequence[str], *, only_later: bool = False) -> None:
    """Put rows in the place of those with the same keys; rows that delete leave theirs empty. One commit, or none.

    With ``only_later`` rows count that are later than those of the very version of the table that is replaced.
    """
    _module(table).replace(table, rows, key, only_later=only_later)


def _module(table: LakeTable) -> "ModuleType":
    from firearrow.spark.lake import delta_changes, iceberg_changes

    return {"iceberg": iceberg_changes, "delta": delta_changes}[table.format]
