"""Figures of a topic: messages and their sizes by tag, queue and hour, and the spread of messages over keys.

Each function takes a DataFrame of rows of the sources or of a table of whole messages and returns another; none reads
or writes. Spark aggregates: what reaches the driver is a row for each group that is shown. Columns of `groups`::

    kind         topic, tag, queue or hour
    topic, tag, broker, queue_id, hour      the group; null where the kind has no such column, or without a tag
    messages, bytes, stored_bytes           bytes of bodies, inflated; bytes of records in the log
    p50, p99, largest                       of the bytes of a body
    first, last                             store time

Times are milliseconds since 1970, hours begin in UTC. ``p50`` and ``p99`` are sizes that occur, off by at most one
place in ten thousand (Spark's ``percentile_approx``).
"""

from collections.abc import Collection
from typing import TYPE_CHECKING, Final

from pyspark.sql import Window
from pyspark.sql import functions as F  # noqa: N812 - the name everyone uses

from firearrow.errors import SettingsError

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

TOPIC: Final = "topic"
TAG: Final = "tag"
QUEUE: Final = "queue"
HOUR: Final = "hour"
KEY: Final = "key"
PARTS: Final = (TAG, QUEUE, HOUR, KEY)
"""By what the figures of a topic can be divided."""

NEEDED: Final = ("topic", "broker", "queue_id", "keys", "tags", "body", "store_timestamp", "store_size")
"""The columns that are read."""

HOUR_MS: Final = 3_600_000
ACCURACY: Final = 10_000
_GROUPS: Final = {TOPIC: (), TAG: ("tag",), QUEUE: ("broker", "queue_id"), HOUR: ("hour",)}
_COLUMNS: Final = ("topic", "tag", "broker", "queue_id", "hour")


def slim(rows: "DataFrame") -> "DataFrame":
    """The rows with the size of their bodies in the place of the bodies."""
    missing = [name for name in NEEDED if name not in rows.columns]
    if missing:
        raise SettingsError(
            f"the rows lack the columns {', '.join(missing)}; statistics are of whole messages: of a topic, a store, "
            "or the bronze table of an archive"
        )
    stored = F.unix_millis("store_timestamp")
    return rows.select(
        "topic",
        "broker",
        "queue_id",
        "keys",
        F.col("tags").alias("tag"),
        F.coalesce(F.octet_length("body"), F.lit(0)).cast("bigint").alias("size"),
        F.col("store_size").cast("bigint").alias("stored_size"),
        stored.alias("stored_ms"),
        (F.floor(stored / HOUR_MS) * HOUR_MS).cast("bigint").alias("hour"),
    )


def groups(slim_rows: "DataFrame", parts: Collection[str] = PARTS, top: int = 10) -> "DataFrame":
    """A row for each topic, and for each tag, queue and hour of it as asked; of tags the ``top`` with most messages."""
    kinds = [kind for kind in _GROUPS if kind == TOPIC or kind in parts]
    sets = [["topic", *_GROUPS[kind]] for kind in kinds]
    sizes = F.percentile_approx("size", F.array(F.lit(0.5), F.lit(0.99)), ACCURACY)
    found = (
        slim_rows.groupingSets(sets, *_COLUMNS)
        .agg(
            _kind(kinds).alias("kind"),
            F.count(F.lit(1)).alias("messages"),
            F.sum("size").alias("bytes"),
            F.sum("stored_size").alias("stored_bytes"),
            sizes.alias("sizes"),
            F.max("size").alias("largest"),
            F.min("stored_ms").alias("first"),
            F.max("stored_ms").alias("last"),
        )
        .withColumns({"p50": F.col("sizes")[0], "p99": F.col("sizes")[1]})
        .drop("sizes")
    )
    largest = Window.partitionBy("topic", "kind").orderBy(F.col("messages").desc(), F.col("tag").asc_nulls_first())
    place = F.row_number().over(largest)
    kept = found.withColumn("_place", place).where((F.col("kind") != TAG) | (F.col("_place") <= top)).drop("_place")
    by_tag = F.when(F.col("kind") == TAG, -F.col("messages")).otherwise(0)
    return kept.orderBy("topic", "kind", by_tag, "tag", "broker", "queue_id", "hour")


def _kind(kinds: Collection[str]) -> "Column":
    """Return a column that names the grouping set of each row."""
    found = F.lit(TOPIC)
    for kind in kinds:
        if kind != TOPIC:
            found = F.when(F.grouping(_GROUPS[kind][0]) == 0, kind).otherwise(found)
    return found


def key_spread(slim_rows: "DataFrame", top: int = 10) -> "DataFrame":
    """Return the spread of messages over keys: for each topic with keys the ``top`` keys with most messages.

    A message with several keys counts for each of them. Columns: topic, place (1 has the most), key, messages; and of
    the whole topic: keys (different ones) and keyed (messages over all keys).
    """
    keys = slim_rows.where(F.col("keys").isNotNull()).select("topic", F.explode(F.split("keys", " ")).alias("key"))
    counted = keys.where(F.length("key") > 0).groupBy("topic", "key").agg(F.count(F.lit(1)).alias("messages"))
    whole = counted.groupBy("topic").agg(F.count(F.lit(1)).alias("keys"), F.sum("messages").alias("keyed"))
    most = Window.partitionBy("topic").orderBy(F.col("messages").desc(), "key")
    placed = counted.withColumn("place", F.row_number().over(most)).where(F.col("place") <= top)
    return placed.join(F.broadcast(whole), "topic").orderBy("topic", "place")
