"""Upkeep by the format's own runtime in Spark: the statements that do it. Pure."""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime

from firearrow.spark.lake.storage import for_spark
from firearrow.spark.lake.table import LakeTable
from firearrow.spark.upkeep.delta import HOUR_MS, KEPT_HOURS
from firearrow.spark.upkeep.work import Upkeep, time_column


def named(table: LakeTable) -> str:
    """The table as Spark's SQL calls it."""
    return table.name or f"delta.`{for_spark(table.location)}`"


def statements(table: LakeTable, work: Upkeep, columns: Sequence[str], now_ms: int) -> Iterator[str]:
    """Return the statements of the upkeep, in order."""
    if work.delete_where:
        yield f"DELETE FROM {named(table)} WHERE {work.delete_where}"  # noqa: S608 - the user's own statement
    if work.ttl_ms is not None:
        column = time_column(work.ttl_column, columns, table.called)
        yield f"DELETE FROM {named(table)} WHERE {column} < {_moment(now_ms - work.ttl_ms)}"  # noqa: S608 - a checked column
    yield from _of_iceberg(table, work, now_ms) if table.format == "iceberg" else _of_delta(table, work)


def _of_iceberg(table: LakeTable, work: Upkeep, now_ms: int) -> Iterator[str]:
    catalog, _, name = table.name.partition(".")
    if work.compact:
        options = f"'target-file-size-bytes', '{work.file_bytes}', 'min-input-files', '{work.min_files}'"
        yield f"CALL {catalog}.system.rewrite_data_files(table => '{name}', options => map({options}))"
    if work.expire_ms is not None:
        at = _moment(now_ms - work.expire_ms)
        yield f"CALL {catalog}.system.expire_snapshots(table => '{name}', older_than => {at}, retain_last => 1)"
    if work.orphans_ms is not None:
        at = _moment(now_ms - work.orphans_ms)
        yield f"CALL {catalog}.system.remove_orphan_files(table => '{name}', older_than => {at})"


def _of_delta(table: LakeTable, work: Upkeep) -> Iterator[str]:
    if work.compact:
        yield f"SET spark.databricks.delta.optimize.maxFileSize = {work.file_bytes}"
        yield f"OPTIMIZE {named(table)}"
    if work.expire_ms is None and work.orphans_ms is None:
        return
    yield "SET spark.databricks.delta.retentionDurationCheck.enabled = false"
    if work.expire_ms is not None:
        yield f"VACUUM {named(table)} LITE RETAIN {-(-work.expire_ms // HOUR_MS)} HOURS"
    if work.orphans_ms is not None:
        kept = KEPT_HOURS * HOUR_MS if work.expire_ms is None else work.expire_ms
        yield f"VACUUM {named(table)} RETAIN {-(-max(kept, work.orphans_ms) // HOUR_MS)} HOURS"


def _moment(at_ms: int) -> str:
    return f"TIMESTAMP '{datetime.fromtimestamp(at_ms / 1000, UTC):%Y-%m-%d %H:%M:%S.%f} UTC'"
