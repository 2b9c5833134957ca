"""Delta tables through deltalake: made, compared with the rows, appended to exactly once, listed.

One commit adds the files of a batch together with an application transaction ``(writer, batch)``. A batch with the same
or a lower number is not added again, however often Spark repeats it.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

import msgspec

from firearrow.errors import FireArrowError, Unsupported
from firearrow.runtime.clock import SystemClock
from firearrow.spark.lake import fit
from firearrow.spark.lake.files import Bounds, DataFile
from firearrow.spark.lake.partitioning import Rule, Rules, delta_values, require_supported
from firearrow.spark.lake.storage import delta_settings, filesystem, for_python
from firearrow.spark.lake.table import LakeTable

if TYPE_CHECKING:
    import pyarrow as pa
    from deltalake import DeltaTable

ATTEMPTS: Final = 8
DATA_DIRECTORY: Final = "data"


class CommitRefused(FireArrowError):
    """The table cannot accept these files any more."""


def ensure(table: LakeTable, schema: "pa.Schema") -> None:
    """Create the table if it is missing; an existing table must accept rows of this schema."""
    from deltalake import DeltaTable, Schema

    place, settings = for_python(table.location), delta_settings(table.storage_settings)
    if DeltaTable.is_deltatable(place, storage_options=settings):
        _require_fit(_open(table), table, schema)
    else:
        made = Schema.from_arrow(schema)
        DeltaTable.create(place, schema=made, mode="ignore", storage_options=settings)


def _open(table: LakeTable) -> "DeltaTable":
    from deltalake import DeltaTable

    return DeltaTable(for_python(table.location), storage_options=delta_settings(table.storage_settings))


def _require_fit(found: "DeltaTable", table: LakeTable, schema: "pa.Schema") -> None:
    fit.require_fit(schema, _schema(found), table.called)
    require_supported(_rules(found), schema, table.called)
    settings = found.metadata().configuration
    for name, value in sorted(settings.items()):
        if name.startswith("delta.constraints.") or (name == "delta.columnMapping.mode" and value != "none"):
            raise Unsupported(
                f"Delta table {table.called} has {name} = {value}, which is not kept without Delta's own runtime. "
                "Nothing was written. Use the native runtime, or fill another table"
            )


def data_directory(table: LakeTable) -> str:
    """Where files of the table go."""
    return f"{for_python(table.location).rstrip('/')}/{DATA_DIRECTORY}"


def partitioning(table: LakeTable) -> Rules:
    """What the table is partitioned by."""
    return _rules(_open(table))


def _rules(found: "DeltaTable") -> Rules:
    return tuple(Rule(column) for column in found.metadata().partition_columns)


def commit(table: LakeTable, writer: str, batch: int, files: Sequence[DataFile], schema: "pa.Schema") -> bool:
    """Add the files of a batch unless the table has the batch already; return whether they were added."""
    from deltalake.exceptions import CommitFailedError

    for attempt in range(ATTEMPTS):
        found = _open(table)
        if last_batch(found, writer) >= batch:
            return False
        _require_fit(found, table, schema)
        try:
            _add(found, table, writer, batch, files)
        except CommitFailedError:
            # Another writer committed meanwhile: check again, it may have been an earlier attempt of this batch.
            if attempt == ATTEMPTS - 1:
                raise
        else:
            return True
    raise AssertionError("unreachable: the last attempt returns or raises")


def last_batch(found: "DeltaTable", writer: str) -> int:
    """The last batch of a writer that the table holds, or -1. Version 0 is a version."""
    version = found.transaction_version(writer)
    return -1 if version is None else version


def _add(found: "DeltaTable", table: LakeTable, writer: str, batch: int, files: Sequence[DataFile]) -> None:
    from deltalake import CommitProperties, Transaction
    from deltalake.transaction import AddAction, RemoveAction

    _, root = filesystem(table.location, table.storage_settings)
    now, rules = SystemClock().now_ms(), _rules(found)
    if any(len(file.partition) != len(rules) for file in files):
        raise CommitRefused(f"table {table.called} got another partitioning while rows were written; start again")
    actions: list[AddAction | RemoveAction] = [
        AddAction(
            path=file.path.removeprefix(root).lstrip("/"),
            size=file.size,
            partition_values=delta_values(rules, file.partition),
            modification_time=now,
            data_change=True,
            stats=_stats(file),
        )
        for file in files
    ]
    notes = {"firearrow.writer": writer, "firearrow.batch": str(batch)}
    found.create_write_transaction(
        actions,
        mode="append",
        partition_by=[rule.column for rule in rules] or None,
        schema=found.schema(),
        commit_properties=CommitProperties(custom_metadata=notes, app_transactions=[Transaction(writer, batch)]),
    )


def _stats(file: DataFile) -> str:
    kept: Mapping[str, Bounds] = file.bounds
    found: dict[str, Any] = {
        "numRecords": file.rows,
        "minValues": {name: _plain(bounds.low) for name, bounds in kept.items()},
        "maxValues": {name: _plain(bounds.high) for name, bounds in kept.items()},
        "nullCount": {name: bounds.nulls for name, bounds in kept.items()},
    }
    return msgspec.json.encode(found).decode()


def _plain(value: object) -> object:
    # Delta keeps milliseconds in statistics; readers take a high bound to reach a millisecond further.
    return f"{value:%Y-%m-%dT%H:%M:%S}.{value.microsecond // 1000:03d}Z" if isinstance(value, datetime) else value


def data_files(table: LakeTable) -> list[str]:
    """The files that hold the rows of the table now."""
    found = _open(table)
    files = list(found.file_uris())
    if "deletionVectors" in (found.protocol().reader_features or ()):
        raise Unsupported(f"table {table.called} has deletion vectors, which only Delta's own runtime in Spark applies")
    ours = data_directory(table).rpartition("://")[2] + "/"
    if _rules(found) and not all(file.rpartition("://")[2].startswith(ours) for file in files):
        raise Unsupported(
            f"table {table.called} is partitioned and was written by others too, whose files lack the columns of its "
            "partitions; only Delta's own runtime in Spark reads them"
        )
    return files


def schema(table: LakeTable) -> "pa.Schema":
    """The columns of the table."""
    return _schema(_open(table))


def _schema(found: "DeltaTable") -> "pa.Schema":
    import pyarrow as pa

    return pa.schema(found.schema().to_arrow())
