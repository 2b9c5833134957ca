"""The sources through Spark itself: discovery, jobs, streams, conditions, SQL."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from firearrow.blocking import MessageQueue, PullConsumer
from firearrow.testing.blocking import Cluster
from tests.spark.source.reading import numbered, send, wait_until

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.real

COUNT = 300


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster() as running:
        running.create_topic("orders")
        send(running.address, numbered("orders", COUNT))
        yield running


def topics(spark: "SparkSession", cluster: Cluster, **options: str) -> "DataFrame":
    reader = spark.read.format("rocketmq").option("nameServer", cluster.address)
    return reader.options(**{"subscribe": "orders", **options}).load()


def bodies(frame: "DataFrame") -> list[int]:
    return sorted(int(bytes(row.body)) for row in frame.select("body").collect())


def test_a_job_finds_the_source_by_itself(spark: "SparkSession", cluster: Cluster) -> None:
    frame = topics(spark, cluster, minPartitions="2")
    assert bodies(frame) == list(range(COUNT))
    row = frame.filter("keys = 'k7'").first()
    assert row is not None
    assert (row.topic, row.broker, row.tags, row.properties["a"]) == ("orders", "broker-a", "B", "7")
    assert row.row_id == f"broker-a/orders/{row.queue_id}/{row.queue_offset}@{row.physical_offset}"
    assert row.transaction_state == "NONE"
    assert row.delay_level is None


def test_a_schema_of_the_users_prunes(spark: "SparkSession", cluster: Cluster) -> None:
    reader = spark.read.format("rocketmq").schema("queue_offset long, tags string")
    frame = reader.options(nameServer=cluster.address, subscribe="orders").load()
    assert frame.columns == ["queue_offset", "tags"]
    assert frame.groupBy("tags").count().count() == 3


def test_mistakes_are_told(spark: "SparkSession", cluster: Cluster) -> None:
    with pytest.raises(Exception, match="did you mean startingOffsets"):
        topics(spark, cluster, startingOffset="earliest").collect()
    with pytest.raises(Exception, match="there is no column 'value'"):
        spark.read.format("rocketmq").schema("value binary").options(nameServer="h:1", subscribe="x").load().collect()


def test_conditions_are_taken_into_the_source(spark: "SparkSession", cluster: Cluster) -> None:
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    try:
        frame = topics(spark, cluster, pushFilters="true")
        middle = frame.orderBy("store_timestamp").collect()[COUNT // 2].store_timestamp
        assert bodies(frame.filter("tags = 'A' AND keys IN ('k3', 'k4')")) == [3]
        late = frame.filter(frame.store_timestamp >= middle)
        early = frame.filter(frame.store_timestamp < middle)
        assert 0 < late.count() < COUNT
        assert sorted(bodies(late) + bodies(early)) == list(range(COUNT))
        assert frame.filter("topic = 'bills'").count() == 0
        assert {row.queue_id for row in frame.filter("queue_id = 2 AND queue_offset < 5").collect()} == {2}
    finally:
        spark.conf.unset("spark.sql.python.filterPushdown.enabled")


def test_sql_over_a_view(spark: "SparkSession", cluster: Cluster) -> None:
    spark.sql(
        "CREATE OR REPLACE TEMPORARY VIEW orders USING rocketmq "
        f"OPTIONS (nameServer '{cluster.address}', subscribe 'orders')"
    )
    (row,) = spark.sql("SELECT count(*) AS found, max(CAST(CAST(body AS STRING) AS INT)) AS most FROM orders").collect()
    assert (row.found, row.most) == (COUNT, COUNT - 1)


def test_store_files_beside_a_running_broker(spark: "SparkSession", cluster: Cluster) -> None:
    path = str(cluster.directory / "broker-a")
    frame = spark.read.format("rocketmq-store").option("subscribe", "orders").load(path)
    wait_until(lambda: frame.count() == COUNT, "the broker to write its queues out")
    assert bodies(frame) == list(range(COUNT))


def test_a_stream_goes_on_where_it_was(spark: "SparkSession", cluster: Cluster, tmp_path: Path) -> None:
    topic = cluster.create_topic("streamed")
    send(cluster.address, numbered(topic, 100))
    out, group = str(tmp_path / "out"), "STREAMED"

    def run() -> list[int]:
        reader = spark.readStream.format("rocketmq").option("nameServer", cluster.address)
        reader = reader.options(subscribe=topic, startingOffsets="earliest", maxOffsetsPerTrigger="40", groupId=group)
        writer = reader.load().select("body").writeStream.format("parquet").trigger(availableNow=True)
        query = writer.option("checkpointLocation", str(tmp_path / "check")).start(out)
        assert query.awaitTermination(120)
        return [progress.numInputRows for progress in query.recentProgress if progress.numInputRows]

    assert run() == [40, 40, 20]
    assert run() == []
    send(cluster.address, numbered(topic, 50, 100))
    assert run() == [40, 10]
    assert bodies(spark.read.parquet(out)) == list(range(150))
    with PullConsumer(cluster.address, group=group) as looker:
        ends = {queue: bounds.end for queue, bounds in looker.bounds(topic).items()}
        done = {queue: looker.committed(queue) or 0 for queue in ends}
        assert sum(done.values()) >= 140, "all but perhaps the last batch is reported"
        assert MessageQueue(topic, "broker-a", 0) in done


def test_lag_shows_in_the_progress(spark: "SparkSession", cluster: Cluster, tmp_path: Path) -> None:
    reader = spark.readStream.format("rocketmq").option("nameServer", cluster.address).option("subscribe", "orders")
    reader = reader.option("startingOffsets", "earliest").option("maxOffsetsPerTrigger", "100")
    query = reader.load().writeStream.format("noop").option("checkpointLocation", str(tmp_path)).start()
    try:
        wait_until(lambda: sum(each.numInputRows for each in query.recentProgress) >= COUNT, "all rows")
        source = query.recentProgress[0].sources[0]
        assert "orders" in str(source.latestOffset)
        assert source.latestOffset != source.endOffset
    finally:
        query.stop()
