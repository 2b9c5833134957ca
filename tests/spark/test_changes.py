"""Archives whose topic, schema or table changes under them: told before anything is written, never skipped."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark.errors import StreamingQueryException

from firearrow.blocking import Message
from firearrow.spark.lake import access
from firearrow.spark.lake.fit import DoesNotFit
from firearrow.spark.lake.frames import arrow_schema
from firearrow.spark.lake.table import LakeTable
from firearrow.spark.pipelines import archive
from tests.spark.serving import Served, send, served
from tests.spark.source.test_damage import send_packed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.real

FORMATS = ("parquet", "iceberg", "delta")
OPTIONS = ("--conf", "spark.ui.enabled=false", "--conf", "spark.driver.host=127.0.0.1")


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(tmp_path_factory.mktemp("broker")) as running:
        yield running


def table(form: str, directory: Path) -> LakeTable:
    return LakeTable(form, str(directory / form), "shop.orders" if form == "iceberg" else "")  # type: ignore[arg-type]


def job(form: str, broker: Served, topic: str, directory: Path, **more: object) -> archive.Archive:
    source = {"nameServer": broker.name_server, "subscribe": topic}
    return archive.Archive(source, table(form, directory), str(directory / f"checkpoint-{form}"), **more)  # type: ignore[arg-type]


def run(spark: "SparkSession", what: archive.Archive) -> None:
    for query in archive.start(spark, what):
        query.awaitTermination()


def orders(topic: str, count: int, start: int = 0) -> list[Message]:
    return [Message.of(topic, json.dumps({"id": n, "item": f"i{n}"}).encode()) for n in range(start, start + count)]


def parquet_files(directory: Path) -> list[Path]:
    return sorted(directory.rglob("*.parquet"))


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("changed", ["id string, item string", "id long, item string, price double"])
def test_a_changed_schema_is_refused_before_a_file_is_written(
    spark: "SparkSession", broker: Served, tmp_path: Path, form: str, changed: str
) -> None:
    topic = f"schemas-{form}-{len(changed)}"
    send(broker.name_server, orders(topic, 20))
    run(spark, job(form, broker, topic, tmp_path, body_schema="id long, item string", bronze=False))
    send(broker.name_server, orders(topic, 20, 20))
    before = parquet_files(tmp_path)
    with pytest.raises(DoesNotFit, match="Nothing was written"):
        run(spark, job(form, broker, topic, tmp_path, body_schema=changed, bronze=False))
    assert parquet_files(tmp_path) == before
    same = job(form, broker, topic, tmp_path, body_schema="id long, item string", bronze=False)
    run(spark, same)
    found = access.read(spark, same.tables()[archive.TYPED]).select("id", "item").collect()
    assert sorted((row.id, row.item) for row in found) == [(n, f"i{n}") for n in range(40)]


def test_a_delta_table_by_topic_has_its_topics(spark: "SparkSession", broker: Served, tmp_path: Path) -> None:
    from deltalake import DeltaTable, Schema

    for topic in ("parts-a", "parts-b"):
        send(broker.name_server, orders(topic, 10))
    what = job("delta", broker, "parts-a,parts-b", tmp_path)
    columns = Schema.from_arrow(arrow_schema(archive.stream(spark, what).schema))
    DeltaTable.create(what.table.location, schema=columns, partition_by=["topic"])
    run(spark, what)
    for found in (
        [row.topic for row in access.read(spark, what.table).select("topic").collect()],
        DeltaTable(what.table.location).to_pyarrow_table(columns=["topic"])["topic"].to_pylist(),
    ):
        assert sorted(found) == ["parts-a"] * 10 + ["parts-b"] * 10


def test_a_broker_that_begins_anew_stops_an_archive(spark: "SparkSession", tmp_path: Path) -> None:
    old = Served(tmp_path / "old")
    old.start()
    send(old.name_server, orders("orders", 200))
    what = job("delta", old, "orders", tmp_path)
    run(spark, what)
    old.kill()
    for count in (150, 300):  # below the archived offsets, then past them
        with served(tmp_path / f"new-{count}", like=old) as new:
            send(new.name_server, orders("orders", count, 1000))
            with pytest.raises(StreamingQueryException, match="has changed"):
                run(spark, what)
            if count == 300:
                source = {**what.source, "failOnDataLoss": "false"}
                run(spark, archive.Archive(source, what.table, what.checkpoint))
    bodies = [json.loads(row.body)["id"] for row in access.read(spark, what.table).select("body").collect()]
    assert sorted(bodies) == [*range(200), *range(1000, 1300)]


def test_a_body_that_does_not_inflate_does_not_stop_an_archive(
    spark: "SparkSession", broker: Served, tmp_path: Path
) -> None:
    send(broker.name_server, orders("poison", 3))
    send_packed(broker.name_server, "poison", b"not zlib")
    what = job("delta", broker, "poison", tmp_path, body_schema="id long, item string")
    run(spark, what)
    tables = what.tables()
    assert access.read(spark, tables[archive.BRONZE]).count() == 4
    assert access.read(spark, tables[archive.TYPED]).count() == 3
    (bad,) = access.read(spark, tables[archive.QUARANTINE]).collect()
    assert bytes(bad.body) == b"not zlib"
    assert "does not inflate" in bad.reason


def test_spark_submit_runs_the_commands(broker: Served, tmp_path: Path) -> None:
    from deltalake import DeltaTable

    send(broker.name_server, orders("submitted", 50))
    said = subprocess.run(
        [sys.executable, "-m", "firearrow", "pipeline", "script"], capture_output=True, text=True, check=True
    )
    submit = str(Path(sys.executable).with_name("spark-submit"))
    words = [submit, "--master", "local[1]", "--conf", f"spark.pyspark.python={sys.executable}", *OPTIONS]
    words += [said.stdout.strip(), "pipeline", "archive", "--topics", "submitted", "--format", "delta"]
    words += ["--location", str(tmp_path / "t"), "--checkpoint", str(tmp_path / "c")]
    environment = {**os.environ, "FIREARROW_NAMESRV": broker.name_server, "SPARK_LOCAL_IP": "127.0.0.1"}
    done = subprocess.run(words, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr[-3000:]
    assert len(DeltaTable(str(tmp_path / "t")).to_pyarrow_table(columns=["queue_offset"])) == 50
