"""``firearrow pipeline mirror`` as its users run it: its output, its metrics, its mistakes, its end."""

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from firearrow import Message, blocking
from firearrow.testing.blocking import Cluster
from tests.interop.cli.commands import MAIN, Commands
from tests.spark.serving import held

pytestmark = pytest.mark.real


@pytest.fixture(scope="module")
def clusters() -> Iterator[tuple[str, str]]:
    with Cluster() as east, Cluster(brokers=["other"]) as west:
        east.create_topic("orders", queues=2)
        east.create_topic("claims", queues=1)
        with blocking.Producer(east.address, group="shop") as producer:
            for number in range(20):
                producer.send(Message.of("orders", b"%d" % number))
        yield east.address, west.address


def words(target: str, state: Path, *more: str) -> list[str]:
    names = ["--source-name", "east", "--target-name", "west"]
    return ["pipeline", "mirror", "--to", target, "--state", str(state), *names, *more]


def test_it_says_what_it_did_and_leaves_metrics(clusters: tuple[str, str], tmp_path: Path) -> None:
    source, target = clusters
    metrics = tmp_path / "metrics"
    given = words(target, tmp_path / "state", "--topics", "orders", "--once", "--metrics", str(metrics))
    said = Commands(source)(*given).splitlines()
    assert said[0] == "topic orders is made on other of the target with 2 queues"
    assert "east->west" in said[-1]
    assert "20 copied" in said[-1]
    assert "lag 0 (0.0 s)" in said[-1]
    text = metrics.read_text()
    assert 'firearrow_pipeline_written_rows_total{query="east->west"} 20' in text
    assert 'firearrow_pipeline_lag_messages{query="east->west",queue="orders/broker-a/0"} 0.0' in text
    assert 'firearrow_pipeline_active{query="east->west"} 0.0' in text


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        (["--topics", "oders"], "the source has no topic 'oders'"),
        (["--topics", "orders", "--start", "middle"], "--start is one of first, last, not 'middle'"),
        (["--topics", ","], "--topics is empty"),
        (["--topics", "orders", "--target-name", "east"], "both clusters are called east"),
    ],
)
def test_a_mistake_is_told_in_a_line(clusters: tuple[str, str], tmp_path: Path, more: list[str], reason: str) -> None:
    source, target = clusters
    ran = Commands(source).process(*words(target, tmp_path / "state", *more))
    assert ran.returncode == 2
    assert len(ran.stderr.splitlines()) <= 3
    assert reason in ran.stderr


def test_queues_that_are_left_out_fail_a_run_to_the_present_end(clusters: tuple[str, str], tmp_path: Path) -> None:
    source, target = clusters
    given = words(target, tmp_path / "state", "--topics", "orders", "--once")
    Commands(source)("topic", "update", "orders", "--perm", "w")
    try:
        ran = Commands(source).process(*given)
    finally:
        Commands(source)("topic", "update", "orders", "--perm", "rw")
    assert ran.returncode == 2
    assert "2 queues were left out" in ran.stderr
    assert "broker-a:0, broker-a:1 of orders: the topic has no permission to read on broker-a" in ran.stderr
    assert "firearrow topic update orders --broker broker-a --perm rw" in ran.stderr
    assert "20 copied" in Commands(source)(*given)


def test_damaged_messages_stop_it_or_are_left_out(clusters: tuple[str, str], tmp_path: Path) -> None:
    """A message that has no room for its path: the default stops before it, --skip-damaged goes on behind it."""
    source, target = clusters
    with blocking.Producer(source, group="shop") as producer:
        queue = producer.queues("claims")[0]
        for body, size in ((b"before", 1), (b"large", 32_650), (b"after", 1)):
            producer.send(Message("claims", body, {"claims": "x" * size}), queue=queue)
    given = [*words(target, tmp_path / "state", "--topics", "claims", "--once"), "--source-name", "east" * 20]
    stopped = Commands(source).process(*given)
    assert stopped.returncode == 2
    assert len(stopped.stderr.splitlines()) <= 3
    assert "offset 1 of queue broker-a:0 of 'claims'" in stopped.stderr
    assert "--skip-damaged leaves such messages out" in stopped.stderr
    assert bodies(target, "claims") == [b"before"]
    last = Commands(source)(*given, "--skip-damaged").splitlines()[-1]
    assert " 1 copied" in last
    assert "1 damaged" in last
    assert bodies(target, "claims") == [b"before", b"after"]


def bodies(address: str, topic: str) -> list[bytes]:
    return [message.body for _, message in sorted(held(address, topic).items())]


def test_a_target_that_is_not_there_is_told_in_a_line(clusters: tuple[str, str], tmp_path: Path) -> None:
    ran = Commands(clusters[0]).process(*words("127.0.0.1:1", tmp_path / "state", "--topics", "orders"))
    assert ran.returncode == 2
    assert "cannot connect to 127.0.0.1:1" in ran.stderr
    assert len(ran.stderr.splitlines()) <= 3


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_ends_it_in_order(
    clusters: tuple[str, str], tmp_path: Path, number: signal.Signals, status: int
) -> None:
    source, target = clusters
    given = words(target, tmp_path / "state", "--topics", "orders", "--every", "0.2")
    with subprocess.Popen(
        [sys.executable, "-c", MAIN, *given],
        env=Commands(source).environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as mirror:
        try:
            assert mirror.stdout is not None
            while "20 copied" not in (line := mirror.stdout.readline()):
                assert line, "the mirror ended"
            mirror.send_signal(number)
            _, trouble = mirror.communicate(timeout=30)
        finally:
            mirror.kill()
    assert mirror.returncode == status
    assert "Traceback" not in trouble
    # The marks were saved: the next run has nothing to copy.
    last = Commands(source)(*given, "--once").splitlines()[-1]
    assert " 0 copied" in last
