"""Archives of a live topic in every format; batches that Spark repeats; backfill; replay; the three lines of SQL."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace
from pyspark.errors import StreamingQueryException

from firearrow.blocking import Message
from firearrow.errors import SettingsError
from firearrow.spark.lake import access
from firearrow.spark.lake.table import LakeTable
from firearrow.spark.pipelines import archive, replay
from firearrow.spark.pipelines.progress import read_progress
from tests.spark.serving import Served, held, send, served

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

COUNT = 1500
FORMATS = ("parquet", "iceberg", "delta")


def body(number: int) -> bytes:
    return (
        b"nonsense %d" % number if number % 100 == 99 else json.dumps({"name": f"n{number}", "price": number}).encode()
    )


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(tmp_path_factory.mktemp("broker")) as running:
        send(running.name_server, [Message.of("orders", body(n), tag="new", keys=[f"k{n}"]) for n in range(COUNT)])
        yield running


def job(form: str, broker: Served, directory: Path, **more: object) -> archive.Archive:
    table = LakeTable(form, str(directory / form), "shop.orders" if form == "iceberg" else "")  # type: ignore[arg-type]
    source = {"nameServer": broker.name_server, "subscribe": "orders", "maxOffsetsPerTrigger": "600"}
    return archive.Archive(source, table, str(directory / f"checkpoint-{form}"), **more)  # type: ignore[arg-type]


def run(spark: "SparkSession", what: archive.Archive) -> None:
    for query in archive.start(spark, what):
        query.awaitTermination()


def places(spark: "SparkSession", table: LakeTable) -> list[tuple[int, int, bytes]]:
    rows = access.read(spark, table).select("queue_id", "queue_offset", "body").collect()
    return sorted((row.queue_id, row.queue_offset, bytes(row.body)) for row in rows)


def truth(broker: Served, topic: str = "orders") -> list[tuple[int, int, bytes]]:
    return sorted((*place, message.body) for place, message in held(broker.name_server, topic).items())


@pytest.mark.parametrize("form", FORMATS)
def test_a_topic_is_archived_once_over_repeats_of_any_batch(
    spark: "SparkSession", broker: Served, tmp_path: Path, form: str
) -> None:
    what = job(form, broker, tmp_path)
    run(spark, what)
    assert places(spark, what.table) == truth(broker)
    # The window that matters: the table has taken a batch, Spark has not noted it. Forget the note, of the last batch.
    commits = Path(what.checkpoint) / "bronze" / "commits"
    last = max(int(entry.name) for entry in commits.iterdir() if entry.name.isdigit())
    for entry in commits.iterdir():
        if entry.name in (str(last), f".{last}.crc"):
            entry.unlink()
    run(spark, what)
    assert places(spark, what.table) == truth(broker), "a batch that Spark repeats is not added again"
    before = len(truth(broker))
    send(broker.name_server, [Message.of("orders", body(n)) for n in range(50)])
    run(spark, what)
    assert len(places(spark, what.table)) == before + 50
    assert places(spark, what.table) == truth(broker)


def test_json_bodies_fill_a_typed_table_and_a_quarantine(spark: "SparkSession", broker: Served, tmp_path: Path) -> None:
    what = job("delta", broker, tmp_path, body_schema="name string, price long", bronze=False)
    for query in archive.start(spark, what):
        query.awaitTermination()
        progress = query.lastProgress
        assert progress is not None
        assert read_progress(dict(progress)).lag == 0
    bodies = [text for *_, text in truth(broker)]
    bad = sorted(text for text in bodies if text.startswith(b"nonsense"))
    typed = access.read(spark, what.tables()[archive.TYPED])
    assert typed.count() == len(bodies) - len(bad)
    assert {row.name for row in typed.where("price = 7").collect()} == {"n7"}
    rejected = access.read(spark, what.tables()[archive.QUARANTINE]).collect()
    assert sorted(bytes(row.body) for row in rejected) == bad
    assert {row.reason for row in rejected} == {"the body is not JSON: Expecting value (character 0)"}
    assert archive.register_views(spark, what) == ["typed", "quarantine"]
    assert spark.sql("select count(*) as n from typed where name like 'n1%'").first()["n"] > 100  # type: ignore[index]


def test_history_is_replayed_in_order_and_marked(spark: "SparkSession", broker: Served, tmp_path: Path) -> None:
    what = job("parquet", broker, tmp_path)
    run(spark, what)
    rows = access.read(spark, what.table)
    how = replay.Replay(
        "again-1",
        {"nameServer": broker.name_server},
        topic="copies",
        predicate="queue_offset between 10 and 109",
        tasks=2,
    )
    assert sum(row.messages for row in replay.summary(rows, how).collect()) == 400
    replay.replay(rows, how)
    chosen = [place for place in truth(broker) if 10 <= place[1] <= 109]
    copies = held(broker.name_server, "copies")
    assert sorted(message.body for message in copies.values()) == sorted(text for *_, text in chosen)
    for queue in range(4):
        sent = [message for (number, _), message in sorted(copies.items()) if number == queue]
        assert [message.body for message in sent] == [text for number, _, text in chosen if number == queue]
        assert {message.properties["FIREARROW_REPLAY"] for message in sent} == {"again-1"}
        assert sent[0].properties["FIREARROW_REPLAY_OF"].startswith(f"dev/orders/{queue}/10@")


def test_rows_of_a_stream_are_written_to_a_topic(spark: "SparkSession", broker: Served, tmp_path: Path) -> None:
    source = spark.readStream.format("rocketmq").options(
        nameServer=broker.name_server, subscribe="orders", startingOffsets="earliest"
    )
    writer = source.load().writeStream.format("rocketmq").option("nameServer", broker.name_server)
    writer = writer.option("topic", "mirror").option("checkpointLocation", str(tmp_path / "c"))
    writer.trigger(availableNow=True).start().awaitTermination()
    mirrored = held(broker.name_server, "mirror").values()
    assert sorted(message.body for message in mirrored) == sorted(text for *_, text in truth(broker))
    assert len({message.properties["FIREARROW_ROW_ID"] for message in mirrored}) == len(mirrored)
    assert "new" in {message.tag for message in mirrored}


def test_store_files_fill_a_table_in_one_commit(spark: "SparkSession", broker: Served, tmp_path: Path) -> None:
    snapshot = tmp_path / "snapshot"
    shutil.copytree(broker.directory / "store", snapshot)
    table = LakeTable("iceberg", str(tmp_path / "w"), "shop.history")
    for _ in range(2):
        archive.backfill(spark, {"path": str(snapshot), "subscribe": "orders"}, table, "first")
    assert places(spark, table) == truth(broker)


def test_bodies_that_are_not_of_the_schema_end_an_archive_or_are_left_out(
    spark: "SparkSession", broker: Served, tmp_path: Path
) -> None:
    what = job("delta", broker, tmp_path, body_schema="name string, price long", bronze=False, on_error="fail")
    assert list(what.tables()) == [archive.TYPED]
    with pytest.raises(StreamingQueryException, match="the body is not JSON: Expecting value"):
        run(spark, what)
    assert access.read(spark, what.tables()[archive.TYPED]).count() == 0
    run(spark, replace(what, on_error="skip"))
    good = [text for *_, text in truth(broker) if not text.startswith(b"nonsense")]
    assert access.read(spark, what.tables()[archive.TYPED]).count() == len(good)
    for wrong in (replace(what, on_error="ignore"), replace(what, on_error="fail", body_schema="")):
        with pytest.raises(SettingsError, match="--on-error"):
            wrong.checked()


def test_an_archive_that_fills_nothing_is_refused() -> None:
    with pytest.raises(SettingsError, match="nothing to fill"):
        archive.Archive({}, LakeTable("delta", "/d"), "/c", bronze=False).tables()


def test_a_native_table_without_its_runtime_is_refused(spark: "SparkSession") -> None:
    frame = spark.range(1)
    with pytest.raises(SettingsError, match="no runtime for native delta"):
        access.append(frame, LakeTable("delta", "/nowhere", native=True))
