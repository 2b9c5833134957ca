"""A new schema of bodies: what fills typed table and quarantine up to one offset before it is used."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, cast

import pytest

from firearrow.client import MessageQueue
from firearrow.errors import SettingsError
from firearrow.spark.bodies.body_format import BodyFormat
from firearrow.spark.lake.table import LakeTable
from firearrow.spark.pipelines import archive, body_schemas

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

QUEUE = MessageQueue("orders", "broker-a", 0)
OLD, NEW = "id long", "id long, land string"
SPARK = cast("SparkSession", None)  # nothing here asks it


def test_an_old_schema_fills_tables_with_partitions_of_the_new_one(monkeypatch: pytest.MonkeyPatch) -> None:
    filled: list[archive.Archive] = []
    noted: list[BodyFormat] = []

    def fill_up(spark: object, what: archive.Archive, until: Mapping[MessageQueue, int]) -> None:  # noqa: ARG001
        filled.append(what)
        assert until == {QUEUE: 7}

    monkeypatch.setattr(body_schemas, "noted", lambda *_: BodyFormat(schema=OLD))
    monkeypatch.setattr(body_schemas, "planned_end", lambda _, path: {QUEUE: 7 if path.endswith("typed") else 3})
    monkeypatch.setattr(body_schemas, "note", lambda _, __, how: noted.append(how))
    monkeypatch.setattr(archive, "_fill_up", fill_up)
    what = archive.Archive({"subscribe": "orders"}, LakeTable("delta", "/t", partition_by="land"), "/c", NEW)
    archive._change_schema(SPARK, what, cast("BodyFormat", what.body_format))
    (old,) = filled
    assert noted == [what.body_format]
    assert old.source["endingOffsets"] == '{"orders": {"broker-a": {"0": 7}}}'
    tables, wanted = old.tables(), what.tables()
    assert sorted(tables) == [archive.QUARANTINE, archive.TYPED]
    assert [tables[name].location for name in tables] == [wanted[name].location for name in tables]
    # The rows of the old schema have no column land: they are not asked for it.
    targets = [archive.partitioned(table, ["id", "_topic"], name) for name, table in tables.items()]
    archive._require_used(old.table, targets)
    with pytest.raises(SettingsError, match="no table of this archive has a column land"):
        archive._require_used(what.table, targets)
