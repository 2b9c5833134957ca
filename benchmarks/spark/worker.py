"""A Spark session that takes orders: one line of JSON each on stdin, one line with the answer on stdout.

    python -m benchmarks.spark.worker '{"settings": {...}}'

It runs with whatever PySpark its Python has. An order names a source, a sink and what they need; the answer has the
seconds it took, the CPU of this process and all below it, and that of the broker's processes. An order that fails is
answered with ``error`` and the session lives on.
"""

import json
import os
import shutil
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.spark.bare import Bare, Clock
from benchmarks.spark.cpu import Meter
from benchmarks.spark.rows import QUEUES, SELECTED
from firearrow.spark.lake import access
from firearrow.spark.lake.table import LakeTable
from firearrow.spark.session import open_session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Order = dict[str, Any]
ANSWER = "ANSWER "
COLUMNS = [part.split()[0] for part in SELECTED.split(", ")]
SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.driver.memory": "2g",
    "spark.log.level": "ERROR",
    "spark.driver.host": "127.0.0.1",
}
LATENCY_LEAD_S = 8.0


def frame(spark: "SparkSession", order: Order, *, is_stream: bool = False) -> Any:
    """Return the rows to read."""
    reader: Any = spark.readStream if is_stream else spark.read
    source, whole = order["source"], order.get("whole")
    if source == "made":
        return spark.read.parquet(order["path"])
    if source == "kafka":
        reader = reader.format("kafka").option("kafka.bootstrap.servers", order["address"])
        reader = reader.option("subscribe", order["topic"]).option("startingOffsets", "earliest")
        found = reader.options(**order.get("options", {})).load()
        return found if whole else found.select("key", "value", "topic", "partition", "offset", "timestamp")
    if source == "parquet":
        found = spark.read.parquet(order["path"])
        return found if whole else found.select(*COLUMNS)
    if not whole:
        reader = reader.schema(SELECTED)
    if source == "store":
        return reader.format("rocketmq-store").option("subscribe", order["topic"]).load(order["path"])
    reader = reader.format("rocketmq").option("nameServer", order["address"]).option("subscribe", order["topic"])
    return reader.option("startingOffsets", "earliest").options(**order.get("options", {})).load()


def table_of(order: Order, place: Path) -> LakeTable:
    """The table that an order fills."""
    if order["sink"] == "iceberg":
        return LakeTable("iceberg", "", f"lake.bench.{place.name}", native=True)
    return LakeTable("iceberg", str(place / "warehouse"), "bench.rows")


def write_batch(spark: "SparkSession", order: Order, place: Path) -> None:
    """One job."""
    rows, sink = frame(spark, order), order["sink"]
    if sink == "noop":
        rows.write.format("noop").mode("overwrite").save()
    elif sink == "parquet":
        rows.write.parquet(str(place / "out"))
    elif sink == "bare":
        rows.write.format("bare-arrow").mode("append").save()
    elif sink == "topic":
        to = {"nameServer": order["to"], "topic": order["target"]}
        rows.write.format("rocketmq").options(**to).mode("append").save()
    elif sink == "kafka":
        pairs = rows.selectExpr("CAST(keys AS BINARY) AS key", "body AS value")
        to = {"kafka.bootstrap.servers": order["to"], "topic": order["target"]}
        pairs.write.format("kafka").options(**to).save()
    else:
        access.append(rows, table_of(order, place))


def write_stream(spark: "SparkSession", order: Order, place: Path) -> dict[str, Any]:
    """Write the contents of a topic as a stream that ends."""
    rows, check = frame(spark, order, is_stream=True), str(place / "checkpoint")
    if order["sink"] == "noop":
        query = rows.writeStream.format("noop").option("checkpointLocation", check).trigger(availableNow=True).start()
    else:
        query = access.start(rows, table_of(order, place), check, access.DRAIN)
    query.awaitTermination()
    batches = [each for each in query.recentProgress if each["numInputRows"]]
    return {
        "seen": sum(each["numInputRows"] for each in batches),
        "batches": len(batches),
        "batch_s": sum(each["durationMs"]["triggerExecution"] for each in batches) / 1000,
    }


def counted(spark: "SparkSession", order: Order, place: Path) -> int | None:
    """Return the number of rows that a sink holds now; None where it is not quick to tell."""
    if order["sink"] == "parquet":
        return spark.read.parquet(str(place / "out")).count()
    if order["sink"].startswith("iceberg"):
        return access.read(spark, table_of(order, place)).count()
    return None


def moved(spark: "SparkSession", order: Order) -> dict[str, Any]:
    """Let rows go from a source to a sink, and say what that cost."""
    place = Path(tempfile.mkdtemp(prefix="t", dir=order["scratch"]))
    try:
        more: dict[str, Any] = {}
        with Meter(order.get("pid")) as meter:
            if order.get("stream"):
                more = write_stream(spark, order, place)
            else:
                write_batch(spark, order, place)
        seen = more.get("seen", counted(spark, order, place))
        if seen is not None and seen != order["count"]:
            raise AssertionError(f"{seen} rows arrived instead of {order['count']}")
        return {**meter.figures(), **more}
    finally:
        if order["sink"] == "iceberg":
            spark.sql(f"DROP TABLE IF EXISTS lake.bench.{place.name} PURGE")
        shutil.rmtree(place, ignore_errors=True)


