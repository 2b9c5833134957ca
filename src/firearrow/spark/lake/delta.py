"""Delta tables through deltalake: made, compared with the rows, appended to exactly once, listed.

One commit adds the files of a batch together with an application transaction ``(writer, batch)``, and with new columns
if the table may get them. A batch with the same or a lower number is not added again, however often Spark repeats it.
Types are not widened: Delta does so by its table feature ``typeWidening``, which deltalake neither writes nor reads.
"""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

import msgspec

from firearrow.errors import Unsupported
from firearrow.runtime.clock import SystemClock
from firearrow.spark.lake import delta_log, fit
from firearrow.spark.lake.files import (
    FILE_NAME,
    CommitRefused,
    DataFile,
    LiveFiles,
    TableForm,
    commit_attempts,
    require_cut,
)
from firearrow.spark.lake.fit import Fit
from firearrow.spark.lake.partitioning import (
    PartitionRule,
    Rules,
    delta_values,
    derived,
    require_same,
    require_supported,
    underived,
)
from firearrow.spark.lake.statistics import ColumnBounds, Path
from firearrow.spark.lake.storage import delta_settings, filesystem, for_python
from firearrow.spark.lake.table import LakeTable

if TYPE_CHECKING:
    import pyarrow as pa
    from deltalake import DeltaTable

DATA_DIRECTORY: Final = "data"


def ensure(table: LakeTable, schema: "pa.Schema") -> "pa.Schema":
    """Create the table if it is missing; return the columns that it will have when it takes rows of this schema."""
    from deltalake import DeltaTable, Schema

    asked = tuple(PartitionRule(derived(rule)) for rule in table.rules)
    if not exists(table):
        require_supported(asked, schema, table.called)
        DeltaTable.create(
            for_python(table.location),
            schema=Schema.from_arrow(schema),
            mode="ignore",
            partition_by=[rule.column for rule in asked] or None,
            storage_options=delta_settings(table.storage_settings),
        )
    found = opened(table)
    require_same(asked, _rules(found), table.called)
    return fitting(found, table, schema).target


def exists(table: LakeTable) -> bool:
    """Whether the table was created."""
    from deltalake import DeltaTable

    settings = delta_settings(table.storage_settings)
    return bool(DeltaTable.is_deltatable(for_python(table.location), storage_options=settings))


def partitions(table: LakeTable, rows: Collection[str]) -> Rules:
    """The rules for which the partition columns of an existing table stand, for rows with these columns."""
    found = opened(table)
    return tuple(underived(rule.column, _schema(found), rows) for rule in _rules(found))


def opened(table: LakeTable) -> "DeltaTable":
    """The table as it is now."""
    from deltalake import DeltaTable

    return DeltaTable(for_python(table.location), storage_options=delta_settings(table.storage_settings))


def fitting(found: "DeltaTable", table: LakeTable, schema: "pa.Schema") -> Fit:
    """Compare rows with the table; raise unless they fit or the table may change so that they do."""
    rules = _rules(found)
    compared = fit.compare(schema, _schema(found), fit.no_widening)
    fit.require(compared, table.evolve, table.called)
    require_supported(rules, compared.target, table.called)
    _require_plain(found, table)
    if any(delta_log.has_local_times(change.type) for change in compared.added):
        features = found.protocol().writer_features or ()
        if "timestampNtz" not in features:
            raise Unsupported(
                f"table {table.called} has no times without a zone yet, and only Delta's own runtime adds the first. "
                "Nothing was written. Make the column a timestamp, or use the native runtime"
            )
    return compared


def _require_plain(found: "DeltaTable", table: LakeTable) -> None:
    """Raise if a table has rules that only Delta's own runtime keeps."""
    settings = dict(found.metadata().configuration)
    wanted = {name: value for name, value in settings.items() if name.startswith("delta.constraints.")}
    if settings.get("delta.columnMapping.mode", "none") != "none":
        wanted["delta.columnMapping.mode"] = settings["delta.columnMapping.mode"]
    wanted |= delta_log.generated(found.schema().to_json())
    for name, value in sorted(wanted.items()):
        raise Unsupported(
            f"Delta table {table.called} has {name} = {value}, which is not kept without Delta's own runtime. "
            "Nothing was written. Use the native runtime, or fill another table"
        )


def form(table: LakeTable, schema: "pa.Schema") -> TableForm:
    """Return the directory and rules of files with rows of this schema; raise if the table cannot take them."""
    found = opened(table)
    _require_uncast(fitting(found, table, schema), table)
    return TableForm(data_directory(table), _rules(found), table.storage_settings)


def _require_uncast(compared: Fit, table: LakeTable) -> None:
    if compared.cast:
        raise CommitRefused(
            f"table {table.called} got wider types ({', '.join(compared.cast)}) since this job began; start it again"
        )


def data_directory(table: LakeTable) -> str:
    """Return the directory of the table's new files."""
    return f"{for_python(table.location).rstrip('/')}/{DATA_DIRECTORY}"


def _rules(found: "DeltaTable") -> Rules:
    return tuple(PartitionRule(column) for column in found.metadata().partition_columns)


