"""An archive whose schema of bodies changes from life to life, and its tables held against the topic, row by row.

Every message is either typed or in the quarantine. Columns and rescued data of a typed row together are its body. Ids
above 32 bits are typed by some of the schemas only, so a message would be in neither table or in both if the two were
ever filled by different schemas.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from firearrow.spark.bodies.body_format import RESCUED
from firearrow.spark.lake import access
from firearrow.spark.lake.table import LakeTable
from firearrow.spark.pipelines.archive import QUARANTINE, TYPED, Archive

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PREFIX = "changing-"
SCHEMAS = (
    "id int, item string, gone string, inner struct<a: int>",
    "id long, item string, inner struct<a: int, b: string>, price float",
    "id long, item string, gone string, inner struct<a: long, b: string>, price double, many array<struct<x: int>>",
)
UNWIDENED = (
    "id long, item string, gone string, inner struct<a: int>",
    "id long, item string, inner struct<a: int, b: string>, price double",
    "id int, item string, gone string, price double, many array<struct<x: int>>",
)
BAD_EVERY, LARGE_EVERY = 50, 7
Place = tuple[int, int]


def body(number: int) -> bytes:
    """The body of a message: JSON with large and small ids, now and then nonsense."""
    if number % BAD_EVERY == 0:
        return b"nonsense %d" % number
    made = {
        "id": number + (1 << 40) * (number % LARGE_EVERY == 0),
        "item": f"i{number}",
        "gone": f"g{number}",
        "inner": {"a": number % 1000, "b": f"b{number}"},
        "price": number % 100_000 / 4,
        "many": [{"x": number % 10}, {"x": 7}],
    }
    return json.dumps(made).encode()


def archive(name: str, table: LakeTable, source: Mapping[str, str], checkpoint: str, stage: int) -> Archive:
    """The archive of one life. Types of Delta are widened by its own runtime only."""
    schemas = UNWIDENED if table.format == "delta" and not table.native else SCHEMAS
    return Archive(source, table, checkpoint, schemas[stage % len(schemas)], bronze=False, name=name)


def settings(form: str) -> dict[str, Any]:
    """The changes that the tables may make, and their partitions."""
    by = "hour(store_timestamp), bucket(3, item), topic" if form == "iceberg" else "hour(store_timestamp), topic"
    return {"evolve": "widen", "partition_by": by}


def differences(spark: "SparkSession", job: Archive, truth: Mapping[Place, bytes]) -> dict[str, int]:
    """The rows that typed table and quarantine together lack, have twice, or have otherwise than the topic."""
    tables = job.tables()
    typed = [row.asDict(recursive=True) for row in access.read(spark, tables[TYPED]).collect()]
    bad = access.read(spark, tables[QUARANTINE]).select("queue_id", "queue_offset", "body").collect()
    places = [(row["_queue_id"], row["_queue_offset"]) for row in typed]
    places += [(row.queue_id, row.queue_offset) for row in bad]
    changed = [row for row in typed if _differs(row, truth.get((row["_queue_id"], row["_queue_offset"]), b""))]
    rewritten = [row for row in bad if truth.get((row.queue_id, row.queue_offset)) != bytes(row.body)]
    return {
        "rows": len(places),
        "typed": len(typed),
        "columns": len(typed[0]) if typed else 0,
        "lost": len(truth.keys() - set(places)),
        "duplicated": len(places) - len(set(places)),
        "unknown": len(set(places) - truth.keys()),
        "changed": len(changed) + len(rewritten),
    }


def _differs(row: Mapping[str, Any], text: bytes) -> bool:
    """Whether columns and rescued data of a row together are another body than the message's."""
    fields = {name: value for name, value in row.items() if not name.startswith("_")}
    return not text.startswith(b"{") or _joined(fields, json.loads(row[RESCUED] or "{}")) != json.loads(text)


def _joined(one: Mapping[str, Any], two: Mapping[str, Any]) -> dict[str, Any]:
    """Two objects as one, at any depth, without what is null in the first."""
    found = dict(two)
    for name, value in one.items():
        if isinstance(value, dict):
            found[name] = _joined(value, two.get(name, {}))
        elif value is not None:
            found[name] = value
    return found


def table(name: str, directory: Path) -> LakeTable:
    """The location of a changing archive's tables."""
    form = name.removeprefix(PREFIX).removeprefix("native-")
    native = "native-" in name
    if native and form == "iceberg":
        return LakeTable("iceberg", "", "lake.shop.changing", native=True, **settings(form))
    named = "shop.changing" if form == "iceberg" else ""
    place = str(directory / name)
    return LakeTable(form, place, named, native=native, **settings(form)).checked()  # type: ignore[arg-type]
