"""The steps of upkeep on a table, by its format and runtime."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from firearrow.errors import SettingsError
from firearrow.spark.lake.files import CommitRefused
from firearrow.spark.lake.table import LakeTable
from firearrow.spark.upkeep import delta, iceberg, statements
from firearrow.spark.upkeep.work import Done, Upkeep

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def maintain(table: LakeTable, work: Upkeep, now_ms: int) -> Iterator[Done]:
    """Do what is asked, a step at a time, in this process. A stream may fill the table meanwhile."""
    work.checked(table.checked())
    with _told(table):
        yield from (_iceberg if table.format == "iceberg" else _delta)(table, work, now_ms)


@contextmanager
def _told(table: LakeTable) -> Iterator[None]:
    """Tell what the libraries raise in words of ours."""
    try:
        yield
    except Exception as wrong:
        kind = type(wrong).__name__
        if kind in ("NoSuchTableError", "NoSuchNamespaceError", "TableNotFoundError"):
            raise SettingsError(f"there is no {table.format} table {table.called} at {table.location}") from wrong
        if kind in ("CommitFailedException", "CommitFailedError"):
            raise CommitRefused(
                f"other writers changed table {table.called} before every attempt to commit. Steps that were told are "
                "done, the rest is not. Run it again when fewer batches are written"
            ) from wrong
        raise


def _iceberg(table: LakeTable, work: Upkeep, now_ms: int) -> Iterator[Done]:
    if work.delete_where:
        yield iceberg.delete(table, work.delete_where)
    if work.ttl_ms is not None:
        yield iceberg.expired_rows(table, work, now_ms)
    if work.compact:
        yield iceberg.compact(table, work)
    if work.expire_ms is not None:
        yield iceberg.expire(table, work, now_ms)
    if work.orphans_ms is not None:
        yield iceberg.orphans(table, work, now_ms)


def _delta(table: LakeTable, work: Upkeep, now_ms: int) -> Iterator[Done]:
    if work.delete_where:
        yield delta.delete(table, work.delete_where)
    if work.ttl_ms is not None:
        yield delta.expired_rows(table, work, now_ms)
    if work.compact:
        yield delta.compact(table, work)
    if work.expire_ms is not None:
        yield delta.expire(table, work)
    if work.orphans_ms is not None:
        yield delta.orphans(table, work)


def maintain_natively(spark: "SparkSession", table: LakeTable, work: Upkeep, now_ms: int) -> Iterator[str]:
    """Do what is asked by statements of the format's own runtime in Spark; yield each when it is done."""
    work.checked(table.checked())
    columns = spark.table(statements.named(table)).columns
    for statement in statements.statements(table, work, columns, now_ms):
        spark.sql(statement).collect()
        yield statement
