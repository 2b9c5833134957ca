"""One Spark session for all tests of a run: starting one takes longer than most tests."""

import os
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

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
