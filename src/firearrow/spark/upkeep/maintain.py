"""The steps of upkeep on a table, by its format and runtime."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import TYPE_CHECKING

from firearrow.errors import SettingsError
from firearrow.spark.lake.files import CommitRefused
from firearrow.spark.lake.table import LakeTable
from firearrow.spark.upkeep import delta, iceberg, statements
from firearrow.spark.upkeep.work import StepResult, Upkeep

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def maintain(table: LakeTable, work: Upkeep, now_ms: int) -> Iterator[StepResult]:
    """Do what is asked, a step at a time, in this process. A stream may fill the table meanwhile."""
    work.checked(table.checked())
    with _told(table):
        for step in _steps(table, work, now_ms):
            yield step()


@contextmanager
def _told(table: LakeTable) -> Iterator[None]:
    """Tell what the libraries raise in words of ours."""
    try:
        yield
    except Exception as wrong:
        kind = type(wrong).__name__
        if kind in ("NoSuchTableError", "NoSuchNamespaceError", "TableNotFoundError"):
            place = f" at {table.location}" if table.location else " in its catalog"
            raise SettingsError(f"there is no {table.format} table {table.called}{place}") from wrong
        if kind in ("CommitFailedException", "CommitFailedError"):
            raise CommitRefused(
                f"other writers changed table {table.called} before every attempt to commit. Steps that were told are "
                "done, the rest is not. Run it again when fewer batches are written"
            ) from wrong
        raise


def _steps(table: LakeTable, work: Upkeep, now_ms: int) -> list[Callable[[], StepResult]]:
    """The steps that are asked for, in the order in which they are done."""
    by: ModuleType = iceberg if table.format == "iceberg" else delta
    steps: list[tuple[bool, Callable[[], StepResult]]] = [
        (bool(work.delete_where), lambda: by.delete(table, work.delete_where)),
        (work.ttl_ms is not None, lambda: by.expired_rows(table, work, now_ms)),
        (work.compact, lambda: by.compact(table, work)),
        (work.expire_ms is not None, lambda: by.expire(table, work, now_ms)),
        (work.orphans_ms is not None, lambda: by.orphans(table, work, now_ms)),
    ]
    return [step for is_asked, step in steps if is_asked]


def maintain_natively(spark: "SparkSession", table: LakeTable, work: Upkeep, now_ms: int) -> Iterator[str]:
    """Do what is asked by statements of the format's own runtime in Spark; yield each when it is done."""
    work.checked(table.checked())
    columns = spark.table(statements.named(table)).columns
    for statement in statements.statements(table, work, columns, now_ms):
        spark.sql(statement).collect()
        yield statement
