"""The rows of the benchmark: what is read, where it goes, and on which Spark."""

from typing import Final, Literal

from msgspec import Struct

BODIES: Final = (100, 1024)
QUEUES: Final = 8
MOST_WARM_ROWS: Final = 100_000
WARM_TOPIC: Final = "bench-warm"
SELECTED: Final = "keys string, body binary, topic string, queue_id int, queue_offset bigint, store_timestamp timestamp"
"""The columns that every source is asked for; Kafka's are key, value, topic, partition, offset, timestamp."""

TUNED: Final = {"kafka.fetch.max.wait.ms": "20"}
"""Takes about half a second off every task of Spark's Kafka connector; the default is 500."""

Source = Literal["store", "live", "restarted", "apache", "kafka", "parquet", "made", "floor"]
Sink = Literal["noop", "iceberg", "iceberg-python", "parquet", "topic", "bare", "kafka", "latency"]

PLAIN: Final = "4.2.1"
LAKE: Final = "4.1.4"
QUICK: Final = "4.2.1, Unix sockets"
LAST: Final = "4.2.1, after a restart of our broker"
SESSIONS: Final = (PLAIN, LAKE, QUICK, LAST)
"""The Spark sessions by version and what is special about them, in their order: after the last nothing is as it was."""
OURS: Final = ("store", "live", "restarted")


class Row(Struct, frozen=True):
    """One row."""

    name: str
    part: str
    """The part of the report it belongs to, a to e."""
    says: str
    source: Source
    sink: Sink = "noop"
    body: int = 100
    session: str = PLAIN
    whole: bool = False
    """All columns instead of `SELECTED`."""
    stream: bool = False
    tuned: bool = False
    """With `TUNED`."""
    topic: str = ""
    share: int = 1
    """The number of rows is the run's size, divided by this and by what a body is larger than 100 bytes."""

    @property
    def topic_name(self) -> str:
        """The topic of the rows."""
        return self.topic or f"bench-{self.body}"

    @property
    def needs_ours(self) -> bool:
        """Whether our store or broker has a part in it."""
        return self.source in OURS or self.sink == "topic"

    def count(self, size: int) -> int:
        """Return the number of rows in a run of a size."""
        return rows_of(size, self.body) // self.share


def rows_of(size: int, body: int) -> int:
    """Rows of a topic: a quarter as many where bodies are large."""
    return size if body == BODIES[0] else size // 4


def warm_rows(size: int) -> int:
    """Rows of the topic that only warms up."""
    return min(MOST_WARM_ROWS, size)


def _reading(body: int) -> list[Row]:
    def row(
        name: str, says: str, source: Source, *, stream: bool = False, tuned: bool = False, share: int = 1
    ) -> list[Row]:
        says += ", waiting 20 ms" if tuned else ""
        label = f"{name}{'-tuned' if tuned else ''}{'-stream' if stream else ''}-{body}"
        words = f"{says}{', as a stream' if stream else ''} -> noop"
        found = [Row(label, "a", words, source, body=body, stream=stream, tuned=tuned, share=share)]
        if not stream and not tuned:
            says_whole = f"{says} -> noop, all columns"
            found.append(Row(f"{name}-all-{body}", "a", says_whole, source, body=body, whole=True, share=share))
        return found

    return [
        *row("kafka", "Kafka, Spark's connector", "kafka"),
        *row("kafka", "Kafka, Spark's connector", "kafka", stream=True),
        *row("kafka", "Kafka, Spark's connector", "kafka", tuned=True),
        *row("kafka", "Kafka, Spark's connector", "kafka", stream=True, tuned=True),
        *row("store", "store files", "store"),
        *row("live", "topic, our broker", "live"),
        *row("live", "topic, our broker", "live", stream=True),
        *row("apache", "topic, Apache's broker 5.5.0", "apache", share=4),
        *row("parquet", "Spark's own Parquet (ceiling)", "parquet"),
    ]


def _restarted(body: int) -> Row:
    says = "topic, our broker after a restart -> noop"
    return Row(f"restarted-{body}", "a", says, "restarted", body=body, session=LAST)


def _archiving(body: int) -> list[Row]:
    def row(name: str, says: str, source: Source, sink: Sink, *, stream: bool, whole: bool = False) -> Row:
        return Row(f"{name}-{body}", "b", says, source, sink, body, LAKE, whole, stream)

    python = "topic, our broker -> Iceberg committed from Python"
    selected = [
        row("kafka-iceberg", "Kafka, Spark's connector -> Iceberg toTable", "kafka", "iceberg", stream=True),
        Row(
            f"kafka-tuned-iceberg-{body}",
            "b",
            "Kafka, Spark's connector, waiting 20 ms -> Iceberg toTable",
            "kafka",
            "iceberg",
            body,
            LAKE,
            stream=True,
            tuned=True,
        ),
        row("live-iceberg", "topic, our broker -> Iceberg toTable", "live", "iceberg", stream=True),
        row("live-iceberg-python", python, "live", "iceberg-python", stream=True),
        row("store-iceberg", "store files -> Iceberg", "store", "iceberg", stream=False),
        row("store-iceberg-python", "store files -> Iceberg from Python", "store", "iceberg-python", stream=False),
        row("parquet-parquet", "Spark's own Parquet -> Parquet", "parquet", "parquet", stream=False),
    ]
    if body != BODIES[0]:
        return selected
    return [
        *selected,
        row("live-iceberg-all", "topic -> Iceberg, all columns", "live", "iceberg", stream=True, whole=True),
        row("live-iceberg-python-all", f"{python}, all columns", "live", "iceberg-python", stream=True, whole=True),
        row("parquet-parquet-all", "Parquet -> Parquet, all columns", "parquet", "parquet", stream=False, whole=True),
    ]


def _sinking(body: int) -> list[Row]:
    kinds: tuple[tuple[Sink, str], ...] = (
        ("bare", "a bare Arrow writer that counts"),
        ("topic", "topic, our broker"),
        ("kafka", "Kafka, Spark's connector"),
    )
    return [Row(f"sink-{sink}-{body}", "c", f"rows -> {says}", "made", sink, body, share=8) for sink, says in kinds]


def _queues(count: int) -> Row:
    says = f"{count} queue{'s' if count > 1 else ''} in one micro-batch -> noop"
    return Row(f"queues-{count}", "d", says, "live", stream=True, topic=f"bench-queues-{count}", share=4)


_LISTED: Final = [
    *(row for body in BODIES for row in _reading(body)),
    *(row for body in BODIES for row in _sinking(body)),
    _queues(1),
    _queues(64),
    Row("latency-floor", "e", "a Python source of the clock alone", "floor", "latency", session=QUICK),
    Row("latency-live", "e", "topic, our broker", "live", "latency", session=QUICK, topic="bench-latency"),
    *(row for body in BODIES for row in _archiving(body)),
    *(_restarted(body) for body in BODIES),
]
ROWS: Final = {row.name: row for row in _LISTED}
"""By name, in the order of measuring."""
