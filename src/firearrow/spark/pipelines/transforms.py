"""Functions of archives. Each takes a DataFrame of rows of the source and returns another; none reads or writes.

Bodies: a body that does not inflate, cannot be read, or is not of the schema (`firearrow.spark.bodies`) goes to the
quarantine with all its columns and a reason, and into the typed table with none: a row is in exactly one of the two.
Columns of the typed table that say where a row came from, and what of its body is in no column, begin with an
underscore, so that fields of bodies may be called what they like.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F  # noqa: N812 - the name everyone uses
from pyspark.sql.types import BooleanType, StringType, StructField, StructType

from firearrow.errors import SettingsError
from firearrow.model import keys
from firearrow.model.names import DLQ_PREFIX, RETRY_PREFIX
from firearrow.spark.bodies.batches import REASON, QuarantinedRows, TypedRows
from firearrow.spark.bodies.body_format import BodyFormat, decoder, resolved
from firearrow.spark.lake.keys import DELETED

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

ROW_IDENTITY: Final = "_row_identity"
"""The name of ``row_id`` in typed tables: Iceberg's readers have a column ``_row_id`` of their own."""
PROVENANCE: Final = {
    "row_id": ROW_IDENTITY,
    "topic": "_topic",
    "broker": "_broker",
    "queue_id": "_queue_id",
    "queue_offset": "_queue_offset",
    "keys": "_keys",
    "tags": "_tags",
    "born_timestamp": "_born_timestamp",
    "store_timestamp": "_store_timestamp",
}
"""Columns that a typed row keeps of its message, and what they are called there."""

FAIL: Final = "fail"
QUARANTINE: Final = "quarantine"
SKIP: Final = "skip"
ERROR_MODES: Final = (FAIL, QUARANTINE, SKIP)
"""Ways to treat a row whose body is not of the schema: it ends the job, goes to the quarantine, or is left out."""


def typed(rows: "DataFrame", how: BodyFormat, on_error: str = QUARANTINE, key: Sequence[str] = ()) -> "DataFrame":
    """The rows whose bodies are of the schema, one column a field; with a key also whether a row is deleted."""
    how = resolved(how)
    schema = StructType([field for field in rows.schema.fields if field.name in PROVENANCE])
    columns = {name: PROVENANCE[name] for name in schema.fieldNames()}
    fields = [StructField(columns[field.name], field.dataType) for field in schema.fields]
    fields.append(StructField(how.rescued, StringType()))
    if key:
        fields.append(StructField(DELETED, BooleanType()))
    fields += [StructField(field.name, field.dataType) for field in decoder(how).schema.fields]
    _require_columns(key, fields)
    made = StructType(fields)
    _require_distinct(made)
    needed = [name for name in rows.columns if name in columns or name in ("body", "sys_flag")]
    run = TypedRows(how, tuple(key), columns, made, on_error == FAIL)
    return rows.select(*needed).mapInArrow(run, made)


def _require_distinct(schema: StructType) -> None:
    seen: set[str] = set()
    for name in schema.fieldNames():
        if name.lower() in seen:
            raise SettingsError(f"the typed table would have two columns {name}; rename the field")
        seen.add(name.lower())


def _require_columns(key: Sequence[str], fields: Sequence[StructField]) -> None:
    names = [field.name for field in fields]
    for name in key:
        if name not in names:
            raise SettingsError(f"--key names {name}, and the schema of bodies has no such field")


def quarantine(rows: "DataFrame", how: BodyFormat, key: Sequence[str] = ()) -> "DataFrame":
    """The rows whose bodies are not of the schema, whole, with a reason."""
    schema = StructType([*rows.schema.fields, StructField(REASON, StringType())])
    return rows.mapInArrow(QuarantinedRows(resolved(how), tuple(key)), schema)


def retries(rows: "DataFrame") -> "DataFrame":
    """Deliveries that were put back: which group, which topic it came from, how often, which message."""
    return _put_back(rows, RETRY_PREFIX, keys.RETRY_TOPIC, keys.ORIGIN_MESSAGE_ID)


def dead_letters(rows: "DataFrame") -> "DataFrame":
    """Messages that a group gave up: which group, which topic it came from, how often, which message."""
    return _put_back(rows, DLQ_PREFIX, keys.DLQ_ORIGIN_TOPIC, keys.DLQ_ORIGIN_MESSAGE_ID)


def _put_back(rows: "DataFrame", prefix: str, topic: str, message: str) -> "DataFrame":
    properties = F.col("properties")
    return (
        rows.where(F.col("topic").startswith(prefix))
        .withColumn("consumer_group", F.substring("topic", len(prefix) + 1, 1 << 20))
        .withColumn("origin_topic", F.coalesce(properties[topic], properties[keys.RETRY_TOPIC]))
        .withColumn("origin_message_id", F.coalesce(properties[message], properties[keys.ORIGIN_MESSAGE_ID]))
    )
