"""The quarantine read again, after the schema of bodies was mended: rows that fit now move to the typed table, once.

Rows are first brought into the typed table, in one commit, and then taken out of the quarantine, in another. A job that
died in between is run again: rows that the typed table has already, by their ``row_id``, are not appended again (with
upserts a version is not later than itself), and leave the quarantine then. An archive may run meanwhile; two of these
jobs at once may not.
"""

from typing import TYPE_CHECKING

import pyarrow as pa

from firearrow.errors import SettingsError
from firearrow.spark.bodies.batches import REASON
from firearrow.spark.lake import access, changes
from firearrow.spark.lake.keys import DELETED
from firearrow.spark.pipelines import transforms, upserts
from firearrow.spark.pipelines.archive import QUARANTINE, TYPED, Archive

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from firearrow.spark.lake.table import LakeTable

ROW_ID = "row_id"


def requarantine(spark: "SparkSession", archive: Archive) -> tuple[int, int]:
    """Move what fits; return how many rows moved and how many stay."""
    how, tables = archive.body_format, archive.tables()
    if how is None or QUARANTINE not in tables:
        raise SettingsError("a quarantine is read again by a schema of bodies; give --body-schema or its like")
    held, typed = tables[QUARANTINE], tables[TYPED]
    changes.require_changeable(held)
    rows = access.read(spark, held)
    key = archive.upsert.key if archive.upsert else ()
    fitting = transforms.typed(rows.drop(REASON), how, transforms.SKIP, key).persist()
    try:
        before, moved = rows.count(), fitting.count()
        if moved:
            _bring(fitting, typed, archive.upsert)
            _remove(fitting, held)
    finally:
        fitting.unpersist()
    return moved, before - moved


def _bring(fitting: "DataFrame", typed: "LakeTable", upsert: "upserts.Upsert | None") -> None:
    if upsert is not None:
        rows = upserts.fitted(upsert.changes(fitting), typed, upsert)
        changes.apply(typed, upsert.fold(rows).toArrow(), upsert.key)
        return
    access.fitted(fitting, typed)
    there = access.read(fitting.sparkSession, typed).select(transforms.ROW_IDENTITY)
    fresh = fitting.join(there, transforms.ROW_IDENTITY, "left_anti").select(*fitting.columns)
    access.append(fresh, typed)


def _remove(fitting: "DataFrame", held: "LakeTable") -> None:
    ids = fitting.select(transforms.ROW_IDENTITY).toArrow().column(0)
    gone = pa.table({ROW_ID: ids, DELETED: pa.array([True] * len(ids), pa.bool_())})
    changes.replace(held, gone, (ROW_ID,))
