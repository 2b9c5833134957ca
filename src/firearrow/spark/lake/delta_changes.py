"""Rows of Delta tables replaced and deleted by key, with deltalake's merge: one commit.

New columns are added in a commit before it. deltalake's merge could add them itself (``merge_schema``), but in version
1.6 it makes structures that get a field null in rows that it only copies.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from firearrow.spark.lake import delta, delta_log
from firearrow.spark.lake.files import commit_attempts
from firearrow.spark.lake.fit import Fit
from firearrow.spark.lake.keys import DELETED, bounds, columns_of, shaped
from firearrow.spark.lake.order import later, order_columns
from firearrow.spark.lake.table import LakeTable

if TYPE_CHECKING:
    from deltalake import DeltaTable

OLD: Final = "old_row"
NEW: Final = "new_row"


def version(table: LakeTable) -> int:
    """The version of the rows: while it is the same, so are they."""
    return delta.opened(table).version()


def rows_near(table: LakeTable, keys: pa.Table, key: Sequence[str]) -> tuple[int, pa.Table]:
    """Keys and order of the rows whose keys may be among these, and the version that has them."""
    found = delta.opened(table)
    return found.version(), _rows_near(found, keys, key)


def _rows_near(found: "DeltaTable", keys: pa.Table, key: Sequence[str]) -> pa.Table:
    """The same of an opened table.

    Not by ``to_pyarrow_dataset``: with a filter, deltalake 1.6 leaves out files without statistics of the column.
    """
    from deltalake import QueryBuilder

    names = dict.fromkeys((*key, *order_columns([field.name for field in found.schema().fields])))
    name, low, high = bounds(keys)
    columns, ends = ", ".join(_quoted(column) for column in names), (_literal(low), _literal(high))
    where = f" WHERE {_quoted(name)} BETWEEN {ends[0]} AND {ends[1]}" if all(ends) else ""
    read = QueryBuilder().register("rows", found).execute(f"SELECT {columns} FROM rows{where}")  # noqa: S608
    return pa.table(read.read_all())


def _quoted(column: str) -> str:
    return '"' + column.replace('"', '""') + '"'


def _literal(value: Any) -> str:  # noqa: ANN401 - of any column
    """A number or a text in SQL; of another type nothing, so that all rows are read."""
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else ""


def replace(table: LakeTable, rows: pa.Table, key: Sequence[str], *, only_later: bool = False) -> None:
    """Put rows in the place of those with the same keys; rows that delete leave theirs empty."""
    from deltalake.exceptions import CommitFailedError

    for _ in commit_attempts(table.called):
        found = delta.opened(table)
        near = _rows_near(found, rows.select(key), key)
        counted = later(rows, key, near) if only_later else rows
        if not counted.num_rows or (_only_deletes(counted) and not near.num_rows):
            return
        try:
            if _merged(found, table, counted, key):
                return
        except CommitFailedError:
            continue  # another writer committed meanwhile


def _only_deletes(rows: pa.Table) -> bool:
    return bool(pc.all(rows.column(DELETED)).as_py())


def _merged(found: "DeltaTable", table: LakeTable, rows: pa.Table, key: Sequence[str]) -> bool:
    """Commit rows that were chosen against the found version; or only add their columns, and return False.

    Columns are added behind whatever was committed since, so that the rows must be chosen again.
    """
    from deltalake import CommitProperties

    compared = Fit(delta.schema(table)) if _only_deletes(rows) else delta.fitting(found, table, columns_of(rows))
    if compared.is_change:
        delta_log.add_columns(found, compared)
        return False
    changes = shaped(rows, compared.target).append_column(DELETED, rows.column(DELETED))
    same = " AND ".join(f"{OLD}.`{column}` = {NEW}.`{column}`" for column in key)
    columns = {f"`{column}`": f"{NEW}.`{column}`" for column in compared.target.names}
    once = CommitProperties(max_commit_retries=0)  # rows were chosen against this version
    merge = found.merge(changes, same, source_alias=NEW, target_alias=OLD, commit_properties=once)
    merge = merge.when_matched_delete(f"{NEW}.{DELETED}")
    merge = merge.when_matched_update(columns, f"NOT {NEW}.{DELETED}")
    merge.when_not_matched_insert(columns, f"NOT {NEW}.{DELETED}").execute()
    return True
