"""One row of the benchmark, in a process of its own, with whatever PySpark that has: rows a second and CPU.

    python -m benchmarks.spark.measured '{"row": "store", ...}'

Prints one line of JSON. The first run warms up and does not count.
"""

import json
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

TICKS = os.sysconf("SC_CLK_TCK")
SELECTED = "keys string, body binary, topic string, queue_id int, queue_offset bigint, store_timestamp timestamp"


def processes_below(root: int) -> list[int]:
    """A process and all that it started."""
    parents: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            parents.setdefault(int(fields[1]), []).append(int(entry.name))
    found, waiting = [], [root]
    while waiting:
        found.append(waiting.pop())
        waiting += parents.get(found[-1], [])
    return found


def cpu_s(pids: list[int]) -> float:
    """CPU seconds of processes so far, and of children that they waited for."""
    total = 0
    for pid in pids:
        try:
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        total += sum(int(each) for each in fields[11:15])
    return total / TICKS


def session(order: dict[str, Any]) -> "SparkSession":
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.master("local[2]").appName("bench")
    settings = {
        "spark.ui.enabled": "false",
        "spark.driver.memory": "2g",
        "spark.log.level": "ERROR",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.python.unix.domain.socket.enabled": str(order.get("uds", False)).lower(),
    }
    if order.get("jars"):
        settings["spark.jars"] = order["jars"]
    for key, value in settings.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def frame(spark: "SparkSession", order: dict[str, Any], *, is_stream: bool = False) -> Any:
    """What is read."""
    reader: Any = spark.readStream if is_stream else spark.read
    source = order["source"]
    if source == "kafka":
        reader = reader.format("kafka").option("kafka.bootstrap.servers", order["address"])
        found = reader.option("subscribe", order["topic"]).option("startingOffsets", "earliest").load()
        return found if order.get("all") else found.select("key", "value", "topic", "partition", "offset", "timestamp")
    if source == "parquet":
        found = spark.read.parquet(order["path"])
        columns = [part.split()[0] for part in SELECTED.split(", ")]
        return found if order.get("all") else found.select(*columns)
    if not order.get("all"):
        reader = reader.schema(SELECTED)
    if source == "store":
        return reader.format("rocketmq-store").option("subscribe", order["topic"]).load(order["path"])
    reader = reader.format("rocketmq").option("nameServer", order["address"]).option("subscribe", order["topic"])
    return reader.option("startingOffsets", "earliest").options(**order.get("options", {})).load()


def run_once(spark: "SparkSession", order: dict[str, Any]) -> None:
    if not order.get("stream"):
        frame(spark, order).write.format("noop").mode("overwrite").save()
        return
    with tempfile.TemporaryDirectory() as check:
        writer = frame(spark, order, is_stream=True).writeStream.format("noop").trigger(availableNow=True)
        query = writer.option("checkpointLocation", check).start()
        query.awaitTermination()


def latency(spark: "SparkSession", order: dict[str, Any]) -> dict[str, Any]:
    """Store time to hand-over, in ms, of the rows of a running stream."""
    from pyspark.sql import functions as f

    seen: list[float] = []

    def take(batch: "DataFrame", _number: int) -> None:
        rows = batch.select(f.unix_millis("store_timestamp").alias("t"))
        stored = [row.t for row in rows.collect()]
        now = time.time() * 1000
        seen.extend(now - each for each in stored)

    reader = spark.readStream.format("rocketmq").schema("store_timestamp timestamp")
    reader = reader.option("nameServer", order["address"]).option("subscribe", order["topic"])
    with tempfile.TemporaryDirectory() as check:
        query = reader.load().writeStream.foreachBatch(take).option("checkpointLocation", check).start()
        time.sleep(order.get("seconds", 20))
        query.stop()
    late = sorted(seen[len(seen) // 4 :]) or [0.0]
    return {"p50_ms": late[len(late) // 2], "p99_ms": late[int(len(late) * 0.99)], "rows": len(seen)}


def main() -> None:
    """Measure what the order says."""
    order = json.loads(sys.argv[1])
    spark = session(order)
    if order.get("latency"):
        print(json.dumps(latency(spark, order)))
        return
    if order.get("prepare"):
        prepare(spark, order)
        print(json.dumps({}))
        return
    run_once(spark, order)
    runs = []
    for _ in range(order.get("runs", 3)):
        mine, theirs = processes_below(os.getpid()), processes_below(order["pid"]) if order.get("pid") else []
        before, broker_before, begun = cpu_s(mine), cpu_s(theirs), time.perf_counter()
        run_once(spark, order)
        elapsed = time.perf_counter() - begun
        after = cpu_s(sorted({*mine, *processes_below(os.getpid())}))
        runs.append({"s": elapsed, "spark_cpu_s": after - before, "broker_cpu_s": cpu_s(theirs) - broker_before})
    print(json.dumps({"runs": runs}))
    spark.stop()


def prepare(spark: "SparkSession", order: dict[str, Any]) -> None:
    """The same rows for the others: as Parquet, and in Kafka."""
    rows = frame(spark, {**order, "source": "store", "all": True})
    if order["prepare"] == "parquet":
        rows.coalesce(2).write.mode("overwrite").parquet(order["to"])
        return
    pairs = rows.selectExpr("CAST(keys AS BINARY) AS key", "body AS value")
    pairs.write.format("kafka").option("kafka.bootstrap.servers", order["address"]).option(
        "topic", order["topic"]
    ).save()


if __name__ == "__main__":
    main()
