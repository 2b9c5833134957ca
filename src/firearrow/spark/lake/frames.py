"""Rows of Spark in the form that a table takes: its columns, their order and types, and columns made for partitions."""

from inspect import signature
from typing import TYPE_CHECKING

from firearrow.errors import Unsupported
from firearrow.spark.lake.partitioning import TIMES, PartitionRule, Rules, derived

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import StructType

_DAY_S = 86_400


def arrow_schema(schema: "StructType") -> "pa.Schema":
    """A schema of Spark in Arrow's terms, with times in UTC."""
    from pyspark.sql.pandas.types import to_arrow_schema

    if "timezone" in signature(to_arrow_schema).parameters:
        return to_arrow_schema(schema, timezone="UTC")
    return to_arrow_schema(schema)  # Spark 4.1, where times are in UTC unless it is told otherwise


def spark_schema(schema: "pa.Schema") -> "StructType":
    """A schema of Arrow in Spark's terms."""
    from pyspark.sql.pandas.types import from_arrow_schema

    return from_arrow_schema(schema)


def conformed(frame: "DataFrame", target: "pa.Schema") -> "DataFrame":
    """Rows with these columns, by their names: narrower values are cast, missing ones null, inner fields too."""
    wanted = spark_schema(target)
    return frame if frame.schema == wanted else frame.to(wanted)


def derive(frame: "DataFrame", rules: Rules) -> "DataFrame":
    """Rows with a column for every part of a time that a Delta table is partitioned by."""
    for rule in rules:
        name, (kind, _) = derived(rule), rule.parts
        if kind not in TIMES:
            continue
        if name in frame.columns:
            raise Unsupported(f"the rows have a column {name} already; {rule} cannot be a partition. Rename the column")
        frame = frame.withColumn(name, _part(frame, rule))
    return frame


def _part(frame: "DataFrame", rule: PartitionRule) -> "Column":
    """A part of a time in UTC, whatever the session's time zone is."""
    from pyspark.sql import functions as F  # noqa: N812 - the name everyone uses
    from pyspark.sql.types import TimestampType

    if rule.column not in frame.columns or not isinstance(frame.schema[rule.column].dataType, TimestampType):
        raise Unsupported(f"{rule} cannot be a partition: {rule.column} is no column of times. Nothing was written")
    seconds = F.unix_seconds(frame[rule.column])
    day = F.date_from_unix_date(F.floor(seconds / _DAY_S).cast("int"))
    hour = F.lpad(F.floor(F.pmod(seconds, F.lit(_DAY_S)) / 3_600).cast("string"), 2, "0")
    return {
        "year": F.year(day),
        "month": F.substring(day.cast("string"), 1, 7),
        "day": day,
        "hour": F.concat(day.cast("string"), F.lit("-"), hour),
    }[rule.parts[0]]
