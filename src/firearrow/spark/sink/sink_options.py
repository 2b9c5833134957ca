"""The options of the sink, read from Spark's. Pure."""

from collections.abc import Mapping
from typing import Final

from msgspec import Struct

from firearrow.errors import SettingsError
from firearrow.spark.option_list import CONNECTION, Option
from firearrow.spark.options import ConnectionOptions, OptionReader, connection_options
from firearrow.spark.sink.rows import KEEP, RowShape

SINK_GROUP: Final = "firearrow-spark-sink"

BATCH_BYTES: Final = 1 << 18
"""Default size of a request: several are in flight at once, and larger requests were not faster."""

SINK: Final = (
    Option("topic", "column topic", "Topic of every row; without it rows need a column `topic`.", "topic"),
    Option("identityColumns", "row_id, else made", "Columns that identify a row, separated by commas."),
    Option(
        "repeats",
        "drop",
        "`drop`: our brokers store a row that is sent again only once. `keep`: they store it again. "
        "Apache's brokers always store it again.",
    ),
    Option("producerGroup", SINK_GROUP, "Producer group.", "kafka.client.id"),
    Option("sendTimeoutMs", "10000", "Timeout of a request.", "kafka.request.timeout.ms"),
    Option("retryTimeoutMs", "120000", "How long a refused request is retried.", "kafka.delivery.timeout.ms"),
    Option("batchBytes", "262144", "Approximate bytes of messages in a request.", "kafka.batch.size"),
    Option("rateLimit", "none", "Most messages a second of each task."),
    Option("jobId", "random", "Batch: name of the write in identities; the same name gives the same identities."),
)
ENGINE: Final = tuple(Option(name, "-", "Spark's own.") for name in ("checkpointLocation", "queryName", "path"))
"""Options of the engine that reach a sink among its own."""


class SinkOptions(Struct, frozen=True):
    """The sink."""

    connection: ConnectionOptions
    shape: RowShape
    group: str = SINK_GROUP
    send_timeout_ms: int = 10_000
    retry_timeout_ms: int = 120_000
    batch_bytes: int = BATCH_BYTES
    rate_limit: float = 0.0
    job_id: str = ""


def sink_options(options: Mapping[str, str]) -> SinkOptions:
    """Return the options of the sink."""
    given = OptionReader(options, CONNECTION + SINK + ENGINE)
    columns = tuple(name for each in given.text("identityColumns").split(",") if (name := each.strip()))
    return SinkOptions(
        connection_options(given),
        RowShape(given.text("topic"), columns, _keeps(given.text("repeats", "drop"))),
        given.text("producerGroup", SINK_GROUP),
        given.number("sendTimeoutMs", 10_000),
        given.number("retryTimeoutMs", 120_000, 0),
        given.number("batchBytes", BATCH_BYTES),
        _rate(given.text("rateLimit")),
        given.text("jobId"),
    )


def _keeps(text: str) -> bool:
    if text not in ("drop", KEEP):
        raise SettingsError(f"option repeats is {text!r}; it takes 'drop' or 'keep'")
    return text == KEEP


def _rate(text: str) -> float:
    try:
        rate = float(text or 0)
    except ValueError as wrong:
        raise SettingsError(f"option rateLimit is {text!r}; it takes messages a second") from wrong
    if not 0 <= rate < float("inf"):
        raise SettingsError(f"option rateLimit is {text}; it takes 0 (no limit) or more")
    return rate
