"""A driver that archives one topic into a table of each format given.

    python -m tests.spark.archiver follow|finish DIRECTORY NAME_SERVER TOPIC MASTER FORMATS [key=value ...]

``follow`` goes on until it is killed and prints ``batch FORMAT TABLE NUMBER`` after every batch. ``finish`` archives
what is left, compares every table with what the broker hands out, and prints one line of JSON. A format that begins
with ``changing-`` is an archive whose schema changes with ``ARCHIVER_STAGE`` (see `tests.spark.changing`), ``upsert-``
a table by key (see `tests.spark.folding`).
"""

import json
import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from firearrow.spark.lake import access
from firearrow.spark.lake.table import LakeTable
from firearrow.spark.pipelines.archive import Archive, drain, start
from firearrow.spark.session import open_session
from tests.spark import changing, folding
from tests.spark.conftest import SETTINGS
from tests.spark.serving import held

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROWS_PER_BATCH = {"follow": "500", "finish": "20000"}


def table(name: str, directory: Path) -> LakeTable:
    """The location of a format's table; ``native-`` in front asks for the runtime inside Spark."""
    form = name.removeprefix("native-")
    if name == "native-iceberg":
        return LakeTable("iceberg", "", "lake.shop.orders", native=True)
    named = "shop.orders" if form == "iceberg" else ""
    return LakeTable(form, str(directory / name), named, native=name != form).checked()  # type: ignore[arg-type]


def archives(what: str, directory: Path, name_server: str, topic: str, formats: list[str]) -> dict[str, Archive]:
    """An archive for each format."""
    source = {"nameServer": name_server, "subscribe": topic, "maxOffsetsPerTrigger": ROWS_PER_BATCH[what]}
    made, stage = {}, int(os.environ.get("ARCHIVER_STAGE", "0"))
    for name in formats:
        checkpoint = str(directory / "checkpoints" / name)
        if name.startswith(changing.PREFIX):
            made[name] = changing.archive(name, changing.table(name, directory), source, checkpoint, stage)
        elif name.startswith(folding.PREFIX):
            made[name] = folding.archive(name, folding.table(name, directory), source, checkpoint, stage)
        else:
            made[name] = Archive(source, table(name, directory), checkpoint, name=name)
    return made


def differences(spark: "SparkSession", jobs: dict[str, Archive], name_server: str, topic: str) -> dict[str, Any]:
    """The rows that each table lacks, has twice, or has otherwise than the topic."""
    messages = held(name_server, topic)
    truth = {place: message.body for place, message in messages.items()}
    verdict: dict[str, Any] = {"messages": len(truth)}
    for name, job in jobs.items():
        if name.startswith(changing.PREFIX):
            verdict[name] = changing.differences(spark, job, truth)
            continue
        if name.startswith(folding.PREFIX):
            verdict[name] = folding.differences(spark, job, messages)
            continue
        rows = access.read(spark, job.table).select("queue_id", "queue_offset", "body").collect()
        found = {(row.queue_id, row.queue_offset): bytes(row.body) for row in rows}
        verdict[name] = {
            "rows": len(rows),
            "lost": len(truth.keys() - found.keys()),
            "duplicated": len(rows) - len(found),
            "unknown": len(found.keys() - truth.keys()),
            "changed": sum(1 for place, body in found.items() if truth.get(place, body) != body),
        }
    return verdict


def follow(spark: "SparkSession", jobs: dict[str, Archive]) -> None:
    """Archive what comes, for ever, and tell of every batch."""
    queries = {
        f"{name} {number}": query
        for name, job in jobs.items()
        for number, query in enumerate(start(spark, job, {"processingTime": "0 seconds"}))
    }
    seen: dict[str, int] = {}
    while True:
        for name, query in queries.items():
            failure = query.exception()
            if failure is not None:
                raise failure
            progress = query.lastProgress
            if progress is not None and progress["numInputRows"] and seen.get(name) != progress["batchId"]:
                seen[name] = progress["batchId"]
                print("batch", name, progress["batchId"], flush=True)
        time.sleep(0.05)


def main() -> None:
    """Follow the topic, or finish."""
    what, directory, name_server, topic, master, formats = sys.argv[1:7]
    extra = dict(pair.split("=", 1) for pair in sys.argv[7:])
    spark = open_session(master, {**SETTINGS, "spark.executor.memory": "700m", **extra}, "archiver")
    jobs = archives(what, Path(directory), name_server, topic, formats.split(","))
    if what == "follow":
        follow(spark, jobs)
    for job in jobs.values():
        for queries in drain(spark, job):
            for query in queries:
                query.awaitTermination()
    print(json.dumps(differences(spark, jobs, name_server, topic)), flush=True)


if __name__ == "__main__":
    main()
