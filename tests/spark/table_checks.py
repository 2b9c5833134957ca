"""Tables whose rows change, and tables with partitions: what must hold for every format and runtime.

    python -m tests.spark.table_checks DIRECTORY FORMAT [key=value ...]

runs the checks on a table of a native runtime, with settings of Spark; `tests.spark.versions` does so for each of them.
Rows come from JSON files as a stream, so that every step is a query with the checkpoint of the step before.
"""

import json
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from firearrow.errors import SettingsError
from firearrow.runtime.clock import SystemClock
from firearrow.spark.lake import access
from firearrow.spark.lake.fit import DoesNotFit
from firearrow.spark.lake.table import LakeTable
from firearrow.spark.upkeep.maintain import maintain_natively
from firearrow.spark.upkeep.work import Upkeep

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Make = Callable[..., LakeTable]
"""Makes a table by a name, with fields of `LakeTable`."""

FIRST = "id int, gone string, inner struct<a: int>, many array<struct<x: float>>, price decimal(6,2)"
ADDED = "at timestamp, many array<struct<n: long, x: float>>, inner struct<b: string, a: int>, id int"
WIDER = "id long, inner struct<a: long>, many array<struct<x: double>>, price decimal(9,2)"
UNFIT = "id string, inner struct<a: int>"
ONE = {"id": 1, "gone": "g", "inner": {"a": 1}, "many": [{"x": 0.5}], "price": 1.25}
TWO = {"id": 2, "inner": {"a": 2, "b": "b"}, "many": [{"x": 1.5, "n": 7}], "at": "2026-05-01T00:00:00Z"}
THREE = {"id": 1 << 40, "inner": {"a": 1 << 40}, "many": [{"x": 1e300}], "price": 1234567.25}
FOUR = {**ONE, "id": 4}


def plain(value: Any) -> Any:
    """Rows of any reader alike: dictionaries without what is null, times in UTC, plain numbers."""
    if hasattr(value, "asDict"):
        value = value.asDict(recursive=True)
    if isinstance(value, dict):
        return {name: plain(inner) for name, inner in value.items() if inner is not None}
    if isinstance(value, list):
        return [plain(inner) for inner in value]
    if isinstance(value, datetime):  # Spark hands out times without a zone; tests run in UTC
        return value.replace(tzinfo=value.tzinfo or UTC).astimezone(UTC).isoformat().replace("+00:00", "Z")
    return float(value) if isinstance(value, Decimal) else value


def by_id(rows: list[Any]) -> list[dict[str, Any]]:
    """Plain rows in their order."""
    found: list[dict[str, Any]] = sorted((plain(row) for row in rows), key=lambda row: int(row["id"]))
    return found


class Steps:
    """A directory of JSON files that a stream reads, and the table that it fills."""

    def __init__(self, spark: "SparkSession", make: Make, directory: Path) -> None:
        self.spark, self.make, self._directory = spark, make, directory
        (directory / "in").mkdir(parents=True)

    def run(self, evolve: str, ddl: str, *rows: dict[str, Any]) -> LakeTable:
        """Add rows to the stream, read all that is new by this schema, and append it."""
        count = len(list((self._directory / "in").iterdir()))
        text = "".join(json.dumps(row) + "\n" for row in rows)
        if rows:
            (self._directory / "in" / f"{count}.json").write_text(text)
        table = self.make("evolved", evolve=evolve)
        frame = self.spark.readStream.schema(ddl).json(str(self._directory / "in"))
        access.start(frame, table, str(self._directory / "checkpoint"), access.DRAIN).awaitTermination()
        return table

    def read(self, table: LakeTable) -> list[dict[str, Any]]:
        return by_id(access.read(self.spark, table).collect())


