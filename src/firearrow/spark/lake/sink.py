"""The Spark sink of lake tables: executors write Parquet files, the driver commits their names from Python.

Each batch is written exactly once, also if processes are killed: uncommitted files are invisible, one commit adds a
whole batch and notes its number, and a noted batch is not added again. ``abort`` deletes nothing, because Spark also
calls it when ``commit`` raised after the table had accepted the files.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import ModuleType
from typing import TYPE_CHECKING, Final

from pyspark.sql.datasource import DataSource, DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

from firearrow.errors import Unsupported
from firearrow.spark.lake import delta, iceberg
from firearrow.spark.lake.files import DataFile, write_files
from firearrow.spark.lake.frames import arrow_schema
from firearrow.spark.lake.table import LakeTable, table_of
from firearrow.spark.sink.writer import streaming_place

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

NAME: Final = "firearrow-lake"


def committer(table: LakeTable) -> ModuleType:
    """The module that commits to tables of this format."""
    return {"iceberg": iceberg, "delta": delta}[table.format]


@dataclass
class WrittenFiles(WriterCommitMessage):
    """The files that one task wrote."""

    writer: str
    files: list[DataFile] = field(default_factory=list)


class LakeSink(DataSource):
    """``format("firearrow-lake")``: one lake table as a sink."""

    @classmethod
    def name(cls) -> str:
        """Return the name of the sink for ``format``."""
        return NAME

    def writer(self, schema: "StructType", overwrite: bool) -> "LakeBatchWriter":
        """Append a DataFrame."""
        if overwrite:
            raise Unsupported("the lake sink only appends: use mode('append')")
        return LakeBatchWriter(self.options, arrow_schema(schema))

    def streamWriter(self, schema: "StructType", overwrite: bool) -> "LakeStreamWriter":  # noqa: ARG002, N802
        """Append the batches of a query."""
        return LakeStreamWriter(self.options, arrow_schema(schema))


class Target:
    """The table, as tasks and the commit need to know it.

    Spark makes it on the driver before the tasks of every batch: rows and table are compared before a file is written.
    """

    def __init__(self, options: Mapping[str, str], schema: "pa.Schema") -> None:
        self._table = table_of(options)
        self._form = committer(self._table).form(self._table, schema)
        self._schema = schema

    def write(self, batches: "Iterator[pa.RecordBatch]", prefix: str) -> list[DataFile]:
        """Write the rows of one partition, on an executor."""
        form = self._form
        return write_files(batches, form.directory, prefix, form.rules, form.storage)

    def commit(self, messages: list[WriterCommitMessage | None], batch: int) -> None:
        """Commit the files of a batch, on the driver."""
        written = [message for message in messages if isinstance(message, WrittenFiles)]
        files = [file for message in written for file in message.files]
        if files:
            committer(self._table).commit(self._table, written[0].writer, batch, files, self._schema)


class LakeStreamWriter(DataSourceStreamArrowWriter):
    """Appends the batches of a streaming query, each once."""

    def __init__(self, options: Mapping[str, str], schema: "pa.Schema") -> None:
        self._target = Target(options, schema)

    def write(self, iterator: "Iterator[pa.RecordBatch]") -> WrittenFiles:
        """Write the rows of one partition, on an executor."""
        query, batch = streaming_place()
        return WrittenFiles(query, self._target.write(iterator, f"{query[:8]}-{batch:08d}"))

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's name
        """Commit the files of a batch, on the driver."""
        self._target.commit(messages, batchId)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's name
        """Keep the files: the table may have accepted them although Spark saw an error."""


class LakeBatchWriter(DataSourceArrowWriter):
    """Appends a DataFrame, once for each ``jobId``."""

    def __init__(self, options: Mapping[str, str], schema: "pa.Schema") -> None:
        self._target = Target(options, schema)
        self._job = options["jobId"]

    def write(self, iterator: "Iterator[pa.RecordBatch]") -> WrittenFiles:
        """Write the rows of one partition, on an executor."""
        return WrittenFiles(self._job, self._target.write(iterator, self._job[:24]))

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Commit all files at once, on the driver."""
        self._target.commit(messages, 0)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Keep the files: the table may have accepted them although Spark saw an error."""
