"""Jobs as they are typed, each with a JVM of its own: how mistakes are told, how they end, what they say at the end."""

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from campaigns.rotation import this_turn
from firearrow.blocking import Message
from firearrow.spark.pipelines.listener import QueryMetrics, counted
from firearrow.testing.ports import free_port
from tests.spark.serving import Served, send, served
from tests.spark.source.reading import wait_until

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.real, pytest.mark.timeout(300)]

COUNT = 40
JOB_SECONDS = 200
SPARK = ("--master", "local[1]", *("--conf", "spark.ui.enabled=false"), *("--conf", "spark.driver.host=127.0.0.1"))
FAST = ("--conf", "spark.driver.extraJavaOptions=-XX:TieredStopAtLevel=1")


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(tmp_path_factory.mktemp("broker")) as running:
        send(running.name_server, [Message.of("orders", json.dumps({"id": n}).encode()) for n in range(COUNT)])
        yield running


def command(*words: str) -> list[str]:
    return [sys.executable, "-m", "firearrow", "pipeline", *words, *SPARK, *FAST]


def environment() -> dict[str, str]:
    return {**os.environ, "SPARK_LOCAL_IP": "127.0.0.1"}


def run(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command(*words), env=environment(), capture_output=True, text=True, timeout=JOB_SECONDS, check=False
    )


class Mistake(NamedTuple):
    """A command with one thing wrong, and what must be said of it. Words in braces are filled in."""

    words: str
    says: str


ARCHIVE = "archive --topics orders --format delta --location {place}/t --checkpoint {place}/c "
MISTAKES = {
    "name server": Mistake(
        ARCHIVE + "-n 127.0.0.1:{closed} --option connectTimeoutMs=2000",
        r"the cluster at 127.0.0.1:{closed} could not be reached .* Check the option nameServer",
    ),
    "topic": Mistake(
        "archive --topics ordes --format delta --location {place}/t --checkpoint {place}/c -n {server}", r"ordes"
    ),
    "body schema": Mistake(ARCHIVE + "-n {server} --body-schema id_lnog", r"--body-schema.*id_lnog"),
    "table": Mistake(
        "archive --topics orders --format delta --location {place}/other --checkpoint {place}/c -n {server}",
        r"the rows do not fit table .*/other. Nothing was written",
    ),
    "store": Mistake("backfill --store {place}/none --job j --format delta --location {place}/t", r"{place}/none"),
    "receipts": Mistake("audit --receipts {place}/none --store {store}", r"{place}/none"),
    "history": Mistake(
        "replay --job j --to-topic copies -n {server} --format delta --location {place}/none", r"{place}/none"
    ),
    "condition": Mistake(
        "replay --job j --to-topic copies -n {server} --store {store} --where quueue_id=1", r"quueue_id"
    ),
    "target": Mistake(
        "replay --job j --to-topic copies -n 127.0.0.1:{closed} --store {store} --option retryTimeoutMs=2000",
        r"127.0.0.1:{closed}",
    ),
}


@pytest.mark.rotating
@pytest.mark.parametrize("name", this_turn(list(MISTAKES), __name__))
def test_a_mistake_is_told_in_three_lines_with_status_2(broker: Served, tmp_path: Path, name: str) -> None:
    import pyarrow as pa
    from deltalake import DeltaTable, Schema

    DeltaTable.create(str(tmp_path / "other"), schema=Schema.from_arrow(pa.schema([("topic", pa.int64())])))
    filled = {
        "place": str(tmp_path), "server": broker.name_server, "closed": str(free_port()),
        "store": str(broker.directory / "store"),
    }  # fmt: skip

    done = run(*MISTAKES[name].words.format(**filled).split())

    assert done.returncode == 2, done.stderr
    lines = done.stderr.splitlines()
    assert 1 <= len(lines) <= 3, done.stderr
    assert lines[0].startswith(f"firearrow pipeline {MISTAKES[name].words.split()[0]}: ")
    assert re.search(MISTAKES[name].says.format(**filled), lines[0]), done.stderr
    assert done.stdout == "" or name == "target", "a replay says what it will send"


@pytest.mark.rotating
@pytest.mark.parametrize("number", this_turn([signal.SIGINT, signal.SIGTERM], __name__), ids=lambda number: number.name)
def test_a_job_that_follows_is_ended_quietly(broker: Served, tmp_path: Path, number: signal.Signals) -> None:
    words = f"archive --topics orders -n {broker.name_server} --format delta --follow --every 1_second".split()
    words = [word.replace("_", " ") for word in words]
    words += ["--location", str(tmp_path / "t"), "--checkpoint", str(tmp_path / "c")]
    pipes: Any = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(command(*words), env=environment(), start_new_session=True, **pipes) as job:
        try:
            assert job.stdout is not None
            first = job.stdout.readline()
            assert f"{COUNT} rows" in first, job.communicate()[1]
            if number == signal.SIGINT:
                os.killpg(job.pid, number)  # as a terminal does: the JVM and its Python workers get it too
            else:
                job.send_signal(number)
            said, errors = job.communicate(timeout=60)
        finally:
            job.kill()
    assert job.returncode == 128 + number
    assert errors == "firearrow pipeline archive: interrupted; start it again to go on where it stopped\n"
    assert said.splitlines()[-1].startswith(f"archive-bronze: {COUNT} rows read, {COUNT} written in 1 batches")


def test_jobs_end_with_a_summary(broker: Served, tmp_path: Path) -> None:
    from deltalake import DeltaTable

    files = ("--store", str(broker.directory / "store"))
    lake = ("--format", "delta", "--location", str(tmp_path / "t"))
    for _ in range(2):  # the second time the table has the job already
        done = run("backfill", *files, *lake, "--job", "past", "--option", "subscribe=orders")
        assert done.returncode == 0, done.stderr
        assert re.fullmatch(rf"backfill past: {COUNT} rows of .* are in {tmp_path}/t in [\d.]+ s\n", done.stdout)
        assert len(DeltaTable(str(tmp_path / "t")).to_pyarrow_table(columns=["topic"])) == COUNT
    done = run("replay", "--job", "again", "--to-topic", "copies", "-n", broker.name_server, *lake)
    assert done.returncode == 0, done.stderr
    last = done.stdout.splitlines()[-1]
    assert re.fullmatch(rf"replay again: {COUNT} messages sent and acknowledged in [\d.]+ s", last)


def test_a_listener_watches_queries_of_ones_own(spark: "SparkSession", broker: Served, tmp_path: Path) -> None:
    metrics = QueryMetrics()
    spark.streams.addListener(metrics)
    try:
        reader = spark.readStream.format("rocketmq").option("nameServer", broker.name_server)
        rows = reader.option("subscribe", "orders").option("startingOffsets", "earliest").load()
        writer = counted(rows.where("queue_offset >= 0")).writeStream.queryName("mine").format("noop")
        query = (
            writer.option("checkpointLocation", str(tmp_path / "c")).trigger(processingTime="200 milliseconds").start()
        )
        try:
            wait_until(lambda: f'written_rows_total{{query="mine"}} {COUNT}\n' in metrics.text(), "the rows")
            assert 'firearrow_pipeline_active{query="mine"} 1.0' in metrics.text()
            lags = [line for line in metrics.text().splitlines() if "lag_messages{" in line]
            assert lags
            assert all('query="mine"' in line and line.endswith(" 0.0") for line in lags)
        finally:
            query.stop()
        wait_until(lambda: 'firearrow_pipeline_active{query="mine"} 0.0' in metrics.text(), "the end of the query")
    finally:
        spark.streams.removeListener(metrics)
