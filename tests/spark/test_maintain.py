"""Upkeep beside an archive that follows its topic: nothing lost, nothing twice, what is deleted stays away."""

from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
import pytest

from campaigns.rotation import this_turn
from firearrow.blocking import Message
from firearrow.runtime.clock import SystemClock
from firearrow.spark.lake import access
from firearrow.spark.lake.sink import committer
from firearrow.spark.lake.table import LakeTable
from firearrow.spark.pipelines import archive
from firearrow.spark.upkeep.maintain import maintain
from firearrow.spark.upkeep.work import StepResult, Upkeep
from tests.spark.readers import by_duckdb
from tests.spark.serving import Served, held, send, served

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

WORK = Upkeep(compact=True, min_files=2, delete_where="keys = 'gone'", expire_ms=0)


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(tmp_path_factory.mktemp("broker")) as running:
        yield running


def messages(start: int, count: int) -> list[Message]:
    return [
        Message.of("orders", b"%d" % number, keys=["gone" if number % 10 == 3 else f"k{number}"])
        for number in range(start, start + count)
    ]


@pytest.mark.timeout(600)
@pytest.mark.rotating
@pytest.mark.parametrize(
    ("form", "by"), this_turn(list(product(("iceberg", "delta"), ("", "topic, queue_id"))), __name__)
)
def test_a_followed_topic_is_archived_once_beside_upkeep(
    spark: "SparkSession", broker: Served, tmp_path: Path, form: str, by: str
) -> None:
    name = "shop.orders" if form == "iceberg" else ""
    table = LakeTable(form, str(tmp_path / form), name, partition_by=by)  # type: ignore[arg-type]
    source = {"nameServer": broker.name_server, "subscribe": "orders", "maxOffsetsPerTrigger": "40"}
    send(broker.name_server, messages(0, 100))
    (query,) = archive.start(
        spark, archive.Archive(source, table, str(tmp_path / "c")), {"processingTime": "0 seconds"}
    )
    done: list[StepResult] = []
    try:
        for start in (100, 200, 300):
            send(broker.name_server, messages(start, 100))
            batches = len(numbers(query))
            while len(numbers(query)) < batches + 2:  # upkeep runs between batches, and beside them
                assert query.exception() is None
                done += maintain(table, WORK, SystemClock().now_ms())
        query.processAllAvailable()
    finally:
        query.stop()
    done += maintain(table, WORK, SystemClock().now_ms())
    kept = sorted(place for place, message in held(broker.name_server, "orders").items() if message.keys != ["gone"])
    assert len(kept) == 360
    for rows in (
        [(row["queue_id"], row["queue_offset"]) for row in by_duckdb(table, "queue_id, queue_offset")],
        [tuple(row) for row in access.read(spark, table).select("queue_id", "queue_offset").collect()],
    ):
        assert sorted(rows) == kept
    live = committer(table).live_files(table)
    files = [file.removeprefix("file://") for file in (*live.whole, *live.bare)]
    assert "gone" not in {key for file in files for key in pq.ParquetFile(file).read(["keys"])["keys"].to_pylist()}
    assert sum(each.rows for each in done) == 40
    assert sum(each.files for each in done if each.step == "compact") >= 4, done


def numbers(query: "StreamingQuery") -> set[int]:
    """The batches with rows that the query has told of."""
    return {progress["batchId"] for progress in query.recentProgress if progress["numInputRows"]}
