"""What archives make of rows. Each takes a DataFrame of rows of the source and returns another; none reads or writes.

JSON bodies: a body that is no UTF-8, no JSON, or does not fit the schema goes to the quarantine with all its columns
and a reason, and into the typed table with none: a row is in exactly one of the two. Columns of the typed table that
say where a row came from begin with an underscore, so that fields of bodies may be called what they like.
"""

from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F  # noqa: N812 - the name everyone uses

from firearrow.model import keys
from firearrow.model.names import DLQ_PREFIX, RETRY_PREFIX

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

PROVENANCE: Final = (
    "row_id", "topic", "broker", "queue_id", "queue_offset", "keys", "tags", "born_timestamp", "store_timestamp",
)  # fmt: skip
"""Columns that a typed row keeps of its message."""

_PARSED: Final = "__parsed"
_CORRUPT: Final = "__corrupt"


def typed(rows: "DataFrame", schema: str) -> "DataFrame":
    """The rows whose bodies are JSON of this schema (Spark's DDL), one column a field."""
    parsed = _parsed(rows, schema).where(_fault().isNull())
    origin = [F.col(name).alias(f"_{name}") for name in PROVENANCE if name in rows.columns]
    fields = parsed.select(f"{_PARSED}.*").drop(_CORRUPT).columns
    return parsed.select(*origin, *(F.col(f"{_PARSED}.`{name}`").alias(name) for name in fields))


def quarantine(rows: "DataFrame", schema: str) -> "DataFrame":
    """The rows whose bodies are not JSON of this schema, whole, with a reason."""
    parsed = _parsed(rows, schema).withColumn("reason", _fault())
    return parsed.where(F.col("reason").isNotNull()).drop(_PARSED)


def _parsed(rows: "DataFrame", schema: str) -> "DataFrame":
    options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": _CORRUPT}
    text = F.col("body").cast("string")
    return rows.withColumn(_PARSED, F.from_json(text, f"{schema}, {_CORRUPT} string", options))


def _fault() -> "Column":
    """Why a body is not a row of the schema, or null."""
    text = F.col("body").cast("string")
    return (
        F.when(F.col("body").isNull() | (F.length("body") == 0), F.lit("the body is empty"))
        .when(~F.is_valid_utf8(text), F.lit("the body is not UTF-8"))
        .when(F.col(_PARSED).isNull(), F.lit("the body is not a JSON object"))
        .when(F.col(f"{_PARSED}.{_CORRUPT}").isNotNull(), F.lit("the body is not JSON of the schema"))
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
