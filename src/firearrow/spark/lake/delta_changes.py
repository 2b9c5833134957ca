"""Rows of Delta tables replaced and deleted by key, with deltalake's merge: one commit.

New columns are added in a commit before it. deltalake's merge could add them itself (``merge_schema``), but in version
1.6 it makes structures that get a field null in rows that it only copies.
"""

from collections.abc import Sequence
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from firearrow.spark.lake import delta, delta_log
from firearrow.spark.lake.fit import Fit
from firearrow.spark.lake.keys import DELETED, bounds, columns_of, shaped
from firearrow.spark.lake.table import LakeTable

OLD: Final = "old_row"
NEW: Final = "new_row"


def rows_near(table: LakeTable, keys: pa.Table, names: Sequence[str]) -> pa.Table:
    """Columns of the rows whose keys may be among these.

    Not by ``to_pyarrow_dataset``: with a filter, deltalake 1.6 leaves out files without statistics of the column.
    """
    from deltalake import QueryBuilder

    name, low, high = bounds(keys)
    columns, ends = ", ".join(_quoted(column) for column in names), (_literal(low), _literal(high))
    where = f" WHERE {_quoted(name)} BETWEEN {ends[0]} AND {ends[1]}" if all(ends) else ""
    found = QueryBuilder().register("rows", delta.opened(table)).execute(f"SELECT {columns} FROM rows{where}")  # noqa: S608
    return pa.table(found.read_all())


def _quoted(column: str) -> str:
    return '"' + column.replace('"', '""') + '"'


def _literal(value: Any) -> str:  # noqa: ANN401 - of any column
    """A number or a text in SQL; of another type nothing, so that all rows are read."""
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else ""


def replace(table: LakeTable, rows: pa.Table, key: Sequence[str]) -> None:
    """Put rows in the place of those with the same keys; rows that delete leave theirs empty."""
    from deltalake.exceptions import CommitFailedError

    if _only_deletes(rows) and not rows_near(table, rows.select(key), key).num_rows:
        return
    for attempt in range(delta.ATTEMPTS):
        try:
            _merge(table, rows, key)
        except CommitFailedError:  # another writer committed meanwhile
            if attempt == delta.ATTEMPTS - 1:
                raise
        else:
            return


def _only_deletes(rows: pa.Table) -> bool:
    return bool(pc.all(rows.column(DELETED)).as_py())


def _merge(table: LakeTable, rows: pa.Table, key: Sequence[str]) -> None:
    found = delta.opened(table)
    compared = Fit(delta.schema(table)) if _only_deletes(rows) else delta.fitting(found, table, columns_of(rows))
    if compared.is_change:
        delta_log.add_columns(found, compared)
        found = delta.opened(table)
    changes = shaped(rows, compared.target).append_column(DELETED, rows.column(DELETED))
    same = " AND ".join(f"{OLD}.`{column}` = {NEW}.`{column}`" for column in key)
    columns = {f"`{column}`": f"{NEW}.`{column}`" for column in compared.target.names}
    merge = found.merge(changes, same, source_alias=NEW, target_alias=OLD)
    merge = merge.when_matched_delete(f"{NEW}.{DELETED}")
    merge = merge.when_matched_update(columns, f"NOT {NEW}.{DELETED}")
    merge.when_not_matched_insert(columns, f"NOT {NEW}.{DELETED}").execute()
