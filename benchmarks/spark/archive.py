"""Archiving beside what Spark itself does with the same rows: rows a second, medians.

    python -m benchmarks.spark.archive --messages 1000000 --body 100 [--runs 3] [--store DIRECTORY]

Rows: store files -> Iceberg (committed from Python); the same rows as Parquet -> Parquet by Spark alone, which is the
ceiling of a sink; store files -> noop, which is the source alone. Memory is the largest resident size of the driver's
JVM and of all Python workers, sampled. With ``--store`` an existing store is read: this is also the command for large
sets (10^8 rows), whose memory must not grow with the number of rows.
"""

import argparse
import contextlib
import json
import shutil
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from firearrow.spark.lake import access
from firearrow.spark.lake.table import LakeTable
from firearrow.spark.session import open_session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SAMPLE_S = 0.5


class Memory:
    """Samples the resident memory of this process and everything below it."""

    def __init__(self) -> None:
        self.samples: list[float] = []
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stop.wait(SAMPLE_S):
            self.samples.append(resident_mib())

    def quarter(self, number: int) -> float:
        """The largest of a quarter of the samples, by time."""
        size = max(1, len(self.samples) // 4)
        part = self.samples[number * size : (number + 1) * size] or self.samples[-1:]
        return max(part, default=0.0)


def resident_mib() -> float:
    """Resident memory of the Python and Java processes of this session, in MiB."""
    import os

    mine, total = os.getsid(0), 0
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError, ValueError, IndexError):
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
                if int(fields[3]) == mine:
                    total += int((entry / "statm").read_text().split()[1]) * 4096
    return total / 2**20


def timed(work: Callable[[], None]) -> float:
    """Seconds by the clock."""
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def rates(spark: "SparkSession", rows: "DataFrame", count: int, place: Path, runs: int) -> dict[str, list[float]]:
    """Thousands of rows a second of each way, run after run in turn."""
    source = place / "rows"
    rows.write.mode("overwrite").parquet(str(source))
    copy = spark.read.parquet(str(source))
    ways: dict[str, Callable[[int], None]] = {
        "store files -> noop": lambda _: rows.write.format("noop").mode("overwrite").save(),
        "store files -> Iceberg": lambda run: access.append(rows, LakeTable("iceberg", str(place / f"w{run}"), "a.b")),
        "parquet -> parquet": lambda run: copy.write.parquet(str(place / f"p{run}")),
    }
    found: dict[str, list[float]] = {name: [] for name in ways}
    for run in range(runs + 1):
        for name, way in ways.items():
            took = timed(lambda: way(run))  # noqa: B023 - called at once
            if run:  # the first warms up
                found[name].append(count / took / 1000)
        for left in (f"w{run}", f"p{run}"):
            shutil.rmtree(place / left)
    return found


def large(rows: "DataFrame", place: Path) -> dict[str, Any]:
    """All rows into one table, memory sampled."""
    with Memory() as memory:
        took = timed(lambda: access.append(rows, LakeTable("iceberg", str(place / "w"), "a.b"), "large"))
    return {"seconds": round(took, 1), "rss_mib_by_quarter": [round(memory.quarter(number)) for number in range(4)]}


def fill(directory: Path, messages: int, body: int) -> None:
    """A store with so many messages, made by a broker."""
    import random

    from firearrow.blocking import Message, Producer
    from tests.spark.serving import served

    chance = random.Random(1)
    with served(directory) as broker, Producer(broker.name_server, group="bench", send_timeout_ms=60_000) as producer:
        for start in range(0, messages, 1000):
            numbers = range(start, min(messages, start + 1000))
            producer.send_batch(
                [Message.of("bench", chance.randbytes(body), tag="t", keys=[f"k{number}"]) for number in numbers]
            )


def main() -> int:
    """Measure."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.spark.archive", description=__doc__)
    parser.add_argument("--messages", type=int, default=1_000_000)
    parser.add_argument("--body", type=int, default=100)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--store", type=Path, help="an existing store: one large job instead of a comparison")
    parser.add_argument("--ledger", type=Path)
    given = parser.parse_args()
    spark = open_session(
        "local[2]", {"spark.ui.enabled": "false", "spark.driver.memory": "2g", "spark.log.level": "ERROR"}
    )
    report: dict[str, Any] = {"campaign": "bench-spark archive", "body": given.body}
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        store = given.store
        if store is None:
            fill(place / "broker", given.messages, given.body)
            store = place / "broker" / "store"
        rows = spark.read.format("rocketmq-store").load(str(store))
        if given.store is not None:
            report |= large(rows, place)
            count = access.read(spark, LakeTable("iceberg", str(place / "w"), "a.b")).count()
            report |= {"rows": count, "k_rows_s": round(count / report["seconds"] / 1000, 1)}
        else:
            found = rates(spark, rows, given.messages, place, given.runs)
            report |= {"rows": given.messages} | {
                way: {"median": round(statistics.median(all_)), "range": [round(min(all_)), round(max(all_))]}
                for way, all_ in found.items()
            }
    spark.stop()
    print(json.dumps(report))
    if given.ledger is not None:
        with given.ledger.open("a") as ledger:
            ledger.write(json.dumps(report) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
