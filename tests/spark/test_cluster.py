"""The whole line on a standalone cluster of two workers."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from firearrow.blocking import Consumer, Message
from tests.spark.cluster import cluster
from tests.spark.serving import held, send, served

COUNT = 3000


@pytest.fixture
def master(tmp_path: Path) -> Iterator[str]:
    with cluster(tmp_path) as address:
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
