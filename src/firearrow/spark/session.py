"""A Spark session for the jobs of this package: what they need set, and nothing else.

A session that runs already, as under ``spark-submit``, is used as it is.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NEEDED: Final = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",  # readers of Iceberg and Delta know no INT96
    "spark.sql.execution.arrow.maxRecordsPerBatch": "16384",
    "spark.ui.showConsoleProgress": "false",
}


def open_session(
    master: str = "", settings: Mapping[str, str] | None = None, name: str = "firearrow"
) -> "SparkSession":
    """The session of this process, made if there is none. ``master`` may be a Spark Connect address, sc://host:port."""
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.appName(name)
    if master.startswith("sc://"):
        builder = builder.remote(master)
    elif master:
        builder = builder.master(master)
    for key, value in {**NEEDED, **(settings or {})}.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()
