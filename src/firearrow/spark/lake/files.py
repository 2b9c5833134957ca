"""Rows of one task -> Parquet files, with their statistics for the table.

Invariants: a file is complete and closed before its name is reported; a name is never used twice, so a repeated task
never touches files of an earlier attempt; a file holds rows of one partition only; memory holds one row group, whatever
the number of rows; the number of open files is limited.

Only columns with few distinct values are dictionary-encoded: bodies and ids are all different, so a dictionary would
cost time and save nothing. Offsets and timestamps are delta-encoded.
"""

import random
from collections.abc import Iterable, Iterator
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq
from msgspec import Struct
from pyarrow import fs

from firearrow.errors import FireArrowError
from firearrow.runtime.clock import block
from firearrow.spark.lake.partitioning import Key, Rules, cut, told
from firearrow.spark.lake.statistics import ColumnBounds, Path, RowStatistics
from firearrow.spark.lake.storage import NONE, Settings, filesystem

ROW_GROUP_BYTES: Final = 64 << 20
FILE_BYTES: Final = 512 << 20
COMPRESSION: Final = "zstd"
COMPRESSION_LEVEL: Final = 1
MOST_OPEN: Final = 32
FILE_NAME: Final = "__file_name"
FEW_VALUES: Final = ("topic", "broker", "tags", "born_host", "store_host")


COMMIT_ATTEMPTS: Final = 20
FIRST_PAUSE_S: Final = 0.05
LONGEST_PAUSE_S: Final = 5.0


class CommitRefused(FireArrowError):
    """The table cannot accept these files any more."""


class DataFile(Struct, frozen=True):
    """One finished file: its partition, and the rules by which its rows were cut."""

    path: str
    rows: int
    size: int
    bounds: dict[Path, ColumnBounds]
    partition: Key = ()
    cut_by: str = ""


class LiveFiles(Struct, frozen=True):
    """The files that hold the rows of a table.

    ``bare`` ones lack the columns of their partitions, as other writers of Delta leave them; ``values`` has the columns
    for every file by its name (`FILE_NAME`). ``storage`` has the settings by which the files are reached.
    """

    whole: list[str]
    bare: list[str] = []
    values: pa.Table | None = None
    storage: Settings = NONE


class TableForm(Struct, frozen=True):
    """The directory of a table's files, the rules that cut rows into them, and the settings of their storage."""

    directory: str
    rules: Rules = ()
    storage: Settings = NONE


def require_cut(files: Iterable[DataFile], rules: Rules, name: str) -> None:
    """Raise if files were cut by other rules than a table has now."""
    if any(file.cut_by != told(rules) for file in files):
        raise CommitRefused(f"table {name} got another partitioning while rows were written; start again")


def fresh_name(prefix: str) -> str:
    """A file name that no attempt of any task uses again."""
    return f"{prefix}-{random.Random().getrandbits(64):016x}.parquet"


def write_files(
    batches: Iterable[pa.RecordBatch], directory: str, prefix: str, rules: Rules = (), settings: Settings = NONE
) -> list[DataFile]:
    """Write rows to files below a directory; without rows no file is made."""
    writing = _TaskFiles(directory, prefix, settings, told(rules))
    for group in _row_groups(batches):
        for key, rows in cut(group, rules):
            writing.write(key, rows)
    return writing.finish()


class _TaskFiles:
    """The files of one task: one that grows for each partition."""

    def __init__(self, directory: str, prefix: str, settings: Settings, cut_by: str) -> None:
        self._door, self._root = filesystem(directory, settings)
        self._prefix, self._cut_by = prefix, cut_by
        self._growing: dict[Key, _GrowingFile] = {}
        self._done: list[DataFile] = []

    def write(self, key: Key, rows: pa.Table) -> None:
        """Add rows of one partition."""
        current = self._growing.get(key)
        if current is None:
            if len(self._growing) >= MOST_OPEN:
                self._close(next(iter(self._growing)))
            self._door.create_dir(self._root, recursive=True)
            current = _GrowingFile(self._door, f"{self._root}/{fresh_name(self._prefix)}", rows.schema)
            self._growing[key] = current
        current.write(rows)
        if current.written >= FILE_BYTES:
            self._close(key)

    def _close(self, key: Key) -> None:
        self._done.append(self._growing.pop(key).close(key, self._cut_by))

    def finish(self) -> list[DataFile]:
        """Close open files; return all written files."""
        for key in list(self._growing):
            self._close(key)
        return self._done


def _row_groups(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    waiting: list[pa.RecordBatch] = []
    size = 0
    for batch in batches:
        if batch.num_rows == 0:
            continue
        waiting.append(batch)
        size += batch.nbytes
        if size >= ROW_GROUP_BYTES:
            yield pa.Table.from_batches(waiting)
            waiting, size = [], 0
    if waiting:
        yield pa.Table.from_batches(waiting)


class _GrowingFile:
    """A file that is being written."""

    def __init__(self, door: fs.FileSystem, path: str, schema: pa.Schema) -> None:
        self._path = path
        self._statistics = RowStatistics(schema)
        self._stream = door.open_output_stream(path)
        self._seen: list[pq.FileMetaData] = []
        self._writer = pq.ParquetWriter(
            self._stream,
            schema,
            compression=COMPRESSION,
            compression_level=COMPRESSION_LEVEL,
            use_dictionary=[name for name in FEW_VALUES if name in schema.names] or False,
            column_encoding={field.name: "DELTA_BINARY_PACKED" for field in schema if pa.types.is_int64(field.type)},
            metadata_collector=self._seen,
        )

    @property
    def written(self) -> int:
        return int(self._stream.tell())

    def write(self, group: pa.Table) -> None:
        self._writer.write_table(group, row_group_size=group.num_rows)
        self._statistics.add(group)

    def close(self, key: Key, cut_by: str) -> DataFile:
        self._writer.close()
        size = self.written
        self._stream.close()
        metadata = self._seen[0]
        return DataFile(self._path, metadata.num_rows, size, self._statistics.bounds(metadata), key, cut_by)


def commit_attempts(called: str) -> Iterator[None]:
    """Yield before each attempt to commit to a table that has other writers, after a pause from the second on.

    Pauses grow, and have jitter: writers that failed together try again at different times. Raise ``CommitRefused``
    when the last attempt has failed too.
    """
    chance = random.Random()
    for number in range(COMMIT_ATTEMPTS):
        if number:
            pause_s = min(FIRST_PAUSE_S * 2 ** (number - 1), LONGEST_PAUSE_S)
            block(chance.uniform(0.5, 1.0) * pause_s)
        yield
    raise CommitRefused(
        f"other writers committed to table {called} before each of {COMMIT_ATTEMPTS} attempts. Nothing of this batch "
        "is in the table, and nothing is lost: start the job again, it goes on there. Let fewer jobs write to one "
        "table, or commit less often (a longer trigger, larger batches)"
    )
