"""Upkeep of Delta tables through deltalake: its ``optimize``, ``delete`` and ``vacuum``.

A commit that meets another one is rebased by deltalake if the two do not touch each other: compaction and appended
files never do. A deletion does with every appended file that may have a matching row, and is then made anew. Files that
were removed from the table are vacuumed by the time of their removal, files without a commit by their age.
"""

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote

from firearrow.errors import SettingsError, Unsupported
from firearrow.spark.lake import delta
from firearrow.spark.lake.files import COMPRESSION_LEVEL
from firearrow.spark.lake.table import LakeTable
from firearrow.spark.upkeep.work import StepResult, Upkeep, time_column

if TYPE_CHECKING:
    from collections.abc import Callable

    from deltalake import DeltaTable

ATTEMPTS: Final = 20
PASSES: Final = 10
HOUR_MS: Final = 3_600_000
KEPT_HOURS: Final = 168
"""Hours for which Delta keeps removed files for readers of older versions unless told otherwise: a week."""


def compact(table: LakeTable, work: Upkeep) -> StepResult:
    """Rewrite small files of each partition as larger ones; the rows stay what they are."""

    def step(found: "DeltaTable") -> dict[str, Any]:
        return found.optimize.compact(
            target_size=work.file_bytes, writer_properties=_writing(), commit_properties=_notes("compaction")
        )

    done = _retried(table, step)
    return StepResult("compact", int(done["numFilesRemoved"]), int(done["numFilesAdded"]))


def delete(table: LakeTable, where: str, step: str = "delete") -> StepResult:
    """Delete rows by rewriting the files that have them, until a look at the whole table finds none."""
    files = made = rows = 0
    for _ in range(PASSES):
        done = _retried(table, lambda found: _deleted(found, table, where))
        if not done["num_removed_files"]:
            return StepResult(step, files, made, rows)
        files, made = files + done["num_removed_files"], made + done["num_added_files"]
        rows += done.get("num_deleted_rows") or 0
    raise Unsupported(
        f"rows that match came as fast as they were deleted from table {table.called}; {rows:,} are gone. Run it again"
    )


def _deleted(found: "DeltaTable", table: LakeTable, where: str) -> dict[str, Any]:
    from deltalake.exceptions import CommitFailedError

    try:
        return found.delete(where, writer_properties=_writing(), commit_properties=_notes("deletion"))
    except (CommitFailedError, OSError):
        raise
    except Exception as wrong:  # deltalake tells of a condition that it cannot use by errors of many kinds
        reason = str(wrong).splitlines()[0]
        raise SettingsError(
            f"condition {where!r} cannot be used on table {table.called}: {reason}. Compare columns with values, "
            f"such as id = 7 or item in ('a', 'b'); columns are {', '.join(delta.schema(table).names)}"
        ) from wrong


def expired_rows(table: LakeTable, work: Upkeep, now_ms: int) -> StepResult:
    """Delete the rows that are older than they may be."""
    column = time_column(work.ttl_column, delta.schema(table).names, table.called)
    limit = datetime.fromtimestamp((now_ms - (work.ttl_ms or 0)) / 1000, UTC)
    return delete(table, f"{column} < '{limit:%Y-%m-%dT%H:%M:%S.%fZ}'", "ttl")


def expire(table: LakeTable, work: Upkeep, _now_ms: int) -> StepResult:
    """Vacuum files that were removed from the table long enough ago, by deltalake's clock, and shorten the log."""
    removed = _vacuum(table, _hours(work.expire_ms or 0), full=False)
    found = delta.opened(table)
    found.create_checkpoint()
    found.cleanup_metadata()
    return StepResult("expire", removed)


def orphans(table: LakeTable, work: Upkeep, _now_ms: int) -> StepResult:
    """Remove files that no version has and that are old; files that were removed from the table keep their time."""
    kept = KEPT_HOURS if work.expire_ms is None else _hours(work.expire_ms)
    hours = max(kept, _hours(work.orphans_ms or 0))
    _require_own(table, delta.opened(table).vacuum(hours, enforce_retention_duration=False, full=True))
    return StepResult("orphans", _vacuum(table, hours, full=True))


def _require_own(table: LakeTable, files: list[str]) -> None:
    """Raise if a file is none of the table's: a checkpoint, or another table, that lies below its location."""
    for file in files:
        *folders, name = unquote(file).split("/")
        if not name.endswith(".parquet") or any(folder != "data" and "=" not in folder for folder in folders):
            raise SettingsError(
                f"{file} lies below the location of table {table.called} and is none of its data files: a checkpoint "
                "or another table? Nothing was removed. Move it away, and run this again"
            )


def _hours(age_ms: int) -> int:
    """Whole hours, rounded up: deltalake takes no parts of one."""
    return -(-age_ms // HOUR_MS)


def _vacuum(table: LakeTable, hours: int, *, full: bool) -> int:
    def step(found: "DeltaTable") -> list[str]:
        return list(found.vacuum(hours, dry_run=False, enforce_retention_duration=False, full=full))

    return len(_retried(table, step))


def _writing() -> Any:  # noqa: ANN401 - deltalake's type is imported late
    from deltalake import WriterProperties

    return WriterProperties(compression="ZSTD", compression_level=COMPRESSION_LEVEL)


def _notes(why: str) -> Any:  # noqa: ANN401 - deltalake's type is imported late
    from deltalake import CommitProperties

    return CommitProperties(custom_metadata={"firearrow.upkeep": why})


def _retried(table: LakeTable, step: "Callable[[DeltaTable], Any]") -> Any:  # noqa: ANN401 - what the step returns
    """Do a step on the newest version, again if another commit crossed it."""
    from deltalake.exceptions import CommitFailedError

    for attempt in range(ATTEMPTS):
        found = delta.opened(table)
        try:
            return step(found)
        except CommitFailedError:
            if attempt == ATTEMPTS - 1:
                raise
    raise AssertionError("unreachable: the last attempt returns or raises")
