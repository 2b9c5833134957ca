"""Delta tables through deltalake: made, appended to exactly once, listed.

One commit adds the files of a batch together with an application transaction ``(writer, batch)``. A batch at or below
the noted one is not added again, however often Spark repeats it.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

import msgspec

from firearrow.runtime.clock import SystemClock
from firearrow.spark.lake.files import Bounds, DataFile, filesystem
from firearrow.spark.lake.table import LakeTable

if TYPE_CHECKING:
    import pyarrow as pa
    from deltalake import DeltaTable

ATTEMPTS: Final = 8
DATA_DIRECTORY: Final = "data"


def ensure(table: LakeTable, schema: "pa.Schema") -> None:
    """Make the table unless it is there."""
    from deltalake import DeltaTable, Schema

    if not DeltaTable.is_deltatable(table.location):
        DeltaTable.create(table.location, schema=Schema.from_arrow(schema), mode="ignore")


def data_directory(table: LakeTable) -> str:
    """Where files of the table go."""
    return f"{table.location.rstrip('/')}/{DATA_DIRECTORY}"


def commit(table: LakeTable, writer: str, batch: int, files: Sequence[DataFile]) -> bool:
    """Add the files of a batch unless it is there already; say whether they were added."""
    from deltalake import DeltaTable
    from deltalake.exceptions import CommitFailedError

    for attempt in range(ATTEMPTS):
        found = DeltaTable(table.location)
        if last_batch(found, writer) >= batch:
            return False
        try:
            _add(found, table, writer, batch, files)
        except CommitFailedError:
            # Somebody else committed meanwhile: look again, for it may have been an earlier life of this batch.
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

    _, root = filesystem(table.location)
    now = SystemClock().now_ms()
    actions: list[AddAction | RemoveAction] = [
        AddAction(
            path=file.path.removeprefix(root).lstrip("/"),
            size=file.size,
            partition_values={},
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
    from deltalake import DeltaTable

    return list(DeltaTable(table.location).file_uris())


def schema(table: LakeTable) -> "pa.Schema":
    """The columns of the table."""
    import pyarrow as pa
    from deltalake import DeltaTable

    return pa.schema(DeltaTable(table.location).schema().to_arrow())
