"""Store files of any size -> one Iceberg table in one job and one commit, with progress, rate and memory.

    python -m benchmarks.spark.archive --make 100000000 --store DIRECTORY     make a store of so many rows first
    python -m benchmarks.spark.archive --store DIRECTORY [--table DIRECTORY]

Memory is the resident size of the driver, its JVM and all Python workers, sampled, the largest of each quarter of the
time: it must not grow with the number of rows. Rows are committed from Python and counted in the table afterwards.
"""

import argparse
import json
import os
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from benchmarks.spark.largestore import make_store
from benchmarks.spark.processes import resident_mib
from campaigns.faults.ledger import DEFAULT_PATH, Ledger
from firearrow.spark.lake import access
from firearrow.spark.lake.table import LakeTable
from firearrow.spark.session import open_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SAMPLE_S = 1.0
TELL_EVERY = 10
SETTINGS = {"spark.ui.enabled": "false", "spark.driver.memory": "2g", "spark.log.level": "ERROR"}


class Watch:
    """Samples memory while a job runs, and tells how far it is."""

    def __init__(self, spark: "SparkSession") -> None:
        self.samples: list[float] = []
        self._tracker = spark.sparkContext.statusTracker()
        self._began = time.monotonic()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        """Begin."""
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """End."""
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stop.wait(SAMPLE_S):
            self.samples.append(resident_mib())
            if len(self.samples) % TELL_EVERY == 0:
                self._tell()

    def _tell(self) -> None:
        stages = [self._tracker.getStageInfo(number) for number in self._tracker.getActiveStageIds()]
        done = "; ".join(f"{stage.numCompletedTasks} of {stage.numTasks} tasks" for stage in stages if stage)
        took = time.monotonic() - self._began
        print(f"  {took:5.0f} s: {done}, {self.samples[-1]:,.0f} MiB", file=sys.stderr, flush=True)

    def quarters(self) -> list[int]:
        """The largest sample of each quarter of the time."""
        size = max(1, len(self.samples) // 4)
        parts = [self.samples[number * size : (number + 1) * size] for number in range(4)]
        return [round(max(part, default=0.0)) for part in parts]


def archived(spark: "SparkSession", store: Path, table: LakeTable) -> dict[str, Any]:
    """Write everything that a store holds, and count it."""
    # Two tasks a file of the log: more than are needed to be fast, so that progress can be seen.
    parts = str(2 * len(list((store / "commitlog").iterdir())))
    reader = spark.read.format("rocketmq-store").options(minPartitions=parts, maxPartitions=parts)
    rows = reader.load(str(store))
    began = time.monotonic()
    with Watch(spark) as watch:
        access.append(rows, table, "large")
    took = time.monotonic() - began
    count = access.read(spark, table).count()
    rate = round(count / took / 1000, 1)
    return {"rows": count, "seconds": round(took, 1), "k_rows_s": rate, "rss_mib_by_quarter": watch.quarters()}


def main() -> int:
    """Make a store if asked to, and archive it."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.spark.archive", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--store", type=Path, required=True, help="a store; with --make, where to make it")
    parser.add_argument(
        "--make", type=int, default=0, help="make a store of so many messages first, unless it is there"
    )
    parser.add_argument("--body", type=int, default=100)
    parser.add_argument("--table", type=Path, help="warehouse of the table, kept [a temporary directory]")
    parser.add_argument("--ledger", nargs="?", const=DEFAULT_PATH, help="append the figures here")
    given = parser.parse_args()
    if given.make and not (given.store / "commitlog").exists():
        print(f"  making a store of {given.make} messages", file=sys.stderr, flush=True)
        make_store(given.store, given.make, given.body)
    os.environ["PYSPARK_PYTHON"] = sys.executable
    spark = open_session("local[2]", SETTINGS)
    with tempfile.TemporaryDirectory() as name:
        table = LakeTable("iceberg", str(given.table.resolve() if given.table else name), "bench.large")
        report = {"body": given.body, **archived(spark, given.store, table)}
    spark.stop()
    if given.make and report["rows"] != given.make:
        print(f"{report['rows']} rows are in the table instead of {given.make}", file=sys.stderr)
        return 1
    print(json.dumps(Ledger("spark-archive", given.ledger).add(report)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
