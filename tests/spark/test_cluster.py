"""The whole line on a standalone cluster of two workers, started from the pyspark distribution."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pyspark
import pytest

from firearrow.blocking import Consumer, Message
from tests.spark.serving import held, send, served

COUNT = 3000
PATIENCE_S = 120
CLASSES = "org.apache.spark.deploy"


@contextmanager
def daemon(directory: Path, name: str, sign: str, *words: str, memory: str = "256m") -> Iterator[str]:
    """A process of Spark's own; its first line that holds ``sign``. Ended at the end of the block."""
    launcher = Path(pyspark.__file__).parent / "bin" / "spark-class"
    environment = {**os.environ, "SPARK_NO_DAEMONIZE": "1", "SPARK_LOCAL_IP": "127.0.0.1"}
    environment |= {"SPARK_DAEMON_MEMORY": memory, "PYSPARK_PYTHON": sys.executable}
    environment |= {"SPARK_WORKER_DIR": str(directory / name)}
    log = directory / f"{name}.log"
    with log.open("wb") as output:
        process = subprocess.Popen([str(launcher), *words], env=environment, stdout=output, stderr=output)
    try:
        deadline = time.monotonic() + PATIENCE_S
        while sign not in log.read_text():
            assert process.poll() is None, log.read_text()
            assert time.monotonic() < deadline, log.read_text()
            time.sleep(0.1)
        yield next(line for line in log.read_text().splitlines() if sign in line)
    finally:
        process.kill()
        process.wait()


@pytest.fixture
def master(tmp_path: Path) -> Iterator[str]:
    """The address of a cluster with two workers of one core each."""
    with ExitStack() as stack:
        words = ("--host", "127.0.0.1", "--port", "0", "--webui-port", "0")
        started = daemon(tmp_path, "master", "Starting Spark master at", f"{CLASSES}.master.Master", *words)
        address = stack.enter_context(started).strip().split()[-1]
        for name in ("one", "two"):
            more = ("--cores", "1", "--memory", "1g", *words, address)
            sign = "Successfully registered with master"
            stack.enter_context(daemon(tmp_path, name, sign, f"{CLASSES}.worker.Worker", *more))
        yield address


@pytest.mark.timeout(400)
def test_producers_topic_archive_sql_replay_consumer(master: str, tmp_path: Path) -> None:
    bodies = [b"order %d " % number + b"x" * (number % 90) for number in range(COUNT)]
    with served(tmp_path / "broker") as broker:
        send(broker.name_server, [Message.of("orders", body, keys=[str(n)]) for n, body in enumerate(bodies)])
        words = [sys.executable, "-m", "tests.spark.wholeline", master, broker.name_server, str(tmp_path), "iceberg"]
        words += ["spark.executor.memory=600m"]
        environment = {**os.environ, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
        done = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=360, check=False)
        assert done.returncode == 0, done.stderr[-3000:]
        seen = json.loads(done.stdout.strip().splitlines()[-1])
        assert seen == {"messages": COUNT, "ids": COUNT, "bytes": sum(map(len, bodies)), "queues": 4}
        assert sorted(message.body for message in held(broker.name_server, "copies").values()) == sorted(bodies)
        received = []
        with Consumer(broker.name_server, group="line", topics="copies", start="first") as consumer:
            for message in consumer:
                received.append(message.body)
                message.ack()
                if len(received) == COUNT:
                    break
        assert sorted(received) == sorted(bodies)
