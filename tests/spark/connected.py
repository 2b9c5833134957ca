"""A client of a Spark Connect server: what works through it, stage by stage. Prints one line of JSON.

python -m tests.spark.connected sc://HOST:PORT NAME_SERVER STORE DIRECTORY
"""

import json
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from pyspark.errors import PySparkException
from pyspark.sql import functions as F  # noqa: N812

from firearrow.spark.lake import access
from firearrow.spark.lake.table import LakeTable
from firearrow.spark.pipelines import archive, audit, replay
from firearrow.spark.session import open_session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter


class Stages:
    """The stages of the trial, on one topic."""

    def __init__(self, spark: "SparkSession", name_server: str, store: str, directory: str) -> None:
        self._spark, self._name_server, self._store, self._directory = spark, name_server, store, directory

    def _rows(self, topic: str = "orders") -> "DataFrame":
        return (
            self._spark.read.format("rocketmq")
            .option("nameServer", self._name_server)
            .option("subscribe", topic)
            .load()
        )  # fmt: skip

    def _writing(self, name: str) -> "DataStreamWriter":
        stream = self._spark.readStream.format("rocketmq").option("nameServer", self._name_server)
        rows = stream.option("subscribe", "orders").option("startingOffsets", "earliest").load()
        writer = rows.writeStream.option("checkpointLocation", f"{self._directory}/{name}-checkpoint")
        return writer.trigger(availableNow=True)

    def topics(self) -> int:
        """A batch read."""
        return self._rows().count()

    def schema(self) -> list[str]:
        """A schema that prunes columns."""
        reader = self._spark.read.format("rocketmq").schema("queue_id int, queue_offset long")
        return reader.options(nameServer=self._name_server, subscribe="orders").load().columns

    def store_files(self) -> int:
        """Files of the store, on the server's machine."""
        return self._spark.read.format("rocketmq-store").option("subscribe", "orders").load(self._store).count()

    def stream_to_parquet(self) -> int:
        """Spark's own file sink."""
        place = f"{self._directory}/parquet"
        self._writing("parquet").format("parquet").start(place).awaitTermination()
        return self._spark.read.parquet(place).count()

    def for_each_batch(self) -> int:
        """A function that is called with every batch: it is pickled and runs on the server."""
        place = f"{self._directory}/each"

        def keep(rows: "DataFrame", _: int) -> None:
            rows.write.mode("append").parquet(place)

        self._writing("each").foreachBatch(keep).start().awaitTermination()
        return self._spark.read.parquet(place).count()

    def archive_and_sql(self) -> list[int]:
        """The archive as a library call, then SQL."""
        source = {"nameServer": self._name_server, "subscribe": "orders"}
        table = LakeTable("iceberg", f"{self._directory}/lake", "shop.orders")
        job = archive.Archive(source, table, f"{self._directory}/archive")
        for query in archive.start(self._spark, job):
            query.awaitTermination()
        archive.register_views(self._spark, job)
        seen = self._spark.sql("SELECT count(*), count(DISTINCT row_id), sum(length(body)) FROM bronze")
        return list(seen.collect()[0])

    def sink_by_replay(self) -> int:
        """The sink."""
        rows = access.read(self._spark, LakeTable("parquet", f"{self._directory}/parquet"))
        replay.replay(rows, replay.Replay("connected", {"nameServer": self._name_server}, topic="copies"))
        return self._rows("copies").count()

    def audit_of_rows(self) -> int:
        """The transforms of the audit: nothing is wrong."""
        rows = access.read(self._spark, LakeTable("parquet", f"{self._directory}/parquet"))
        receipts = rows.select(
            "topic",
            "unique_key",
            F.col("born_timestamp").alias("sent_timestamp"),
            F.lit(None).cast("string").alias("order_key"),
            F.lit(None).cast("long").alias("sequence"),
        )
        return audit.findings(receipts, rows).count()

    def jvm(self) -> str:
        """Use the JVM, which a Connect client does not have."""
        return f"{self._spark._jvm} {self._spark.sparkContext}"


def outcome(stage: Callable[[], Any]) -> Any:
    """The result of a stage, or the class of Spark's error."""
    try:
        return stage()
    except PySparkException as error:
        return f"{type(error).__name__}: {error.getCondition()}"


def main() -> None:
    """Try everything."""
    remote, name_server, store, directory = sys.argv[1:5]
    spark = open_session(remote, {}, "connected")
    stages = Stages(spark, name_server, store, directory)
    names = [name for name in vars(Stages) if not name.startswith("_")]
    found = {name: outcome(getattr(stages, name)) for name in names}
    spark.stop()
    print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