def latency(spark: "SparkSession", order: Order) -> dict[str, Any]:
    """Store time to hand-over in ms of the rows of a running stream; the first seconds do not count."""
    from pyspark.sql import functions as f

    batches: list[tuple[float, list[int]]] = []

    def take(batch: "DataFrame", _number: int) -> None:
        stored = [row.t for row in batch.select(f.unix_millis("store_timestamp").alias("t")).collect()]
        batches.append((time.time() * 1000, stored))

    form = "bare-clock" if order["source"] == "floor" else "rocketmq"
    reader = spark.readStream.format(form).schema("store_timestamp timestamp")
    if order["source"] != "floor":
        reader = reader.option("nameServer", order["address"]).option("subscribe", order["topic"])
    place = tempfile.mkdtemp(dir=order["scratch"])
    query = reader.load().writeStream.foreachBatch(take).option("checkpointLocation", place).start()
    query.awaitTermination(int(LATENCY_LEAD_S))
    counting = time.time() * 1000
    with Meter(order.get("pid")) as meter:
        query.awaitTermination(order["seconds"])
    query.stop()
    shutil.rmtree(place, ignore_errors=True)
    kept = [(now, stored) for now, stored in batches if now >= counting]
    late = sorted(now - each for now, stored in kept for each in stored)
    if not late:
        raise AssertionError("no row came")
    places = {"p50_ms": 0.5, "p99_ms": 0.99}
    found = {name: late[min(int(len(late) * place), len(late) - 1)] for name, place in places.items()}
    return {**meter.figures(), **found, "rows": len(late), "batches": len(kept)}


def count(spark: "SparkSession", order: Order) -> dict[str, Any]:
    """The rows of a source, all of them read."""
    body = "value" if order["source"] == "kafka" else "body"
    found = frame(spark, order).selectExpr("count(*) AS n", f"sum(length({body})) AS b").collect()[0]
    return {"rows": found.n, "bytes": found.b}


def copy(spark: "SparkSession", order: Order) -> dict[str, Any]:
    """The rows of a store for the others: as Parquet, or in Kafka."""
    if order["sink"] == "parquet":
        frame(spark, order).coalesce(2).write.mode("overwrite").parquet(order["target"])
    else:
        make_topic(spark, order)
        write_batch(spark, {**order, "whole": False}, Path())
    return {}


def make_topic(spark: "SparkSession", order: Order) -> dict[str, Any]:
    """A topic in Kafka, empty. Topics that make themselves at the first write leave its first records waiting."""
    jvm: Any = spark.sparkContext._jvm
    settings = jvm.java.util.Properties()
    settings.put("bootstrap.servers", order["to"])
    admin = jvm.org.apache.kafka.clients.admin.AdminClient.create(settings)
    name, several = order["target"], jvm.java.util.Collections.singletonList
    try:
        if admin.listTopics().names().get().contains(name):
            admin.deleteTopics(several(name)).all().get()
        new = jvm.org.apache.kafka.clients.admin.NewTopic(name, QUEUES, 1)
        admin.createTopics(several(new)).all().get()
    finally:
        admin.close()
    return {}


def make(spark: "SparkSession", order: Order) -> dict[str, Any]:
    """Rows for the sinks."""
    made = spark.range(order["count"], numPartitions=2)
    body = f"CAST(randstr({order['body']}, 1) AS BINARY) AS body"
    made.selectExpr(body, "'order-' || id AS keys").write.mode("overwrite").parquet(order["target"])
    return {}


def hello(spark: "SparkSession", _order: Order) -> dict[str, Any]:
    """Versions."""
    import numpy as np
    import pyarrow as pa

    assert spark.sparkContext._jvm is not None
    java = spark.sparkContext._jvm.java.lang.System.getProperty("java.version")
    return {"spark": spark.version, "java": java, "pyarrow": pa.__version__, "numpy": np.__version__}


WORDS: dict[str, Callable[["SparkSession", Order], dict[str, Any]]] = {
    "move": moved,
    "latency": latency,
    "count": count,
    "copy": copy,
    "make": make,
    "topic": make_topic,
    "hello": hello,
}


def main() -> None:
    """Take orders until there are none."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    spark = open_session("local[2]", {**SETTINGS, **json.loads(sys.argv[1])}, "bench")
    spark.dataSource.register(Bare)
    spark.dataSource.register(Clock)
    for line in sys.stdin:
        order = json.loads(line)
        try:
            answer = WORDS[order["do"]](spark, order)
        except Exception as error:  # noqa: BLE001 - told to whoever ordered
            traceback.print_exc()
            answer = {"error": f"{type(error).__name__}: {str(error)[:1500]}"}
        print(ANSWER + json.dumps(answer), flush=True)
    spark.stop()


if __name__ == "__main__":
    main()