def check_evolution(spark: "SparkSession", make: Make, directory: Path, widens: bool) -> LakeTable:
    """Added, removed, retyped and nested fields, step by step; the table at the end has `ONE`, `TWO`, `FOUR`."""
    steps = Steps(spark, make, directory)
    steps.run("fail", FIRST, ONE)
    with pytest.raises(DoesNotFit, match=r"(?s)it has no column .*Give --evolve add"):
        steps.run("fail", ADDED, TWO)
    table = steps.run("add", ADDED)
    assert steps.read(table) == [ONE, TWO]
    with pytest.raises(DoesNotFit, match=r"id is int there and (long|string) in the rows"):
        steps.run("add", WIDER)
    if widens:
        table = steps.run("widen", WIDER, THREE)
        assert steps.read(table) == [ONE, TWO, THREE]
    files = sorted(directory.rglob("*.parquet"))
    with pytest.raises(DoesNotFit, match=r"(?s)Nothing was written.*string in the rows.*fill another table") as caught:
        steps.run("widen", UNFIT)
    assert len(str(caught.value).splitlines()) == 3
    assert sorted(directory.rglob("*.parquet")) == files
    table = steps.run("fail", FIRST, FOUR)  # narrower than the table by now, and without its new columns
    assert steps.read(table) == by_id([ONE, TWO, FOUR, *([THREE] if widens else [])])
    return table


EVENING = datetime(2026, 5, 1, 22, 30, tzinfo=UTC)


def check_midnight(spark: "SparkSession", make: Make, by: str) -> LakeTable:
    """A batch over midnight and five hours, then another one that only the table's own partitions guide."""
    rows = [(n, f"t{n % 2}", EVENING + timedelta(minutes=15 * n)) for n in range(16)]
    frame = spark.createDataFrame(rows, "n long, topic string, at timestamp").coalesce(1)
    table = make("parts", partition_by=by)
    access.append(frame, table, "one")
    access.append(frame.selectExpr("n + 100 as n", "topic", "at"), make("parts"), "two")
    with pytest.raises(SettingsError, match=r"exists and is partitioned by"):
        access.append(frame, make("parts", partition_by="topic"))
    found = {(row.n, row.topic, plain(row.at)) for row in access.read(spark, table).collect()}
    assert found == {(n + more, topic, plain(at)) for n, topic, at in rows for more in (0, 100)}
    return table


def check_native_upkeep(spark: "SparkSession", make: Make) -> None:
    """Small files compacted, rows deleted by key and by age, old versions and orphan files removed, by statements."""
    rows = [(n, EVENING + timedelta(days=n)) for n in range(8)]
    table = make("kept")
    for n, at in rows:
        access.append(spark.createDataFrame([(n, at)], "n long, store_timestamp timestamp").coalesce(1), table)
    now_ms = int((EVENING + timedelta(days=12)).timestamp() * 1000)
    work = Upkeep(compact=True, min_files=2, delete_where="n = 5", ttl_ms=10 * 86_400_000)
    assert len(list(maintain_natively(spark, table, work, now_ms))) >= 3
    kept = [row for row in rows if row[0] not in (0, 1, 5)]
    # Delta's VACUUM of orphan files starts 10,000 tasks for any table: too slow here.
    for later in (Upkeep(), Upkeep(expire_ms=0, orphans_ms=86_400_000 if table.format == "iceberg" else None)):
        if later != Upkeep():
            list(maintain_natively(spark, table, later, SystemClock().now_ms()))
        found = access.read(spark, table)
        assert sorted((row.n, plain(row.store_timestamp)) for row in found.collect()) == [
            (n, plain(at)) for n, at in kept
        ]
        assert found.selectExpr("input_file_name()").distinct().count() == 1


def main() -> None:
    """Check the native runtime that the settings bring."""
    from firearrow.spark.session import open_session
    from tests.spark.conftest import SETTINGS

    directory, form = Path(sys.argv[1]), sys.argv[2]
    spark = open_session("local[2]", {**SETTINGS, **dict(pair.split("=", 1) for pair in sys.argv[3:])}, "tables")

    def make(name: str, **more: Any) -> LakeTable:
        if form == "iceberg":
            return LakeTable("iceberg", "", f"lake.shop.{name}", native=True, **more)
        return LakeTable("delta", str(directory / name), native=True, **more)

    check_evolution(spark, make, directory / "steps", widens=True)
    by = "day(at), bucket(4, n), truncate(1, topic)" if form == "iceberg" else "hour(at), topic"
    table = check_midnight(spark, make, by)
    check_native_upkeep(spark, make)
    scanned = access.read(spark, table).where("at < '2026-05-01 23:00:00'")
    print(json.dumps({"evolved": form, "files": len(scanned.inputFiles())}))
    spark.stop()


if __name__ == "__main__":
    main()
