"""Rows of Iceberg tables replaced and deleted by key, with pyiceberg, by copy-on-write: one snapshot.

Files that hold one of the keys are written anew without it; files that cannot hold one, by their statistics, are not
read. The snapshot drops the old files and adds the new ones.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from firearrow.errors import Unsupported
from firearrow.spark.lake.files import DataFile, commit_attempts, write_files
from firearrow.spark.lake.fit import Fit
from firearrow.spark.lake.iceberg import catalog, fitting, manifest_file, once, rules_of, storage_of, take_columns
from firearrow.spark.lake.iceberg import schema as schema_of
from firearrow.spark.lake.keys import DELETED, bounds, columns_of, keys_of, shaped, without
from firearrow.spark.lake.order import later, order_columns
from firearrow.spark.lake.table import LakeTable

if TYPE_CHECKING:
    from pyiceberg.expressions import BooleanExpression
    from pyiceberg.table import FileScanTask, Table


def version(table: LakeTable) -> int:
    """The version of the rows: while it is the same, so are they."""
    return _version(catalog(table).load_table(table.name))


def _version(found: "Table") -> int:
    return -1 if found.metadata.current_snapshot_id is None else found.metadata.current_snapshot_id


def rows_near(table: LakeTable, keys: pa.Table, key: Sequence[str]) -> tuple[int, pa.Table]:
    """Keys and order of the rows whose keys may be among these, and the version that has them."""
    found = catalog(table).load_table(table.name)
    return _version(found), _rows_near(found, keys, key)


def _rows_near(found: "Table", keys: pa.Table, key: Sequence[str]) -> pa.Table:
    names = (*key, *order_columns([field.name for field in found.schema().fields]))
    return found.scan(row_filter=_near(keys), selected_fields=names).to_arrow()


def _near(keys: pa.Table) -> "BooleanExpression":
    from pyiceberg.expressions import And, GreaterThanOrEqual, LessThanOrEqual

    name, low, high = bounds(keys)
    return And(GreaterThanOrEqual(name, low), LessThanOrEqual(name, high))  # type: ignore[arg-type,call-arg]


def replace(table: LakeTable, rows: pa.Table, key: Sequence[str], *, only_later: bool = False) -> None:
    """Put rows in the place of those with the same keys; rows that delete leave theirs empty."""
    from pyiceberg.exceptions import CommitFailedException

    for _ in commit_attempts(table.called):
        found = catalog(table).load_table(table.name)
        counted = later(rows, key, _rows_near(found, rows.select(key), key)) if only_later else rows
        try:
            if counted.num_rows:
                _replace(found, table, counted, key)
        except CommitFailedException:
            continue  # another writer committed meanwhile
        return


def _replace(found: "Table", table: LakeTable, rows: pa.Table, key: Sequence[str]) -> None:
    stays, gone = rows.filter(pc.invert(rows.column(DELETED))), set(keys_of(rows, key))
    compared = fitting(found, table, columns_of(rows)) if stays.num_rows else Fit(schema_of(table))
    parts, old = [shaped(stays, compared.target)], []
    for task in found.scan(row_filter=_near(rows.select(key))).plan_files():
        whole = _read(found, task)
        left = without(whole, key, gone)
        if left.num_rows < whole.num_rows:
            old.append(task.file)
            parts.append(shaped(left, compared.target))
    batches = [batch for part in parts for batch in part.to_batches()]
    made = write_files(batches, f"{found.location()}/data", "changes", rules_of(found), storage_of(found))
    if made or old:
        _commit(found, old, made, compared)


def _read(found: "Table", task: "FileScanTask") -> pa.Table:
    from pyiceberg.expressions import AlwaysTrue
    from pyiceberg.io.pyarrow import ArrowScan

    if task.delete_files:
        raise Unsupported("the table has delete files, which only Iceberg's own runtime in Spark can apply")
    return ArrowScan(found.metadata, found.io, found.schema(), AlwaysTrue()).to_table([task])


def _commit(found: "Table", old: Sequence[Any], made: Sequence[DataFile], compared: Fit) -> None:
    with once(found) as change:
        take_columns(change, compared)
        with change.update_snapshot().overwrite() as snapshot:
            for file in old:
                snapshot.delete_data_file(file)
            for file in made:
                snapshot.append_data_file(manifest_file(change, found, file))
