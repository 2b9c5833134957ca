"""Tables in an object store, in a process of their own as Spark's are."""

import json
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest

from judges.install.artifacts import HADOOP
from judges.object_store import object_store
from tests.spark.object_store import environment

pytestmark = pytest.mark.real


def run(endpoint: str, tmp_path: Path) -> "subprocess.CompletedProcess[str]":
    words = [sys.executable, "-m", "tests.spark.object_store", endpoint, str(tmp_path)]
    return subprocess.run(words, env=environment(), capture_output=True, text=True, check=False)


def test_tables_in_an_object_store_are_reached_by_their_settings(tmp_path: Path) -> None:
    with object_store() as endpoint:
        done = run(endpoint, tmp_path)
    assert done.returncode == 0, done.stderr[-2000:]
    found = json.loads(done.stdout)
    assert len(found) == 4
    assert all(rows == list(range(10)) for rows in found.values()), found


def test_the_jars_for_s3_are_of_the_hadoop_that_spark_brings() -> None:
    assert (Path(pyspark.__file__).parent / "jars" / f"hadoop-client-api-{HADOOP}.jar").exists()
