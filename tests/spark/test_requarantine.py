"""The quarantine read again: what fits moves once, wherever the job died; Avro and Protobuf through Spark."""

import base64
import json
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from typer.testing import CliRunner

from campaigns.rotation import this_turn
from firearrow.cli.pipeline import pipeline
from firearrow.errors import SettingsError, Unsupported
from firearrow.spark.bodies.body_format import BodyFormat
from firearrow.spark.lake import access
from firearrow.spark.lake.table import LakeTable
from firearrow.spark.pipelines import archive, requarantine, transforms
from firearrow.spark.pipelines.upserts import Upsert
from tests.property.spark.test_binary_bodies import ORDER, PROTOBUF, Newer, descriptors, written
from tests.spark.test_transforms import NOON, row, rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CELLS = [(form, step) for step in ("_bring", "_remove") for form in ("delta", "iceberg")]
NARROW = "id int NOT NULL, item string"
WIDE = "id long NOT NULL, item string"
BODIES = [b'{"id":1,"item":"a"}', b'{"id":4294967296,"item":"b"}', b'{"id":2}', b"nonsense", b'{"id":4294967297}']


def job(form: str, directory: Path, **more: Any) -> archive.Archive:
    table = LakeTable(form, str(directory / form), "shop.orders" if form == "iceberg" else "")  # type: ignore[arg-type]
    return archive.Archive({}, table, "", bodies=BodyFormat(schema=WIDE), bronze=False, **more)


def fill(spark: "SparkSession", what: archive.Archive) -> None:
    """Write the tables of an archive with a schema that is too narrow; the typed table was widened since."""
    given, tables = rows(spark, *(row(offset, body) for offset, body in enumerate(BODIES))), what.tables()
    narrow = BodyFormat(schema=NARROW)
    good = transforms.typed(given, narrow)
    if what.upsert is None:
        access.append(good.withColumn("id", good.id.cast("long")), tables[archive.TYPED])
    access.append(transforms.quarantine(given, narrow), tables[archive.QUARANTINE])


def typed_ids(spark: "SparkSession", what: archive.Archive) -> list[int]:
    return sorted(row.id for row in access.read(spark, what.tables()[archive.TYPED]).collect())


@pytest.mark.rotating
@pytest.mark.parametrize(("form", "died_after"), this_turn(CELLS, __name__))
def test_rows_that_fit_now_move_once_wherever_the_job_died(
    spark: "SparkSession", tmp_path: Path, form: str, died_after: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    what = job(form, tmp_path)
    fill(spark, what)
    assert typed_ids(spark, what) == [1, 2]
    real = getattr(requarantine, died_after)

    def dies(*given: Any) -> None:
        real(*given)
        raise ConnectionError("died")

    monkeypatch.setattr(requarantine, died_after, dies)
    with pytest.raises(ConnectionError):
        requarantine.requarantine(spark, what)
    monkeypatch.setattr(requarantine, died_after, real)
    moved, left = requarantine.requarantine(spark, what)
    assert (moved, left) == ((2, 1) if died_after == "_bring" else (0, 1))
    assert typed_ids(spark, what) == [1, 2, 1 << 32, (1 << 32) + 1]
    (stays,) = access.read(spark, what.tables()[archive.QUARANTINE]).collect()
    assert bytes(stays.body) == b"nonsense"
    assert requarantine.requarantine(spark, what) == (0, 1)


def test_rows_by_key_move_where_they_are_the_last_version(spark: "SparkSession", tmp_path: Path) -> None:
    what = job("delta", tmp_path, upsert=Upsert(("id",)))
    fill(spark, what)
    assert requarantine.requarantine(spark, what) == (2, 1)
    assert typed_ids(spark, what) == [1 << 32, (1 << 32) + 1]


@pytest.mark.usefixtures("jobs_in_this_session")
def test_the_command_moves_what_fits(spark: "SparkSession", tmp_path: Path) -> None:
    what = job("delta", tmp_path)
    fill(spark, what)
    words = ["requarantine", "--format", "delta", "--location", what.table.location, "--body-schema", WIDE]

    done = CliRunner().invoke(pipeline, words)

    assert done.exit_code == 0, done.output
    assert done.stdout == "2 rows moved to the typed table, 1 stay in the quarantine\n"
    assert typed_ids(spark, what) == [1, 2, 1 << 32, (1 << 32) + 1]


def test_what_cannot_be_read_again_is_refused(spark: "SparkSession", tmp_path: Path) -> None:
    with pytest.raises(Unsupported, match="no way to change rows"):
        requarantine.requarantine(spark, job("parquet", tmp_path))
    with pytest.raises(SettingsError, match="give --body-schema"):
        requarantine.requarantine(spark, archive.Archive({}, LakeTable("delta", "/t"), ""))


def test_avro_and_protobuf_bodies_become_columns(spark: "SparkSession") -> None:
    order = {"id": 5, "item": None, "price": Decimal("1.50"), "at": NOON, "lines": [{"sku": "s", "count": 2}],
             "labels": {"x": 0.5}, "kind": "OLD", "any": 7}  # fmt: skip
    given = rows(spark, row(0, written(order, ORDER)), row(1, b"\xff"))
    avro = BodyFormat("avro", json.dumps(ORDER))
    (one,) = transforms.typed(given, avro).collect()
    assert (one.id, one.item, str(one.price), one.lines[0].sku) == (5, None, "1.50", "s")
    assert (one.labels, one.any) == ({"x": 0.5}, "7")
    (bad,) = transforms.quarantine(given, avro).collect()
    assert "not Avro of its schema" in bad.reason
    message = Newer(id=(1 << 64) - 1, item="tea", raw=b"\x00", extra=5)
    message.lines.add(sku="s", count=3)
    given = rows(spark, row(0, message.SerializeToString()), row(1, b"\xff"))
    protobuf = BodyFormat("protobuf", base64.b64encode(descriptors()).decode(), message="shop.Order")
    (two,) = transforms.typed(given, protobuf).collect()
    assert (int(two.id), two.item, two.lines[0]["count"], two.at) == ((1 << 64) - 1, "tea", 3, None)
    assert two._rescued_data == '{"9": [5]}'
    (bad,) = transforms.quarantine(given, protobuf).collect()
    assert "not Protobuf" in bad.reason
    assert PROTOBUF.schema.fieldNames() == ["id", "item", "lines", "at", "raw"]
