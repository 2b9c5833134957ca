"""A driver that writes the rows of one topic to another one, by a streaming query.

    python -m tests.spark.sinker follow|finish DIRECTORY NAME_SERVER TOPIC MASTER NAME [key=value ...]

``follow`` goes on until it is killed and prints ``batch NAME NUMBER`` after every batch. ``finish`` writes what is left
and compares the two topics row by row; it prints one line of JSON. Rows are known by their place in the first topic,
which is their identity in the second.
"""

import json
import sys
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from firearrow.model import keys
from firearrow.spark.session import open_session
from tests.spark.conftest import SETTINGS
from tests.spark.serving import held

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

ROWS_PER_BATCH = {"follow": "500", "finish": "20000"}
COPIES = "copies"
CONTROL = "sink-control"
SLOW_ROWS_PER_S = 150
"""So few that most kills come when a part of a batch is sent."""


def start(
    spark: "SparkSession", name: str, what: str, directory: Path, name_server: str, topic: str, trigger: dict[str, Any]
) -> "StreamingQuery":
    """Write the topic to the other one."""
    source = spark.readStream.format("rocketmq").options(
        nameServer=name_server,
        subscribe=topic,
        startingOffsets="earliest",
        maxOffsetsPerTrigger=ROWS_PER_BATCH[what],
    )
    writer = source.load().writeStream.format("rocketmq").options(nameServer=name_server, topic=COPIES)
    if what == "follow":
        writer = writer.option("rateLimit", str(SLOW_ROWS_PER_S))
    writer = writer.option("repeats", "keep" if name == CONTROL else "drop")
    return writer.option("checkpointLocation", str(directory / "checkpoints" / COPIES)).trigger(**trigger).start()


def follow(query: "StreamingQuery", name: str) -> None:
    """Tell of every batch, for ever."""
    seen = -1
    while True:
        failure = query.exception()
        if failure is not None:
            raise failure
        progress = query.lastProgress
        if progress is not None and progress["numInputRows"] and seen != progress["batchId"]:
            seen = progress["batchId"]
            print("batch", name, seen, flush=True)
        time.sleep(0.05)


def differences(name_server: str, topic: str) -> dict[str, Any]:
    """The messages that the second topic lacks, has twice, or has otherwise than the first."""
    truth = {(queue, offset): message.body for (queue, offset), message in held(name_server, topic).items()}
    found: Counter[tuple[int, int]] = Counter()
    changed = 0
    for message in held(name_server, COPIES).values():
        place = place_of(message.properties[keys.ROW_ID])
        found[place] += 1
        changed += truth.get(place, message.body) != message.body
    return {
        "rows": sum(found.values()),
        "lost": len(truth.keys() - found.keys()),
        "duplicated": sum(found.values()) - len(found),
        "unknown": len(found.keys() - truth.keys()),
        "changed": changed,
    }


def place_of(identity: str) -> tuple[int, int]:
    """The queue and the offset in an identity such as ``dev/orders/3/17@...``."""
    _, _, queue, offset = identity.partition("@")[0].rsplit("/", 3)
    return int(queue), int(offset)


def main() -> None:
    """Follow the topic, or finish."""
    what, directory, name_server, topic, master, name = sys.argv[1:7]
    extra = dict(pair.split("=", 1) for pair in sys.argv[7:])
    spark = open_session(master, {**SETTINGS, "spark.executor.memory": "700m", **extra}, "sinker")
    place = Path(directory)
    if what == "follow":
        follow(start(spark, name, what, place, name_server, topic, {"processingTime": "0 seconds"}), name)
    for _ in range(2):  # what a failed batch left, and what came since
        start(spark, name, what, place, name_server, topic, {"availableNow": True}).awaitTermination()
    messages = len(held(name_server, topic))
    print(json.dumps({"messages": messages, name: differences(name_server, topic)}), flush=True)


if __name__ == "__main__":
    main()
