"""The sink beside a bare Arrow writer: the same rows to a topic, and to a writer that only counts them.

python -m benchmarks.spark.sink --messages 500000 --body 100 [--runs 3]
"""

import argparse
import json
import statistics
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource, DataSourceArrowWriter, WriterCommitMessage

from benchmarks.spark.archive import timed
from firearrow.spark.session import open_session
from tests.spark.serving import served

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType


@dataclass
class Counted(WriterCommitMessage):
    """Rows of a task."""

    rows: int


class Counting(DataSourceArrowWriter):
    """Takes rows and does nothing."""

    def write(self, iterator: "Iterator[pa.RecordBatch]") -> Counted:
        """Count."""
        return Counted(sum(batch.num_rows for batch in iterator))


class Bare(DataSource):
    """A sink that only counts."""

    @classmethod
    def name(cls) -> str:
        """What to write in ``format``."""
        return "bare-arrow"

    def writer(self, schema: "StructType", overwrite: bool) -> Counting:  # noqa: ARG002
        """Write in one job."""
        return Counting()


def main() -> int:
    """Measure."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.spark.sink", description=__doc__)
    parser.add_argument("--messages", type=int, default=500_000)
    parser.add_argument("--body", type=int, default=100)
    parser.add_argument("--runs", type=int, default=3)
    given = parser.parse_args()
    spark = open_session("local[2]", {"spark.ui.enabled": "false", "spark.log.level": "ERROR"})
    spark.dataSource.register(Bare)
    found: dict[str, list[float]] = {"bare": [], "topic": []}
    with tempfile.TemporaryDirectory() as name, served(Path(name) / "broker") as broker:
        source = str(Path(name) / "rows")
        made = spark.range(given.messages, numPartitions=2)
        made.selectExpr(f"randstr({given.body}, 1)::binary AS body", "'k' || id AS keys", "'t' AS tags").write.parquet(
            source
        )
        rows = spark.read.parquet(source)
        options = {"nameServer": broker.name_server, "topic": "bench"}
        for run in range(given.runs + 1):
            bare = timed(lambda: rows.write.format("bare-arrow").mode("append").save())
            topic = timed(lambda: rows.write.format("rocketmq").options(**options).mode("append").save())
            if run:
                found["bare"].append(given.messages / bare / 1000)
                found["topic"].append(given.messages / topic / 1000)
    spark.stop()
    report: dict[str, object] = {"campaign": "bench-spark sink", "body": given.body, "rows": given.messages}
    report |= {way: round(statistics.median(all_), 1) for way, all_ in found.items()}
    print(json.dumps(report))
    return 0


if __name__ == "__main__":
    sys.exit(main())
