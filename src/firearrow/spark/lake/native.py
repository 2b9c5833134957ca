"""Tables that the format's own runtime in Spark writes: created, and changed to take the rows.

Delta adds columns and widens types in the commit of the rows (``mergeSchema``). Iceberg's runtime commits columns
before the rows: a kill between leaves columns without rows, and the repeated batch fits the table.
"""

from typing import TYPE_CHECKING

from firearrow.spark.lake import fit
from firearrow.spark.lake.fit import Change
from firearrow.spark.lake.frames import arrow_schema, conformed, derive, spark_schema
from firearrow.spark.lake.partitioning import (
    PartitionRule,
    Rules,
    derived,
    parse,
    require_same,
    require_supported,
    underived,
)
from firearrow.spark.lake.storage import for_spark
from firearrow.spark.lake.table import LakeTable

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType


def fitted(frame: "DataFrame", table: LakeTable) -> "DataFrame":
    """Create the table if it is missing; return rows in the form that it takes, or raise if they do not fit."""
    return _fitted_delta(frame, table) if table.format == "delta" else _fitted_iceberg(frame, table)


def options(table: LakeTable) -> dict[str, str]:
    """Options with which Spark writes the table."""
    if table.format == "iceberg":
        return {"fanout-enabled": "true"}  # rows of a stream are not sorted by partitions
    return {} if table.evolve == "fail" else {"mergeSchema": "true"}


def _fitted_delta(frame: "DataFrame", table: LakeTable) -> "DataFrame":
    spark, name = frame.sparkSession, _delta_name(table)
    found = _schema(spark, table)
    if found is None:
        frame = derive(frame, table.rules)
        columns = [derived(rule) for rule in table.rules]
        require_supported(tuple(PartitionRule(column) for column in columns), arrow_schema(frame.schema), table.called)
        _create(spark, name, "delta", frame.schema, columns)
        return frame
    kept = list(spark.sql(f"DESCRIBE DETAIL {name}").collect()[0].partitionColumns)
    require_same(
        tuple(PartitionRule(derived(rule)) for rule in table.rules),
        tuple(PartitionRule(column) for column in kept),
        table.called,
    )
    schema = arrow_schema(found)
    frame = derive(frame, tuple(underived(column, schema, frame.columns) for column in kept))
    compared = fit.compare(arrow_schema(frame.schema), schema, fit.delta_widening, kept)
    fit.require(compared, table.evolve, table.called)
    if compared.widened:
        spark.sql(f"ALTER TABLE {name} SET TBLPROPERTIES ('delta.enableTypeWidening' = 'true')")
    return conformed(frame, compared.target)


def _delta_name(table: LakeTable) -> str:
    return table.name or f"delta.`{for_spark(table.location)}`"


def _fitted_iceberg(frame: "DataFrame", table: LakeTable) -> "DataFrame":
    spark, rows = frame.sparkSession, fit.as_iceberg(arrow_schema(frame.schema))
    found = _schema(spark, table)
    if found is None:
        _create(spark, table.name, "iceberg", spark_schema(rows), [str(rule) for rule in table.rules])
        return conformed(frame, rows)
    rules = _iceberg_rules(spark, table)
    require_same(table.rules, rules, table.called)
    compared = fit.compare(rows, arrow_schema(found), fit.iceberg_widening, {rule.column for rule in rules})
    fit.require(compared, table.evolve, table.called)
    if compared.added:
        spark.sql(f"ALTER TABLE {table.name} ADD COLUMNS ({', '.join(_column(change) for change in compared.added)})")
    for change in compared.widened:
        spark.sql(f"ALTER TABLE {table.name} ALTER COLUMN {_path(change)} TYPE {_ddl(change)}")
    return conformed(frame, compared.target)


def _iceberg_rules(spark: "SparkSession", table: LakeTable) -> Rules:
    """Return the partition rules of an Iceberg table; DESCRIBE lists them as ``Part 0 | days(store_timestamp)``."""
    rows = spark.sql(f"DESCRIBE TABLE {table.name}").collect()
    return tuple(rule for row in rows if row.col_name.startswith("Part ") for rule in parse(row.data_type))


def _schema(spark: "SparkSession", table: LakeTable) -> "StructType | None":
    """The columns of the table; None if it does not exist."""
    from pyspark.errors import AnalysisException

    try:
        return spark.table(table.name or _delta_name(table)).schema
    except AnalysisException:
        return None


def _create(spark: "SparkSession", name: str, form: str, schema: "StructType", partitions: list[str]) -> None:
    columns = ", ".join(
        f"`{field.name}` {field.dataType.simpleString()}{'' if field.nullable else ' NOT NULL'}" for field in schema
    )
    by = f" PARTITIONED BY ({', '.join(partitions)})" if partitions else ""
    spark.sql(f"CREATE TABLE IF NOT EXISTS {name} ({columns}) USING {form}{by}")


def _column(change: Change) -> str:
    return f"{_path(change)} {_ddl(change)}"


def _path(change: Change) -> str:
    return ".".join(f"`{name}`" for name in change.path)


def _ddl(change: Change) -> str:
    return _type(change.type)


def _type(kind: "pa.DataType") -> str:
    import pyarrow as pa

    return spark_schema(pa.schema([("column", kind)]))[0].dataType.simpleString()
