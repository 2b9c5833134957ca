"""Lake tables in Spark: created, written as a stream or in one job, and read, for every format and runtime.

Parquet uses Spark's own file sink: its ``_spark_metadata`` lists the valid files, and Spark's readers use that list; a
program that lists the directory also sees files of failed attempts. Iceberg and Delta tables are written by their
runtime in Spark if the session has one (``native``), else by `sink`. All of them write each batch of a query once.
"""

import random
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from firearrow.errors import SettingsError
from firearrow.spark.lake import fit, partitioning
from firearrow.spark.lake.sink import NAME, LakeSink, arrow_schema, committer
from firearrow.spark.lake.storage import for_spark
from firearrow.spark.lake.table import LakeTable

if TYPE_CHECKING:
    import pyarrow as pa
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


def ensure(spark: "SparkSession", table: LakeTable, schema: "StructType") -> None:
    """Create the table if it is missing; an existing table must accept rows of this schema."""
    table.checked()
    if table.native:
        _ensure_native(spark, table, schema)
    elif table.format == "parquet":
        _ensure_parquet(spark, table, schema)
    else:
        committer(table).ensure(table, arrow_schema(schema))


def _ensure_parquet(spark: "SparkSession", table: LakeTable, schema: "StructType") -> None:
    from pyspark.errors import AnalysisException

    try:
        found = spark.read.parquet(for_spark(table.location)).schema
    except AnalysisException:  # the table does not exist yet
        return
    fit.require_fit(arrow_schema(schema), arrow_schema(found), table.called)


def _ensure_native(spark: "SparkSession", table: LakeTable, schema: "StructType") -> None:
    if not has_runtime(spark, table):
        raise SettingsError(
            f"this Spark session has no runtime for native {table.format} tables; see the guide on spark-submit"
        )
    empty = spark.createDataFrame([], schema)
    if table.name and not spark.catalog.tableExists(table.name):
        empty.writeTo(table.name).using(table.format).create()
    elif not table.name:
        empty.write.format("delta").mode("append").save(for_spark(table.location))


def start(frame: "DataFrame", table: LakeTable, checkpoint: str, trigger: Trigger, query: str = "") -> "StreamingQuery":
    """Append a stream to a table, each row once over any number of restarts with the same checkpoint."""
    ensure(frame.sparkSession, table, frame.schema)
    writer = frame.writeStream.outputMode("append").option("checkpointLocation", for_spark(checkpoint))
    writer = writer.trigger(**trigger)  # type: ignore[arg-type]
    return _start(frame, writer.queryName(query) if query else writer, table)


def _start(frame: "DataFrame", writer: "DataStreamWriter", table: LakeTable) -> "StreamingQuery":
    if table.format == "parquet":
        return writer.format("parquet").start(for_spark(table.location))
    if table.native:
        writer = writer.format(table.format)
        return writer.toTable(table.name) if table.name else writer.start(for_spark(table.location))
    frame.sparkSession.dataSource.register(LakeSink)
    return writer.format(NAME).options(**_options(table)).start()


def append(frame: "DataFrame", table: LakeTable, job: str = "") -> None:
    """Append a DataFrame in one commit; with a job name, only once however often the job runs."""
    ensure(frame.sparkSession, table, frame.schema)
    writer = frame.write.mode("append")
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
        writer.format(NAME).options(**_options(table), jobId=named).save()


def _options(table: LakeTable) -> dict[str, str]:
    rules = partitioning.to_text(committer(table).partitioning(table))
    return {**table.options(), "dataDirectory": committer(table).data_directory(table), "partitioning": rules}


def read(spark: "SparkSession", table: LakeTable) -> "DataFrame":
    """The rows of a table as it is now."""
    table.checked()
    if table.format == "parquet":
        return spark.read.parquet(for_spark(table.location))
    if table.native:
        return spark.table(table.name) if table.name else spark.read.format("delta").load(for_spark(table.location))
    files = [for_spark(file) for file in committer(table).data_files(table)]
    schema = spark_schema(committer(table).schema(table))
    return spark.read.schema(schema).parquet(*files) if files else spark.createDataFrame([], schema)


def spark_schema(schema: "pa.Schema") -> "StructType":
    """A schema of Arrow in Spark's terms."""
    from pyspark.sql.pandas.types import from_arrow_schema

    return from_arrow_schema(schema)
