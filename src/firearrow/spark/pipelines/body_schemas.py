"""The schema of bodies in an archive's checkpoint: a new one begins at one offset for both tables that it fills.

The typed table and the quarantine are filled by queries of their own, which are at different offsets whenever the
archive stops. If both went on with a new schema, a message between the two offsets could be in neither table: not in
the typed one, because the old schema did not fit it, and not in the quarantine, because the new one does. So the schema
is noted in the checkpoint, and before another one is used both queries go on with the noted one, up to the end that was
planned last by either.
"""

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

import msgspec
from msgspec.structs import replace

from firearrow.spark.bodies.body_format import BodyFormat, resolved
from firearrow.spark.bodies.registry import without_user
from firearrow.spark.lake.storage import for_spark
from firearrow.spark.source import plan

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from firearrow.client import MessageQueue

NOTES: Final = "body-schemas"


def noted(spark: "SparkSession", checkpoint: str, now: BodyFormat) -> BodyFormat | None:
    """The format of bodies that was noted last, or None. A registry is asked where it is now."""
    found = texts(spark, f"{checkpoint}/{NOTES}/*")
    if not found:
        return None
    last = resolved(msgspec.json.decode(found[max(found)], type=BodyFormat))
    return replace(last, registry=now.registry, subject=now.subject) if last.registry and now.registry else last


def note(spark: "SparkSession", checkpoint: str, how: BodyFormat) -> None:
    """Note the format that both queries use from now on, without passwords. A note that a kill tore is not seen."""
    number = len(texts(spark, f"{checkpoint}/{NOTES}/*"))
    text = msgspec.json.encode(replace(how, registry=without_user(how.registry))).decode()
    made = spark.createDataFrame([(text,)], "value string").coalesce(1)
    made.write.mode("overwrite").text(f"{for_spark(checkpoint)}/{NOTES}/{number:08d}")


def planned_end(spark: "SparkSession", checkpoint: str) -> "dict[MessageQueue, int]":
    """The end of the last batch that a query has planned; empty for one that has planned none."""
    found = texts(spark, f"{checkpoint}/offsets")
    return end_in(found[max(found, key=int)]) if found else {}


def end_in(text: str) -> "dict[MessageQueue, int]":
    """The end of a batch, from its file: a version, settings of the batch, and a line of JSON for each source."""
    return plan.from_json(json.loads(text.splitlines()[2]))


def furthest(*ends: "Mapping[MessageQueue, int]") -> "dict[MessageQueue, int]":
    """The largest offset of each queue."""
    found: dict[MessageQueue, int] = {}
    for end in ends:
        for queue, offset in end.items():
            found[queue] = max(offset, found.get(queue, 0))
    return found


def texts(spark: "SparkSession", path: str) -> dict[str, str]:
    """Files with text by their names, or by their directories' where Spark chose the names."""
    from pyspark.errors import AnalysisException

    try:
        rows = spark.read.text(for_spark(path), wholetext=True).select("value", "_metadata.file_path")
        found = [(row.file_path.split("/"), row.value) for row in rows.collect()]
    except AnalysisException:  # nothing was written yet
        return {}
    return {parts[-2] if parts[-1].startswith("part-") else parts[-1]: text for parts, text in found}
