"""History -> a topic: chosen by a predicate, in the order of its queues, at a limited rate, marked.

Rows of one queue of the history go to one queue of the target and keep their order; they are in one partition, and the
sink has one request for a queue in flight at a time. Every message says in its properties which replay sent it and
which row it repeats, and its identity is that of the row within the replay: a replay that is repeated after a failure
sends the same identities, another replay of the same rows sends other ones.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from msgspec import Struct
from pyspark.sql import functions as F  # noqa: N812 - the name everyone uses

from firearrow.errors import SettingsError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

REPLAY_PROPERTY: Final = "FIREARROW_REPLAY"
REPLAY_OF_PROPERTY: Final = "FIREARROW_REPLAY_OF"
NEEDED: Final = ("topic", "broker", "queue_id", "queue_offset", "body", "row_id")
_QUEUE: Final = ("topic", "broker", "queue_id")


class Replay(Struct, frozen=True):
    """An order to replay messages into a topic.

    ``sink`` holds options of ``format("rocketmq")``. Without ``topic`` messages go back to the topic they came from,
    which must be asked for (``same_topic``). ``rate`` is messages a second over all ``tasks``; with one task
    messages also go out in the order of their offsets across queues.
    """

    job: str
    sink: Mapping[str, str]
    topic: str = ""
    predicate: str = ""
    same_topic: bool = False
    rate: float = 0.0
    tasks: int = 1

    def checked(self) -> "Replay":
        """This replay, or ``SettingsError`` when it does not say enough."""
        if not self.job:
            raise SettingsError("a replay needs a name, which its messages carry")
        if bool(self.topic) == self.same_topic:
            raise SettingsError("say where to: a topic, or that messages go back to the topic they came from")
        if self.tasks < 1 or self.rate < 0:
            raise SettingsError("a replay has at least one task, and a rate of 0 (no limit) or more")
        return self


def chosen(rows: "DataFrame", predicate: str) -> "DataFrame":
    """The rows that a condition in SQL chooses; all without one."""
    missing = [name for name in NEEDED if name not in rows.columns]
    if missing:
        raise SettingsError(f"the history lacks the columns {', '.join(missing)}, so it cannot be replayed")
    return rows.where(predicate) if predicate else rows


def marked(rows: "DataFrame", job: str) -> "DataFrame":
    """The rows with properties that say which replay they belong to, and an identity within it."""
    mark = F.create_map(F.lit(REPLAY_PROPERTY), F.lit(job), F.lit(REPLAY_OF_PROPERTY), F.col("row_id"))
    if "properties" in rows.columns:
        # A row that was replayed before says so already; a map has each key once.
        kept = F.map_filter("properties", lambda name, _: ~name.isin(REPLAY_PROPERTY, REPLAY_OF_PROPERTY))
        mark = F.when(F.col("properties").isNull(), mark).otherwise(F.map_concat(kept, mark))
    return rows.withColumn("properties", mark).withColumn("replay_row_id", F.concat_ws("/", F.lit(job), "row_id"))


def ordered(rows: "DataFrame", tasks: int) -> "DataFrame":
    """The rows of each queue in one partition and in order, bound for the queue of the same number."""
    together = rows.repartition(tasks, *_QUEUE)
    return together.sortWithinPartitions("queue_offset", *_QUEUE).withColumn("target_queue", F.col("queue_id"))


def planned(rows: "DataFrame", replay: Replay) -> "DataFrame":
    """Return the rows to send."""
    replay.checked()
    return ordered(marked(chosen(rows, replay.predicate), replay.job), replay.tasks)


def summary(rows: "DataFrame", replay: Replay) -> "DataFrame":
    """Return sums of the rows to send, queue by queue: a dry run."""
    replay.checked()
    return (
        chosen(rows, replay.predicate)
        .groupBy(*_QUEUE)
        .agg(
            F.count("*").alias("messages"),
            F.sum(F.length("body")).alias("bytes"),
            F.min("queue_offset").alias("first_offset"),
            F.max("queue_offset").alias("last_offset"),
        )
        .withColumn("target", F.col("topic") if replay.same_topic else F.lit(replay.topic))
        .orderBy(*_QUEUE)
    )


def replay(rows: "DataFrame", how: Replay) -> None:
    """Send the chosen rows; return when brokers have acknowledged all of them."""
    frame = planned(rows, how)
    options = {**how.sink, "identityColumns": "replay_row_id", "jobId": how.job}
    if how.topic:
        options["topic"] = how.topic
    if how.rate:
        options["rateLimit"] = str(how.rate / how.tasks)
    frame.write.format("rocketmq").options(**options).mode("append").save()
