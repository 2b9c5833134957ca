"""Through a Spark Connect server, started from the pyspark distribution: what works, and what a client lacks."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("grpc_status")

from firearrow.blocking import Message
from tests.spark.cluster import daemon
from tests.spark.conftest import SETTINGS
from tests.spark.serving import Served, send, served

COUNT = 300
BODIES = [b"order %d" % number for number in range(COUNT)]
SERVER = "org.apache.spark.sql.connect.service.SparkConnectServer"


@pytest.fixture
def remote(tmp_path: Path) -> Iterator[str]:
    """The address of a Connect server on two cores."""
    settings = {**SETTINGS, "spark.connect.grpc.binding.port": "0", "spark.connect.grpc.binding.address": "127.0.0.1"}
    del settings["spark.log.level"]  # its port is said at the level INFO
    del settings[
        "spark.python.unix.domain.socket.enabled"
    ]  # with it workers have 10 s to connect, on a busy machine too
    words = ["org.apache.spark.deploy.SparkSubmit", "--class", SERVER, "--master", "local[2]"]
    words += [word for pair in settings.items() for word in ("--conf", "=".join(pair))]
    sign = "Spark Connect server started at"
    with daemon(tmp_path, "connect", sign, *words, "spark-internal", memory="1g") as line:
        yield f"sc://127.0.0.1:{line.rpartition(':')[2].strip()}"


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Served]:
    """A broker with orders."""
    with served(tmp_path / "broker") as running:
        send(running.name_server, [Message.of("orders", body, keys=[str(n)]) for n, body in enumerate(BODIES)])
        yield running


def run(*words: str) -> str:
    """The standard output of a client in a process of its own: a process has one kind of session."""
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable}
    done = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=200, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


@pytest.mark.timeout(300)
def test_everything_but_the_jvm_works_through_connect(remote: str, broker: Served, tmp_path: Path) -> None:
    store = str(broker.directory / "store")
    words = (sys.executable, "-m", "tests.spark.connected", remote, broker.name_server, store, str(tmp_path))
    assert json.loads(run(*words).strip().splitlines()[-1]) == {
        "topics": COUNT,
        "schema": ["queue_id", "queue_offset"],
        "store_files": COUNT,
        "stream_to_parquet": COUNT,
        "for_each_batch": COUNT,
        "archive_and_sql": [COUNT, COUNT, sum(map(len, BODIES))],
        "sink_by_replay": COUNT,
        "audit_of_rows": 0,
        "jvm": "PySparkAttributeError: JVM_ATTRIBUTE_NOT_SUPPORTED",
    }
    command = [str(Path(sys.executable).with_name("firearrow")), "pipeline", "archive", "-n", broker.name_server]
    command += ["--topics", "orders", "--format", "delta", "--location", str(tmp_path / "delta")]
    said = run(*command, "--checkpoint", str(tmp_path / "command"), "--master", remote)
    assert f"{COUNT} rows" in said, said