def commit(table: LakeTable, writer: str, batch: int, files: Sequence[DataFile], schema: "pa.Schema") -> bool:
    """Add the files of a batch unless the table has the batch already; return whether they were added."""
    from deltalake.exceptions import CommitFailedError

    for _ in commit_attempts(table.called):
        found = opened(table)
        if last_batch(found, writer) >= batch:
            return False
        compared = fitting(found, table, schema)
        _require_uncast(compared, table)
        require_cut(files, _rules(found), table.called)
        try:
            _add(found, table, writer, batch, files, compared)
        except (CommitFailedError, FileExistsError):
            continue  # another writer committed meanwhile, perhaps an earlier attempt of this batch: look again
        return True
    raise AssertionError("unreachable: the attempts end with an error")


def last_batch(found: "DeltaTable", writer: str) -> int:
    """The last batch of a writer that the table holds, or -1. Version 0 is a version."""
    version = found.transaction_version(writer)
    return -1 if version is None else version


def _add(
    found: "DeltaTable", table: LakeTable, writer: str, batch: int, files: Sequence[DataFile], compared: Fit
) -> None:
    from deltalake import CommitProperties, Transaction

    _, root = filesystem(table.location, table.storage_settings)
    notes = {"firearrow.writer": writer, "firearrow.batch": str(batch)}
    actions = [_action(file, root, _rules(found)) for file in files]
    if compared.is_change and delta_log.is_local(table.location):
        delta_log.append(root, found, delta_log.Batch(writer, batch, notes), actions, compared)
        return
    if compared.is_change:
        # No library puts columns and files into one commit of an object store. A kill between leaves empty columns,
        # and the batch is repeated.
        delta_log.add_columns(found, compared)
        found = opened(table)
    found.create_write_transaction(
        actions,
        mode="append",
        partition_by=[rule.column for rule in _rules(found)] or None,
        schema=found.schema(),
        commit_properties=CommitProperties(custom_metadata=notes, app_transactions=[Transaction(writer, batch)]),
    )


def _action(file: DataFile, root: str, rules: Rules) -> Any:  # noqa: ANN401 - deltalake's type is imported late
    from deltalake.transaction import AddAction

    return AddAction(
        path=file.path.removeprefix(root).lstrip("/"),
        size=file.size,
        partition_values=delta_values(rules, file.partition),
        modification_time=SystemClock().now_ms(),
        data_change=True,
        stats=_stats(file),
    )


def _stats(file: DataFile) -> str:
    lows, highs, nulls = ({path: part(bounds) for path, bounds in file.bounds.items()} for part in _PARTS)
    found: dict[str, Any] = {
        "numRecords": file.rows,
        "minValues": _nested({path: value for path, value in lows.items() if value is not None}),
        "maxValues": _nested({path: value for path, value in highs.items() if value is not None}),
        "nullCount": _nested(nulls),
    }
    return _STATISTICS.encode(found).decode()


def _nested(values: Mapping[Path, object]) -> dict[str, Any]:
    """Values by path, as objects inside of objects."""
    found: dict[str, Any] = {}
    for path, value in values.items():
        at = found
        for name in path[:-1]:
            at = at.setdefault(name, {})
        at[path[-1]] = value
    return found


def _low(bounds: ColumnBounds) -> object:
    return _told(bounds.low) if isinstance(bounds.low, datetime) else bounds.low


def _high(bounds: ColumnBounds) -> object:
    # Statistics have milliseconds: a high bound must reach beyond what is cut off.
    value = bounds.high
    is_cut = isinstance(value, datetime) and value.microsecond % 1000
    return _told(value + timedelta(milliseconds=1) if is_cut else value) if isinstance(value, datetime) else value


def _told(value: datetime) -> str:
    return f"{value:%Y-%m-%dT%H:%M:%S}.{value.microsecond // 1000:03d}{'Z' if value.tzinfo else ''}"


def _nulls(bounds: ColumnBounds) -> int:
    return bounds.nulls


_PARTS: Final = (_low, _high, _nulls)
_STATISTICS: Final = msgspec.json.Encoder(decimal_format="number")


def live_files(table: LakeTable) -> LiveFiles:
    """The files that hold the rows of the table now."""
    found = opened(table)
    if "deletionVectors" in (found.protocol().reader_features or ()):
        raise Unsupported(f"table {table.called} has deletion vectors, which only Delta's own runtime in Spark applies")
    files, rules = list(found.file_uris()), _rules(found)
    if not rules:
        return LiveFiles(files)
    ours = data_directory(table).rpartition("://")[2] + "/"
    whole = [file for file in files if file.rpartition("://")[2].startswith(ours)]
    bare = sorted(set(files) - set(whole))
    return LiveFiles(whole, bare, _partition_values(found, rules) if bare else None)


def _partition_values(found: "DeltaTable", rules: Rules) -> "pa.Table":
    """The partition of every file, by the name of the file."""
    import pyarrow as pa

    listed = pa.table(found.get_add_actions(flatten=True))
    names = pa.array([path.rpartition("/")[2] for path in listed.column("path").to_pylist()], pa.string())
    columns = {rule.column: listed.column(f"partition.{rule.column}") for rule in rules}
    return pa.table({FILE_NAME: names, **columns})


def schema(table: LakeTable) -> "pa.Schema":
    """The columns of the table."""
    return _schema(opened(table))


def _schema(found: "DeltaTable") -> "pa.Schema":
    import pyarrow as pa

    return pa.schema(found.schema().to_arrow())
