"""A table by key, kept by an archive that is killed, held against the topic folded by hand.

From life to life the schema of bodies has a field more or less, so the table gets a column between two batches.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from firearrow.spark.lake import access
from firearrow.spark.lake.table import LakeTable
from firearrow.spark.pipelines.archive import TYPED, Archive
from firearrow.spark.pipelines.upserts import Upsert

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from firearrow.model import StoredMessage

PREFIX = "upsert-"
SCHEMAS = (
    "id long NOT NULL, number long NOT NULL, gone boolean",
    "id long NOT NULL, number long NOT NULL, gone boolean, name string",
)
KEYS, GONE_EVERY = 97, 7


def body(number: int) -> bytes:
    """A numbered row: few keys, each changed again and again, and deleted by every seventh number."""
    row = {"id": number % KEYS, "number": number, "gone": number % GONE_EVERY == 0, "name": f"n{number}"}
    return json.dumps(row).encode()


def table(name: str, directory: Path) -> LakeTable:
    """The location of the table of a format."""
    form = name.removeprefix(PREFIX)
    named, place = "shop.orders" if form == "iceberg" else "", str(directory / "upserts" / form)
    by = "bucket(3, id)" if form == "iceberg" else ""
    return LakeTable(form, place, named, evolve="add", partition_by=by).checked()  # type: ignore[arg-type]


def archive(name: str, table: LakeTable, source: Mapping[str, str], checkpoint: str, stage: int) -> Archive:
    """The archive of one life."""
    how = Upsert(("id",), delete_when="gone")
    schema = SCHEMAS[stage % len(SCHEMAS)]
    return Archive(source, table, checkpoint, schema, bronze=False, name=name, on_error="fail", upsert=how)


def differences(
    spark: "SparkSession", job: Archive, messages: "Mapping[tuple[int, int], StoredMessage]"
) -> dict[str, int]:
    """The differences between the table and the topic folded by hand: in a queue by offset, among queues by store
    time."""
    truth = folded(messages)
    rows = access.read(spark, job.tables()[TYPED]).select("id", "number").collect()
    found = {row.id: row.number for row in rows}
    return {
        "rows": len(rows),
        "lost": len(truth.keys() - found.keys()),
        "duplicated": len(rows) - len(found),
        "unknown": len(found.keys() - truth.keys()),
        "changed": sum(1 for key, number in found.items() if truth.get(key, number) != number),
    }


def folded(messages: "Mapping[tuple[int, int], StoredMessage]") -> dict[int, int]:
    """The number of every key that is not deleted at the end."""
    last: dict[int, dict[int, StoredMessage]] = {}
    for (queue, _), message in sorted(messages.items()):
        last.setdefault(json.loads(message.body)["id"], {})[queue] = message
    rows = {key: json.loads(max(each.items(), key=_moment)[1].body) for key, each in last.items()}
    return {key: row["number"] for key, row in rows.items() if not row["gone"]}


def _moment(item: "tuple[int, StoredMessage]") -> tuple[int, int]:
    queue, message = item
    return message.store_timestamp, queue
