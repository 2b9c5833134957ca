"""The page of the documentation, written from the file of figures: `python -m benchmarks.spark --page`."""

from pathlib import Path
from typing import Final

from benchmarks.spark.figures import Figures
from benchmarks.spark.report import PARTS, goals, table

PAGE: Final = Path(__file__).parents[2] / "docs" / "internals" / "spark-performance.md"

OPENING: Final = """# How fast the Spark sources are

`make bench-spark` measures everything on this page, and `python -m benchmarks.spark --page` writes the page from the
figures it kept. Every figure is the median of the rounds, with the smallest and the largest beside it. All rows of a
part run in one Spark session, one after the other in every round, each after a short run that does not count; the same
rows lie in our store, in Kafka and in Parquet files, and were counted there. *Selected columns* are key, body, topic,
queue, offset and store time. CPU is in seconds a million rows: Spark's is that of the driver, its JVM and all Python
workers together. A stream is timed from its start to its end, planning and the start of its processes
included; *batch alone* is the rate of its micro-batch, which is what a stream that goes on for long has.
"""

NOTES: Final = {
    "a": """Bodies are random, so nothing can be compressed. Parquet is the ceiling: what the engine does with rows that
it has in its own format. With its defaults Spark's Kafka connector spends about half a second of waiting in every
task, which goes away when `fetch.max.wait.ms` is lowered from 500: *waiting 20 ms* are the same rows with that option.
Nothing else of Kafka's was tuned. Our broker wrote the rows itself and was not restarted; the rows *after a restart*
show what it costs when it has to check the records that it hands out. Apache's broker hands out 32 messages or
256 KiB a pull: there every 32 rows cost a request on both sides, many of them under way at once. A stream pays for
the start of a Python process as well, half a second and more, which short runs show and long ones do not. Spark's own
Python files were compiled before (`firearrow pipeline precompile`): without that each such start takes 0.6 s longer.
""",
    "b": """Kafka's and our streams take everything in one micro-batch. *toTable* is Iceberg's own writer in Spark;
*committed from Python* is what `firearrow pipeline archive` uses where no such runtime exists for the running Spark.
Parquet to Parquet neither takes records apart nor leaves the JVM: rows of ours are made in Python and handed to it.
""",
    "c": """At least once, each row with its identity, every batch acknowledged by the broker. The bare writer takes the
same Arrow batches and only counts them: what Spark needs to hand rows to Python at all. Identities, queues and encoded
batches are made by columns; only the hash of the body, a part of the identity, is made row by row. The broker, which
is one process, is what limits our rows then: it stores and stamps each row as a message of its own, and enters two keys
of each into its index, the row's own and the unique one, which is half of its work.
""",
    "d": """The time of the micro-batch alone, the same number of rows.
""",
    "e": """`foreachBatch` with the default trigger and Python workers on Unix sockets. The floor is a Python source
that returns a row for every millisecond of the clock and asks nobody.
""",
}


def page(figures: Figures) -> str:
    """The whole page."""
    parts = [OPENING, "\n".join(f"- {line}" for line in figures.heading) or "Not measured yet.", ""]
    parts += ["## Goals", "", *goals(figures), ""]
    for part, title in PARTS.items():
        parts += [f"## {title}", "", NOTES[part], *table(figures, part), ""]
    return "\n".join(parts)


def write_page(figures: Figures) -> None:
    """Write it."""
    PAGE.write_text(page(figures), encoding="utf-8")
