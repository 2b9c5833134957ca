"""Tables that change with their rows and tables with partitions, in Spark, read back by other programs."""

from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from campaigns.rotation import this_turn
from firearrow.blocking import Message
from firearrow.errors import SettingsError
from firearrow.spark.lake import access, iceberg
from firearrow.spark.lake.table import LakeTable
from firearrow.spark.pipelines import archive
from tests.spark import table_checks
from tests.spark.readers import by_duckdb, by_python, scanned_by_duckdb
from tests.spark.serving import Served, send, served

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FORMATS = ("iceberg", "delta")
MIDNIGHT = datetime(2026, 5, 2, tzinfo=UTC)


def maker(form: str, directory: Path) -> table_checks.Make:
    def make(name: str, **more: Any) -> LakeTable:
        if form == "iceberg":
            return LakeTable("iceberg", str(directory / "warehouse"), f"shop.{name}", **more)
        return LakeTable("delta", str(directory / name), **more)

    return make


@pytest.mark.parametrize("form", FORMATS)
def test_added_removed_retyped_and_nested_fields(spark: "SparkSession", tmp_path: Path, form: str) -> None:
    table = table_checks.check_evolution(
        spark, maker(form, tmp_path / "lake"), tmp_path / "steps", widens=form == "iceberg"
    )
    wanted = table_checks.by_id(access.read(spark, table).collect())
    assert table_checks.by_id(by_duckdb(table)) == wanted
    assert table_checks.by_id(by_python(table)) == wanted


@pytest.mark.rotating
@pytest.mark.parametrize(("form", "by"), this_turn(list(product(FORMATS, ("day(at), topic", "hour(at)"))), __name__))
def test_a_batch_over_midnight_and_hours(spark: "SparkSession", tmp_path: Path, form: str, by: str) -> None:
    table = table_checks.check_midnight(spark, maker(form, tmp_path), by)
    evening = sorted([*range(6), *range(100, 106)])
    assert sorted(row["n"] for row in by_duckdb(table) if row["at"] < MIDNIGHT) == evening
    assert sorted(row["n"] for row in by_python(table) if row["at"] < MIDNIGHT) == evening
    # Pruning: a filter by the time leaves the files of one day of two and both topics, or of two hours of five.
    is_day = by.startswith("day")
    if form == "iceberg":
        found = iceberg.catalog(table).load_table(table.name)
        kept = list(found.scan(f"at < '{MIDNIGHT:%Y-%m-%dT%H:%M:%S}+00:00'").plan_files())
        assert {file.file.partition[0] for file in kept} == ({20574} if is_day else {493798, 493799})
        assert (len(kept), len(list(found.scan().plan_files()))) == ((4, 8) if is_day else (4, 10))
    else:
        from deltalake import DeltaTable

        parts = "at_day = DATE '2026-05-01'" if is_day else "at_hour < '2026-05-02'"
        log = DeltaTable(table.location)
        kept_by_time = log.file_uris(file_pruning_predicate=[("at", "<", MIDNIGHT)])
        assert (len(kept_by_time), len(log.file_uris())) == ((4, 8) if is_day else (4, 10))
        assert scanned_by_duckdb(table, parts) == 4


def test_buckets_and_truncations_of_iceberg(spark: "SparkSession", tmp_path: Path) -> None:
    table = table_checks.check_midnight(spark, maker("iceberg", tmp_path), "bucket(4, n), truncate(1, topic)")
    found = iceberg.catalog(table).load_table(table.name)
    for n in (3, 107):
        assert len(list(found.scan(f"n == {n}").plan_files())) < len(list(found.scan().plan_files()))
        assert [row["n"] for row in found.scan(f"n == {n}").to_arrow().to_pylist()] == [n]
        assert [row["n"] for row in by_duckdb(table) if row["n"] == n] == [n]


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(tmp_path_factory.mktemp("broker")) as running:
        for topic in ("parts-a", "parts-b"):
            send(running.name_server, [Message.of(topic, b'{"id": %d, "land": "l%d"}' % (n, n % 2)) for n in range(20)])
        send(running.name_server, [Message.of("parts-a", b"nonsense")])
        yield running


@pytest.mark.rotating
@pytest.mark.parametrize("form", this_turn(FORMATS, __name__))
def test_an_archive_by_day_topic_and_a_field_of_bodies(
    spark: "SparkSession", broker: Served, tmp_path: Path, form: str
) -> None:
    source = {"nameServer": broker.name_server, "subscribe": "parts-a,parts-b"}
    by = "day(store_timestamp), topic, land"
    table = maker(form, tmp_path)("orders", partition_by=by)
    job = archive.Archive(source, table, str(tmp_path / "c"), "id long, land string")
    for query in archive.start(spark, job):
        query.awaitTermination()
    tables = job.tables()
    rows = {name: by_duckdb(each) for name, each in tables.items()}
    assert {name: len(found) for name, found in rows.items()} == {"bronze": 41, "typed": 40, "quarantine": 1}
    assert sorted(row["id"] for row in rows["typed"]) == sorted([*range(20)] * 2)
    assert {(row["_topic"], row["land"]) for row in rows["typed"]} == {
        (topic, land) for topic in ("parts-a", "parts-b") for land in ("l0", "l1")
    }
    with pytest.raises(SettingsError, match="no table of this archive has a column shop"):
        archive.start(spark, archive.Archive(source, maker(form, tmp_path)("x", partition_by="shop"), str(tmp_path)))


@pytest.mark.timeout(600)  # six queries start, each with its Python processes
def test_a_new_schema_begins_at_one_offset_for_typed_table_and_quarantine(
    spark: "SparkSession", broker: Served, tmp_path: Path
) -> None:
    source = {"nameServer": broker.name_server, "subscribe": "schemas"}
    table = maker("delta", tmp_path)("orders", evolve="add")

    def job(schema: str) -> archive.Archive:
        return archive.Archive(source, table, str(tmp_path / "c"), schema, bronze=False)

    def run(what: archive.Archive) -> None:
        for query in archive.start(spark, what):
            query.awaitTermination()

    small, large = [Message.of("schemas", b'{"id": %d}' % n) for n in (1, 1 << 40)]
    narrow = job("id byte")
    access.fitted(spark.createDataFrame([], "id long"), narrow.tables()[archive.TYPED])
    send(broker.name_server, [small] * 4, together=1)
    run(narrow)
    # The typed table goes on and the driver ends before the quarantine does: the large one is in neither yet.
    send(broker.name_server, [large] * 4, together=1)
    typed = {archive.TYPED: archive._fitted(spark, narrow)[archive.TYPED]}
    for query in archive._begin(narrow, typed, access.DRAIN):
        query.awaitTermination()
    send(broker.name_server, [large] * 4, together=1)
    run(job("id long"))
    tables = job("id long").tables()
    assert sorted(row.id for row in access.read(spark, tables[archive.TYPED]).collect()) == [1] * 4 + [1 << 40] * 4
    assert access.read(spark, tables[archive.QUARANTINE]).count() == 4
