"""A large set of receipts and stored rows with faults planted, and whether an audit finds exactly those.

python -m tests.spark.auditset --messages 10000000 [--ledger [FILE]]

Prints what it does, then how fast it was and how much memory the processes took.
"""

import argparse
import json
import sys
import tempfile
import threading
import time
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from pyspark.sql import functions as F  # noqa: N812

from benchmarks.spark.processes import resident_mib
from campaigns.faults.ledger import DEFAULT_PATH, Ledger
from firearrow.spark.pipelines import audit
from firearrow.spark.session import open_session
from tests.spark.conftest import SETTINGS

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

KEYS = 64
QUEUES = 8
START_MS = 1_790_000_000_000
MS_A_MESSAGE = 2
LATE_BY_MS = 600_000
LOOK_EVERY_S = 1.0
SAY_EVERY = 15


def every(number: int, rest: int) -> "Column":
    """The numbers that have a fault of a kind."""
    return F.col("n") % number == rest


LOST = 100_003
TWICE = 70_001
LATE = 50_021
SWAPPED = 90_017


def receipts(spark: "SparkSession", messages: int) -> "DataFrame":
    """A receipt for every message; messages of a key go to one queue, numbered in order."""
    return spark.range(messages).withColumnRenamed("id", "n").select(
        F.lit("orders").alias("topic"),
        F.concat(F.lit("u"), "n").alias("unique_key"),
        F.timestamp_millis(F.lit(START_MS) + F.col("n") * MS_A_MESSAGE).alias("sent_timestamp"),
        F.concat(F.lit("k"), F.col("n") % KEYS).alias("order_key"),
        F.floor(F.col("n") / KEYS).alias("sequence"),
    )  # fmt: skip


def stored(spark: "SparkSession", messages: int) -> "DataFrame":
    """The messages that a broker would hold without the planted faults."""
    numbers = spark.range(messages).withColumnRenamed("id", "n").where(~every(LOST, 11))
    # A message that changes places with the next one of its key, which stands KEYS further on in the same queue.
    place = F.when(every(SWAPPED, 5) & (F.col("n") + KEYS < messages), F.col("n") + KEYS)
    place = place.when((F.col("n") >= KEYS) & ((F.col("n") - KEYS) % SWAPPED == 5), F.col("n") - KEYS).otherwise(
        F.col("n")
    )
    copies = numbers.where(every(TWICE, 3)).select("n", (F.col("n") + messages).alias("place"))
    rows = numbers.select("n", place.alias("place")).unionByName(copies)
    at = F.lit(START_MS) + F.col("place") * MS_A_MESSAGE
    return rows.select(
        F.lit("orders").alias("topic"),
        F.lit("broker-a").alias("broker"),
        (F.col("n") % QUEUES).cast("int").alias("queue_id"),
        F.floor(F.col("place") / QUEUES).alias("queue_offset"),
        (F.col("place") * 200).alias("physical_offset"),
        F.concat(F.lit("u"), "n").alias("unique_key"),
        F.timestamp_millis(at).alias("store_timestamp"),
        F.timestamp_millis(at - F.when(every(LATE, 7) & (F.col("place") < messages), LATE_BY_MS).otherwise(1)).alias(
            "born_timestamp"
        ),
    )


def expected(messages: int) -> dict[str, list[str]]:
    """The planted faults, by arithmetic alone."""
    lost = set(range(11, messages, LOST))

    def kept(numbers: Iterable[int]) -> list[int]:
        return [n for n in numbers if n not in lost]

    swapped = [n for n in range(5, messages - KEYS, SWAPPED) if n not in lost and n + KEYS not in lost]
    return {
        "lost": sorted(f"u{n}" for n in lost),
        "duplicated": sorted(f"u{n}" for n in kept(range(3, messages, TWICE))),
        "late": sorted(f"u{n}" for n in kept(range(7, messages, LATE))),
        "reordered": sorted(f"u{n}" for n in swapped),
    }


def say(text: str) -> None:
    """One line for whoever watches."""
    print(f"[{time.strftime('%H:%M:%S', time.gmtime())}] {text}", file=sys.stderr, flush=True)


def run(spark: "SparkSession", messages: int, directory: Path) -> dict[str, Any]:
    """Write the set, audit it, and compare."""
    began = time.monotonic()
    receipts(spark, messages).write.parquet(str(directory / "receipts"))
    say(f"{messages:,} receipts written, {time.monotonic() - began:.0f} s")
    stored(spark, messages).write.parquet(str(directory / "stored"))
    say(f"stored rows written, {time.monotonic() - began:.0f} s; auditing")
    wrote, began = time.monotonic() - began, time.monotonic()
    rows = audit.findings(
        spark.read.parquet(str(directory / "receipts")), spark.read.parquet(str(directory / "stored"))
    ).select("kind", "unique_key").collect()  # fmt: skip
    took = time.monotonic() - began
    wanted = expected(messages)
    found = {kind: sorted(row.unique_key for row in rows if row.kind == kind) for kind in wanted}
    return {
        "messages": messages,
        "writing_seconds": round(wrote, 1),
        "seconds": round(took, 1),
        "k_messages_s": round(messages / took / 1000, 1),
        "planted": {kind: len(names) for kind, names in wanted.items()},
        "found": {kind: len(names) for kind, names in found.items()},
        "exact": found == wanted,
    }


class Memory:
    """Looks at the memory of all processes again and again, and says it now and then."""

    def __init__(self) -> None:
        self.peak_mib = 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _look(self) -> None:
        looks = 0
        while not self._stop.wait(LOOK_EVERY_S):
            now = round(resident_mib())
            self.peak_mib, looks = max(self.peak_mib, now), looks + 1
            if looks % SAY_EVERY == 0:
                say(f"{now:,} MiB resident")


def main() -> int:
    """Audit a set of any size."""
    parser = argparse.ArgumentParser(prog="python -m tests.spark.auditset", description=__doc__)
    parser.add_argument("--messages", type=int, default=10_000_000)
    parser.add_argument("--ledger", nargs="?", const=DEFAULT_PATH, help="append the figures here")
    given = parser.parse_args()
    more = {"spark.driver.memory": "4g", "spark.sql.shuffle.partitions": "16"}
    with tempfile.TemporaryDirectory() as directory, Memory() as memory:
        spark = open_session("local[2]", {**SETTINGS, **more})
        verdict = run(spark, given.messages, Path(directory))
        spark.stop()
    verdict["peak_mib"] = memory.peak_mib
    print(json.dumps(Ledger("spark-audit", given.ledger).add(verdict)))
    return 0 if verdict["exact"] else 1


if __name__ == "__main__":
    sys.exit(main())
