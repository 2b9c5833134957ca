"""Topics, store files and lakes in Spark (extra ``spark``).

    spark.read.format("rocketmq").option("nameServer", "host:9876").option("subscribe", "orders").load()

Spark finds the sources by itself if this package is installed on driver and executors. Otherwise ``register`` adds them
to a session.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def register(spark: "SparkSession") -> None:
    """Make ``format("rocketmq")`` and ``format("rocketmq-store")`` known to a session."""
    from firearrow.spark.formats import RocketmqSource, RocketmqStoreSource

    spark.dataSource.register(RocketmqSource)
    spark.dataSource.register(RocketmqStoreSource)
