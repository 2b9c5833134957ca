"""Lake tables in Spark: created, written as a stream or in one job, and read, for every format and runtime.

Parquet uses Spark's own file sink: its ``_spark_metadata`` lists the valid files, and Spark's readers use that list; a
program that lists the directory also sees files of failed attempts. Iceberg and Delta tables are written by their
runtime in Spark if the session has one (``native``), else by `sink`. All of them write each batch of a query once.
"""

import random
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from firearrow.errors import SettingsError
from firearrow.spark.lake import delta, fit, native
from firearrow.spark.lake.files import FILE_NAME, LiveFiles
from firearrow.spark.lake.frames import arrow_schema, conformed, derive, spark_schema
from firearrow.spark.lake.sink import NAME, LakeSink, committer
from firearrow.spark.lake.storage import for_spark, reach
from firearrow.spark.lake.table import LakeTable

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter
    from pyspark.sql.types import StructType

Trigger = Mapping[str, str | bool]
"""Arguments of Spark's ``trigger``: ``{"availableNow": True}`` or ``{"processingTime": "10 seconds"}``."""

DRAIN: Final[Trigger] = {"availableNow": True}


def has_runtime(spark: "SparkSession", table: LakeTable) -> bool:
    """Whether the session was configured with the table format's own runtime."""
    if table.format == "delta":
        return "io.delta" in (spark.conf.get("spark.sql.extensions", "") or "")
    return bool(spark.conf.get(f"spark.sql.catalog.{table.name.split('.')[0]}", ""))


def fitted(frame: "DataFrame", table: LakeTable, aside: Sequence[str] = ()) -> "DataFrame":
    """Create the table if it is missing; return rows in the form that it takes, or raise if they do not fit.

    Columns in ``aside`` are not the table's; they are returned behind the others (tables committed from Python only).
    """
    reach(frame.sparkSession, table.checked().storage_settings)
    if table.format == "parquet":
        _require_parquet_fit(frame, table)
        return frame
    if table.native:
        if not has_runtime(frame.sparkSession, table):
            raise SettingsError(
                f"this Spark session has no runtime for native {table.format} tables; see the guide on spark-submit"
            )
        return native.fitted(frame, table)
    if table.format == "delta":
        frame = derive(frame, delta.partitions(table, frame.columns) if delta.exists(table) else table.rules)
    target = committer(table).ensure(table, arrow_schema(frame.drop(*aside).schema))
    for field in arrow_schema(frame.select(*aside).schema):
        target = target.append(field)
    return conformed(frame, target)


def _require_parquet_fit(frame: "DataFrame", table: LakeTable) -> None:
    from pyspark.errors import AnalysisException

    try:
        found = frame.sparkSession.read.parquet(for_spark(table.location)).schema
    except AnalysisException:  # the table does not exist yet
        return
    compared = fit.compare(arrow_schema(frame.schema), arrow_schema(found), fit.no_widening)
    fit.require(fit.uncast(compared), table.evolve, table.called)


def start(frame: "DataFrame", table: LakeTable, checkpoint: str, trigger: Trigger, query: str = "") -> "StreamingQuery":
    """Append a stream to a table, each row once over any number of restarts with the same checkpoint."""
    return begin(fitted(frame, table), table, checkpoint, trigger, query)


def begin(frame: "DataFrame", table: LakeTable, checkpoint: str, trigger: Trigger, query: str = "") -> "StreamingQuery":
    """Append a stream of rows that `fitted` returned."""
    writer = frame.writeStream.outputMode("append").option("checkpointLocation", for_spark(checkpoint))
    writer = writer.trigger(**trigger)  # type: ignore[arg-type]
    return _started(frame, writer.queryName(query) if query else writer, table)


def _started(frame: "DataFrame", writer: "DataStreamWriter", table: LakeTable) -> "StreamingQuery":
    if table.format == "parquet":
        return writer.format("parquet").start(for_spark(table.location))
    if table.native:
        writer = writer.format(table.format).options(**native.options(table))
        return writer.toTable(table.name) if table.name else writer.start(for_spark(table.location))
    frame.sparkSession.dataSource.register(LakeSink)
    return writer.format(NAME).options(**table.options()).start()


def append(frame: "DataFrame", table: LakeTable, job: str = "") -> None:
    """Append a DataFrame in one commit; with a job name, only once however often the job runs."""
    frame = fitted(frame, table)
    writer = frame.write.mode("append").options(**(native.options(table) if table.native else {}))
    if table.format == "parquet":
        writer.parquet(for_spark(table.location))
    elif table.native and table.name:
        frame.writeTo(table.name).append()
    elif table.native:
        once = {"txnAppId": job, "txnVersion": "0"} if job else {}
        writer.format("delta").options(**once).save(for_spark(table.location))
    else:
        frame.sparkSession.dataSource.register(LakeSink)
        named = job or f"write-{random.Random().getrandbits(64):016x}"
        writer.format(NAME).options(**table.options(), jobId=named).save()


def read(spark: "SparkSession", table: LakeTable) -> "DataFrame":
    """The rows of a table as it is now."""
    reach(spark, table.checked().storage_settings)
    if table.format == "parquet":
        return spark.read.parquet(for_spark(table.location))
    if table.native:
        return spark.table(table.name) if table.name else spark.read.format("delta").load(for_spark(table.location))
    files = committer(table).live_files(table)
    reach(spark, files.storage)
    schema = spark_schema(committer(table).schema(table))
    found = _parquet(spark, files.whole, schema)
    return found.unionByName(_bare(spark, files, schema)) if files.bare else found


def _parquet(spark: "SparkSession", files: Sequence[str], schema: "StructType") -> "DataFrame":
    if not files:
        return spark.createDataFrame([], schema)
    return spark.read.schema(schema).parquet(*(for_spark(file) for file in files))


def _bare(spark: "SparkSession", files: LiveFiles, schema: "StructType") -> "DataFrame":
    """Rows of files that lack the columns of their partitions: the table's log has the values, by file."""
    from pyspark.sql import functions as F  # noqa: N812 - the name everyone uses
    from pyspark.sql.types import StructType

    assert files.values is not None
    inside = StructType([field for field in schema.fields if field.name not in files.values.schema.names])
    rows = _parquet(spark, files.bare, inside).withColumn(FILE_NAME, F.col("_metadata.file_name"))
    values = F.broadcast(spark.createDataFrame(files.values))
    return rows.join(values, FILE_NAME).select(*(F.col(f"`{name}`") for name in schema.fieldNames()))
