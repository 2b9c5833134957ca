"""The steps of a table's upkeep, their results, and the small files that are rewritten together. Pure."""

from collections.abc import Callable, Iterable, Sequence
from typing import Final, TypeVar

from msgspec import Struct

from firearrow.errors import SettingsError, Unsupported
from firearrow.spark.lake.table import LakeTable

FILE_BYTES: Final = 128 << 20
MIN_FILES: Final = 5
MIN_ORPHAN_MS: Final = 3_600_000
"""A file without a commit may belong to a batch that is being written, so younger ones are never removed."""

FULL: Final = 0.75
"""The part of the wanted size from which on a file counts as large enough."""

TIME_COLUMNS: Final = ("store_timestamp", "_store_timestamp")
"""The columns of the store time, in tables of whole messages and of typed bodies."""

File = TypeVar("File")


class Upkeep(Struct, frozen=True):
    """The steps of a table's upkeep, in this order: delete rows, compact, expire, remove orphan files.

    Ages are in milliseconds; None leaves the step out. ``delete_where`` is a condition on columns, in the words of the
    library that rewrites the files. ``ttl_ms`` deletes rows whose ``ttl_column`` is older; without a column it is the
    time at which messages were stored.
    """

    compact: bool = False
    file_bytes: int = FILE_BYTES
    min_files: int = MIN_FILES
    delete_where: str = ""
    ttl_ms: int | None = None
    ttl_column: str = ""
    expire_ms: int | None = None
    orphans_ms: int | None = None

    def checked(self, table: LakeTable) -> "Upkeep":
        """Return this; raise if it asks for nothing, for too much, or for what the table's format has not."""
        if table.format == "parquet":
            raise Unsupported("plain Parquet has no commits that could replace files: use iceberg or delta")
        if not self.compact and not self.delete_where and (self.ttl_ms, self.expire_ms, self.orphans_ms) == (None,) * 3:
            raise SettingsError("nothing to do: give --compact, --delete-where, --ttl, --expire or --orphans")
        if self.ttl_column and self.ttl_ms is None:
            raise SettingsError("--ttl-column is about --ttl; give --ttl too, such as --ttl 90d")
        if self.file_bytes < 1 or self.min_files < 2:
            raise SettingsError("--file-mb is at least 1 and --min-files at least 2")
        if self.orphans_ms is not None and self.orphans_ms < MIN_ORPHAN_MS:
            raise SettingsError(
                "--orphans is at least 1h: a younger file without a commit may belong to a batch that is being written"
            )
        return self


class StepResult(Struct, frozen=True):
    """The result of one step. ``files`` were rewritten or removed, ``made`` are new, ``rows`` were deleted."""

    step: str
    files: int = 0
    made: int = 0
    rows: int = 0

    def line(self) -> str:
        """Return a line about the step, for people."""
        return {
            "delete": f"deleted {self.rows:,} rows: {self.files:,} files rewritten or removed",
            "ttl": f"deleted {self.rows:,} rows that were too old: {self.files:,} files rewritten or removed",
            "compact": f"compacted {self.files:,} files into {self.made:,}",
            "expire": f"expired old versions of the table: {self.files:,} files removed",
            "orphans": f"removed {self.files:,} files that no version of the table has",
        }[self.step]


def time_column(given: str, columns: Sequence[str], name: str) -> str:
    """The column by which rows grow old; raise if the table does not have it."""
    found = [column for column in ((given,) if given else TIME_COLUMNS) if column in columns]
    if not found:
        raise SettingsError(
            f"table {name} has no column {given or ' or '.join(TIME_COLUMNS)}; name a column of times with --ttl-column"
        )
    return found[0]


def bins(files: Iterable[File], size: Callable[[File], int], file_bytes: int, min_files: int) -> list[list[File]]:
    """Small files of one partition that become one file each; neighbours stay neighbours."""
    made: list[list[File]] = []
    total = 0
    for file in files:
        weight = size(file)
        if weight >= FULL * file_bytes:
            continue
        if not made or total + weight > file_bytes:
            made.append([])
            total = 0
        made[-1].append(file)
        total += weight
    # Full bins are worth it with two files; the last one waits until enough files came together.
    return [each for each in made if len(each) >= min_files or (each is not made[-1] and len(each) > 1)]
