"""Views of what brokers keep beside plain messages: delayed messages, transactions, retries, dead letters, newest rows.

Each takes rows of the sources (`format("rocketmq")` or `format("rocketmq-store")`) and returns a DataFrame; `register`
names all of them for SQL. What a view can tell, the rows must hold: the files of a store hold every topic, a read of
live topics has those that were subscribed. Retention deletes system topics as others, so old entries are absent.

* ``delayed``: a row for each delayed delivery, with ``target_topic``, ``target_queue``, ``due`` and ``is_delivered``
* ``transactions``: a row for each transaction, with ``target_topic``, ``checks`` and ``state``: PENDING, COMMITTED or
  ROLLED_BACK
* ``retries``, ``dead_letters``: see `transforms`
* ``current``: the newest message of each topic and key
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from pyspark.sql import Window
from pyspark.sql import functions as F  # noqa: N812 - the name everyone uses

from firearrow.model import keys
from firearrow.model.delays import DEFAULT_DELAY_LEVELS, parse_delay_levels
from firearrow.model.names import HALF_TOPIC, OP_HALF_TOPIC, SCHEDULE_TOPIC, TIMER_TOPIC
from firearrow.record.op_message import OP_TAG
from firearrow.spark.pipelines.transforms import dead_letters, retries

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

PENDING: Final = "PENDING"
COMMITTED: Final = "COMMITTED"
ROLLED_BACK: Final = "ROLLED_BACK"
MAX_DIGITS: Final = 18


def delayed(rows: "DataFrame", levels: str = DEFAULT_DELAY_LEVELS) -> "DataFrame":
    """Delayed and timed messages: where they go, when they are due, and whether they were delivered.

    ``levels`` is the broker's setting ``messageDelayLevel``. A message counts as delivered if its topic holds one with
    its unique key and as many attempts, stored later; without a unique key it cannot be told, and ``is_delivered`` is
    null.
    """
    waiting = rows.where(F.col("topic").isin(SCHEDULE_TOPIC, TIMER_TOPIC)).select(
        "*",
        F.col("properties")[keys.REAL_TOPIC].alias("target_topic"),
        F.col("properties")[keys.REAL_QID].cast("int").alias("target_queue"),
        _due(levels).alias("due"),
    )
    there = (
        rows.where(~F.col("topic").isin(SCHEDULE_TOPIC, TIMER_TOPIC) & F.col("unique_key").isNotNull())
        .groupBy("broker", "topic", "unique_key", "reconsume_times")
        .agg(F.max("store_timestamp").alias("_delivered"))
        .withColumnsRenamed({"broker": "_b", "topic": "_t", "unique_key": "_u", "reconsume_times": "_r"})
    )
    is_same = (
        (F.col("broker") == F.col("_b"))
        & (F.col("target_topic") == F.col("_t"))
        & (F.col("unique_key") == F.col("_u"))
        & (F.col("reconsume_times") == F.col("_r"))
    )
    is_delivered = F.coalesce(F.col("_delivered") >= F.col("store_timestamp"), F.lit(False))
    return (
        waiting.join(there, is_same, "left")
        .withColumn("is_delivered", F.when(F.col("unique_key").isNotNull(), is_delivered))
        .drop("_b", "_t", "_u", "_r", "_delivered")
    )


def _due(levels: str) -> "Column":
    delays = F.array(*(F.lit(delay) for delay in parse_delay_levels(levels)))
    level = F.least(F.col("queue_id") + 1, F.lit(len(parse_delay_levels(levels))))
    by_level = F.unix_millis("store_timestamp") + F.element_at(delays, level)
    by_timer = F.col("properties")[keys.TIMER_OUT_MS].cast("bigint")
    return F.timestamp_millis(F.when(F.col("topic") == TIMER_TOPIC, by_timer).otherwise(by_level))


def transactions(rows: "DataFrame") -> "DataFrame":
    """Transactions by their last half message: which topic, how often a producer was asked, and what became of them.

    COMMITTED: the topic holds the message. ROLLED_BACK: the broker ended it, and the topic does not hold it. A message
    that retention has deleted from its topic, while its half is still there, shows as rolled back.
    """
    properties = F.col("properties")
    halves = rows.where(F.col("topic") == HALF_TOPIC)
    newest = Window.partitionBy("broker", F.coalesce("unique_key", "row_id")).orderBy(F.col("queue_offset").desc())
    last = halves.withColumn("_n", F.row_number().over(newest)).where("_n = 1").drop("_n")
    ended = _ended(rows)
    finals = (
        rows.where(~F.col("topic").isin(HALF_TOPIC, OP_HALF_TOPIC))
        .select(F.col("broker").alias("_fb"), F.col("topic").alias("_ft"), F.col("unique_key").alias("_fu"))
        .distinct()
    )
    return (
        last.withColumn("target_topic", properties[keys.REAL_TOPIC])
        .withColumn("checks", F.coalesce(properties[keys.TRANSACTION_CHECK_TIMES].cast("int"), F.lit(0)))
        .join(ended, (F.col("broker") == F.col("_eb")) & (F.col("queue_offset") == F.col("_eo")), "left")
        .join(
            finals,
            (F.col("broker") == F.col("_fb"))
            & (F.col("target_topic") == F.col("_ft"))
            & (F.col("unique_key") == F.col("_fu")),
            "left",
        )
        .withColumn(
            "state",
            F.when(F.col("_fu").isNotNull(), COMMITTED).when(F.col("_eo").isNotNull(), ROLLED_BACK).otherwise(PENDING),
        )
        .drop("_eb", "_eo", "_fb", "_ft", "_fu")
    )


def _ended(rows: "DataFrame") -> "DataFrame":
    """The half messages that op messages name, by broker and queue offset."""
    said = F.explode(F.split(F.col("body").cast("string"), ","))
    return (
        rows.where((F.col("topic") == OP_HALF_TOPIC) & (F.col("tags") == OP_TAG))
        .select(F.col("broker").alias("_eb"), said.alias("_text"))
        .where(F.col("_text").rlike(f"^[0-9]{{1,{MAX_DIGITS}}}$"))
        .select("_eb", F.col("_text").cast("bigint").alias("_eo"))
        .distinct()
    )


def current(rows: "DataFrame") -> "DataFrame":
    """The newest message of each topic and key, by store time and place; messages without keys are left out."""
    order = [F.col(name).desc() for name in ("store_timestamp", "physical_offset", "broker")]
    newest = Window.partitionBy("topic", "keys").orderBy(*order)
    return (
        rows.where(F.col("keys").isNotNull()).withColumn("_n", F.row_number().over(newest)).where("_n = 1").drop("_n")
    )


VIEWS: Final[dict[str, Callable[["DataFrame"], "DataFrame"]]] = {
    "delayed": delayed,
    "transactions": transactions,
    "retries": retries,
    "dead_letters": dead_letters,
    "current": current,
}


def register(rows: "DataFrame", prefix: str = "") -> list[str]:
    """Make every view of these rows a temporary view of their session; return the names."""
    for name, view in VIEWS.items():
        view(rows).createOrReplaceTempView(prefix + name)
    return [prefix + name for name in VIEWS]
