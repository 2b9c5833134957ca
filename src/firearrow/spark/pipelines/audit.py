"""Producer receipts x what is stored x consumer offsets -> what was lost, duplicated, late, reordered, not read yet.

Every function takes DataFrames and returns one; none reads or writes. Columns::

    receipts   topic, unique_key, sent_timestamp; order_key and sequence where messages have an order to keep
    stored     rows of the source or of an archive
    offsets    topic, broker, queue_id, consumer_group, next_offset (the first that the group has not consumed)

A *lost* message has a receipt and is not stored. A *duplicate* is every stored copy of a unique key of a topic after
its first. A *late* one was stored longer than a limit after it was born. A *reordered* one stands in its queue behind
one of the same order key with a higher sequence number. An *unread* one is stored at or behind the offset of a group.
First is what has the lowest store time, then the lowest place in the log.
"""

from functools import reduce
from typing import TYPE_CHECKING, Final

from msgspec import Struct
from pyspark.sql import Window
from pyspark.sql import functions as F  # noqa: N812 - the name everyone uses

from firearrow.errors import SettingsError

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.window import WindowSpec

KINDS: Final = ("lost", "duplicated", "late", "reordered", "unread")

RECEIPT_DDL: Final = "topic string, unique_key string, sent_timestamp timestamp, order_key string, sequence long"
OFFSET_DDL: Final = "topic string, broker string, queue_id int, consumer_group string, next_offset long"
_FINDING: Final = ("kind", "topic", "hour", "unique_key", "broker", "queue_id", "queue_offset", "detail")
_STORED: Final = ("topic", "unique_key", "broker", "queue_id", "queue_offset", "physical_offset", "born_timestamp",
                  "store_timestamp")  # fmt: skip


class LatenessLimit(Struct, frozen=True):
    """The limit above which a message counts as late."""

    late_ms: int = 60_000


def findings(
    receipts: "DataFrame", stored: "DataFrame", offsets: "DataFrame | None" = None, limits: LatenessLimit | None = None
) -> "DataFrame":
    """Every finding as a row: its kind, topic and hour, and the message."""
    limits = limits or LatenessLimit()
    kept = _kept(stored)
    parts = [lost(receipts, kept), duplicated(kept), late(kept, limits.late_ms), reordered(receipts, kept)]
    if offsets is not None:
        parts.append(unread(kept, offsets))
    return reduce(lambda one, other: one.unionByName(other), parts)


def _kept(stored: "DataFrame") -> "DataFrame":
    missing = [name for name in _STORED if name not in stored.columns]
    if missing:
        raise SettingsError(f"the stored rows lack the columns {', '.join(missing)}")
    return stored.select(*_STORED)


def lost(receipts: "DataFrame", stored: "DataFrame") -> "DataFrame":
    """Receipts of which nothing is stored."""
    gone = receipts.join(stored, ["topic", "unique_key"], "left_anti")
    return _finding(gone, "lost", "sent_timestamp", F.lit("acknowledged, not stored"))


def duplicated(stored: "DataFrame") -> "DataFrame":
    """Stored copies after the first."""
    copies = stored.where(F.col("unique_key").isNotNull()).withColumn("copy", F.row_number().over(_copies()))
    return _finding(copies.where("copy > 1"), "duplicated", "store_timestamp", F.concat(F.lit("copy "), F.col("copy")))


def late(stored: "DataFrame", late_ms: int) -> "DataFrame":
    """Return the messages that took longer than the limit from birth to store."""
    waited = F.unix_millis("store_timestamp") - F.unix_millis("born_timestamp")
    slow = stored.withColumn("waited", waited).where(F.col("waited") > late_ms)
    return _finding(slow, "late", "store_timestamp", F.concat(F.col("waited"), F.lit(" ms")))


def reordered(receipts: "DataFrame", stored: "DataFrame") -> "DataFrame":
    """Return the messages behind a later message of the same order. Copies after the first do not count again."""
    orders = receipts.where("order_key is not null and sequence is not null")
    orders = orders.select("topic", "unique_key", "order_key", "sequence")
    first = stored.withColumn("copy", F.row_number().over(_copies())).where("copy = 1")
    queue = Window.partitionBy("topic", "order_key", "broker", "queue_id").orderBy("queue_offset")
    before = queue.rowsBetween(Window.unboundedPreceding, -1)
    seen = first.join(orders, ["topic", "unique_key"]).withColumn("highest", F.max("sequence").over(before))
    detail = F.concat(F.lit("sequence "), F.col("sequence"), F.lit(" behind "), F.col("highest"))
    return _finding(seen.where("sequence < highest"), "reordered", "store_timestamp", detail)


def unread(stored: "DataFrame", offsets: "DataFrame") -> "DataFrame":
    """Return the messages that a group has not consumed, of queues for which it has an offset."""
    waiting = stored.join(F.broadcast(offsets), ["topic", "broker", "queue_id"]).where("queue_offset >= next_offset")
    return _finding(waiting, "unread", "store_timestamp", F.concat(F.lit("by "), F.col("consumer_group")))


def _copies() -> "WindowSpec":
    return Window.partitionBy("topic", "unique_key").orderBy("store_timestamp", "physical_offset")


def _finding(rows: "DataFrame", kind: str, time: str, detail: "Column") -> "DataFrame":
    place = [
        F.col(name) if name in rows.columns else F.lit(None).cast(kind_of).alias(name)
        for name, kind_of in (("broker", "string"), ("queue_id", "int"), ("queue_offset", "bigint"))
    ]
    hour = F.date_trunc("hour", F.col(time)).alias("hour")
    return rows.select(F.lit(kind).alias("kind"), "topic", hour, "unique_key", *place, detail.alias("detail")).select(
        *_FINDING
    )


def report(found: "DataFrame", receipts: "DataFrame", stored: "DataFrame") -> "DataFrame":
    """Topic by topic and hour by hour: what was sent, what is stored, and how many findings of each kind."""
    faults = found.groupBy("topic", "hour").pivot("kind", list(KINDS)).count()
    sent = receipts.groupBy("topic", F.date_trunc("hour", "sent_timestamp").alias("hour")).agg(
        F.count("*").alias("sent")
    )
    kept = stored.groupBy("topic", F.date_trunc("hour", "store_timestamp").alias("hour")).agg(
        F.count("*").alias("stored")
    )
    whole = sent.join(kept, ["topic", "hour"], "full").join(faults, ["topic", "hour"], "full")
    return whole.na.fill(0, ["sent", "stored", *KINDS]).orderBy("topic", "hour")
