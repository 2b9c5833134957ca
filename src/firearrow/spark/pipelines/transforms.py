"""What archives make of rows. Each takes a DataFrame of rows of the source and returns another; none reads or writes.

JSON bodies: a body that does not inflate, is no UTF-8, no JSON, or does not fit the schema (`bodies`) goes to the
quarantine with all its columns and a reason, and into the typed table with none: a row is in exactly one of the two.
Columns of the typed table that say where a row came from, and which fields of its body are in no column, begin with an
underscore, so that fields of bodies may be called what they like.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F  # noqa: N812 - the name everyone uses

from firearrow.model import keys
from firearrow.model.flags import COMPRESSED
from firearrow.model.names import DLQ_PREFIX, RETRY_PREFIX
from firearrow.spark.pipelines import bodies

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import StructType

PROVENANCE: Final = (
    "row_id", "topic", "broker", "queue_id", "queue_offset", "keys", "tags", "born_timestamp", "store_timestamp",
)  # fmt: skip
"""Columns that a typed row keeps of its message."""

_PARSED: Final = "__parsed"
_CORRUPT: Final = "__corrupt"
_FAULT: Final = "__fault"


UNKNOWN_FIELDS: Final = "_unknown_fields"
"""The column of a typed row that names fields of its body which the schema does not have."""


def typed(rows: "DataFrame", schema: str) -> "DataFrame":
    """The rows whose bodies are JSON of this schema (Spark's DDL), one column a field."""
    parsed = _parsed(rows, schema).where(F.col(_FAULT).isNull())
    origin = [F.col(name).alias(f"_{name}") for name in PROVENANCE if name in rows.columns]
    unknown = bodies.unknown_fields(bodies.schema_of(schema), _text()).alias(UNKNOWN_FIELDS)
    fields = parsed.select(f"{_PARSED}.*").drop(_CORRUPT).columns
    return parsed.select(*origin, unknown, *(F.col(f"{_PARSED}.`{name}`").alias(name) for name in fields))


def quarantine(rows: "DataFrame", schema: str) -> "DataFrame":
    """The rows whose bodies are not JSON of this schema, whole, with a reason."""
    parsed = _parsed(rows, schema).withColumnRenamed(_FAULT, "reason")
    return parsed.where(F.col("reason").isNotNull()).drop(_PARSED)


def _text() -> "Column":
    return F.col("body").cast("string")


def _parsed(rows: "DataFrame", schema: str) -> "DataFrame":
    options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": _CORRUPT}
    parsed = rows.withColumn(_PARSED, F.from_json(_text(), f"{schema}, {_CORRUPT} string", options))
    return parsed.withColumn(_FAULT, _fault(parsed.columns, bodies.schema_of(schema)))


def _fault(columns: Sequence[str], schema: "StructType") -> "Column":
    """Why a body is not a row of the schema, or null."""
    is_packed = F.col("sys_flag").bitwiseAND(F.lit(COMPRESSED)) != 0 if "sys_flag" in columns else F.lit(False)
    return (
        F.when(F.col("body").isNull() | (F.length("body") == 0), F.lit("the body is empty"))
        .when(is_packed, F.lit("the body is compressed and does not inflate; it stands here as it is stored"))
        .when(~F.is_valid_utf8(_text()), F.lit("the body is not UTF-8"))
        .when(F.col(_PARSED).isNull(), F.lit("the body is not a JSON object"))
        .when(F.col(f"{_PARSED}.{_CORRUPT}").isNotNull(), F.lit("the body is not JSON of the schema"))
        .otherwise(bodies.fault(schema, F.col(_PARSED), _text()))
    )


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


VIEWS: Final = {"retries": retries, "dead_letters": dead_letters}
"""Views that an archive offers beside its tables."""
