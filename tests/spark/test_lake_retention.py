"""Retention through the lake: a broker keeps what the lake lacks, deletes what it has, and history has every row."""

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from firearrow.admin import Admin
from firearrow.blocking import Message, PullConsumer
from firearrow.cli.jobs.job_run import ProgressOutputs, watch
from firearrow.errors import SettingsError
from firearrow.spark.lake.table import LakeTable
from firearrow.spark.pipelines import archive
from firearrow.spark.pipelines.lake_marks import committed_end, group_of, marking
from tests.spark.serving import Served, send, served
from tests.spark.source.reading import wait_until

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.real, pytest.mark.timeout(300)]

COUNT = 1000
SETTINGS = """\
mappedFileSizeCommitLog=65536
fileReservedTime=0
deleteWhen=00;01;02;03;04;05;06;07;08;09;10;11;12;13;14;15;16;17;18;19;20;21;22;23
cleanResourceInterval=200
dispatchFlushInterval=100
"""
"""Every full file of the log is expired, and is deleted within a moment."""
KEPT = "expired log files are kept: no lake has the messages of topic orders"


def make_topic(name_server: str, value: str) -> None:
    async def main() -> None:
        async with Admin(name_server) as admin:
            await admin.topics.create("orders", queues=2, attributes={"lake.retention": value})

    asyncio.run(main())


def firsts(name_server: str) -> dict[int, int]:
    with PullConsumer(name_server, group="tests-bounds") as consumer:
        return {queue.queue_id: bounds.first for queue, bounds in consumer.bounds("orders").items()}


def post(name_server: str, start: int) -> None:
    send(name_server, [Message.of("orders", b"%06d" % n + b"x" * 300) for n in range(start, start + COUNT)])


def run(spark: "SparkSession", job: archive.Archive) -> None:
    """Do the work of ``firearrow pipeline archive --once --mark`` in its session."""
    with marking(spark, job, "orders", pytest.fail) as note:
        watch(archive.start(spark, job), ProgressOutputs(on_batch=note))


def bodies(spark: "SparkSession", job: archive.Archive) -> list[int]:
    archive.register_views(spark, job)
    return [row.n for row in spark.sql("select int(substr(string(body), 1, 6)) as n from bronze order by n").collect()]


def settings(directory: Path) -> Path:
    path = directory / "broker.properties"
    path.write_text(SETTINGS)
    return path


def times_held(broker: Served) -> int:
    return broker.log.read_text().count(KEPT)


def test_a_broker_deletes_what_the_lake_has_and_keeps_what_it_lacks(spark: "SparkSession", tmp_path: Path) -> None:
    source = {"subscribe": "orders", "maxOffsetsPerTrigger": "400"}
    with served(tmp_path / "broker", config=settings(tmp_path)) as broker:
        make_topic(broker.name_server, "KEEP")
        post(broker.name_server, 0)
        wait_until(lambda: times_held(broker) == 1, "expired files are held")
        assert set(firsts(broker.name_server).values()) == {0}, "expired, and the lake has nothing"
        table = LakeTable("iceberg", str(tmp_path / "lake"), "shop.orders")
        job = archive.Archive({**source, "nameServer": broker.name_server}, table, str(tmp_path / "checkpoint"))
        run(spark, job)
        wait_until(lambda: min(firsts(broker.name_server).values()) > 0, "files are deleted")
        marks = {queue.queue_id: end for queue, end in committed_end(spark, f"{job.checkpoint}/bronze").items()}
        assert sum(marks.values()) == COUNT
        assert bodies(spark, job) == list(range(COUNT)), "the broker has deleted the first ones"
        post(broker.name_server, COUNT)
        wait_until(lambda: times_held(broker) == 2, "new files are held")
        broker.kill()
        broker.start()
        wait_until(lambda: times_held(broker) == 3, "files are held after a kill")
        first = firsts(broker.name_server)
        assert all(first[queue] <= mark for queue, mark in marks.items()), "after a kill too"
        run(spark, job)
        assert bodies(spark, job) == list(range(2 * COUNT))
        wait_until(
            lambda: all(first > marks[queue] for queue, first in firsts(broker.name_server).items()),
            "files are deleted",
        )
        assert bodies(spark, job) == list(range(2 * COUNT))


def test_a_topic_may_be_released_before_it_expires(spark: "SparkSession", tmp_path: Path) -> None:
    path = settings(tmp_path)
    path.write_text(SETTINGS.replace("fileReservedTime=0", "fileReservedTime=72"))
    with served(tmp_path / "broker", config=path) as broker:
        make_topic(broker.name_server, "RELEASE")
        post(broker.name_server, 0)
        table = LakeTable("delta", str(tmp_path / "lake"))
        source = {"nameServer": broker.name_server, "subscribe": "orders"}
        job = archive.Archive(source, table, str(tmp_path / "checkpoint"))
        run(spark, job)
        wait_until(lambda: min(firsts(broker.name_server).values()) > 0, "files are deleted")
        assert bodies(spark, job) == list(range(COUNT))


def test_a_name_that_no_group_can_have_is_refused() -> None:
    with pytest.raises(SettingsError, match="--mark 'a b' cannot name a group"):
        group_of("a b")
