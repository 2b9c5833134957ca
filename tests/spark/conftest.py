"""One Spark session for all tests of a run: starting one takes longer than most tests."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from firearrow.cli.jobs.job_run import QuietLog

SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1",
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.memory": "1g",
    "spark.log.level": "ERROR",
}


@pytest.fixture(scope="session")
def spark() -> "Iterator[SparkSession]":
    """A session on two cores of this machine."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    from firearrow.spark.session import open_session

    session = open_session("local[2]", SETTINGS, "firearrow tests")
    yield session
    session.stop()


@pytest.fixture
def jobs_in_this_session(spark: "SparkSession", monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the commands of jobs run in the session of all tests, in this process."""
    from firearrow.cli import pipeline
    from firearrow.cli.jobs import audit_job, stats_job
    from firearrow.cli.jobs.job_run import hush

    @contextmanager
    def session(_given: object, quiet: "QuietLog") -> "Iterator[SparkSession]":
        hush(quiet)
        yield spark

    for module in (pipeline, audit_job, stats_job):
        monkeypatch.setattr(module, "session", session)
