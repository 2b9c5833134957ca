"""``firearrow pipeline stats`` over a real broker, its files and a table: figures of messages whose sizes are known."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from typer.testing import CliRunner

from firearrow.blocking import Message
from firearrow.cli import pipeline as commands
from firearrow.cli.jobs import stats_job
from firearrow.spark.lake import access
from firearrow.spark.lake.table import LakeTable
from tests.spark.serving import Served, send, served
from tests.spark.test_transforms import row, rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

COUNT = 200
NOON = datetime(2026, 5, 1, 12, 0, tzinfo=UTC)


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(tmp_path_factory.mktemp("broker")) as running:
        send(running.name_server, [message(number) for number in range(1, COUNT + 1)])
        send(running.name_server, [Message.of("plain", b"x" * 7)])
        yield running


def message(number: int) -> Message:
    """Bodies of 1 to 200 bytes; every fourth message is paid, the others are open; k0 has half of all messages."""
    tag = "paid" if number % 4 == 0 else "open"
    return Message.of("orders", b"x" * number, tag=tag, keys="k0" if number % 2 else f"k{number}")


@pytest.fixture(autouse=True)
def in_the_session_of_all_tests(spark: "SparkSession", monkeypatch: pytest.MonkeyPatch) -> None:
    @contextmanager
    def session(*_: object) -> "Iterator[SparkSession]":
        yield spark

    monkeypatch.setattr(stats_job, "session", session)


def told(*words: str) -> list[dict[str, Any]]:
    done = CliRunner().invoke(commands.pipeline, ["stats", "--json", *words])
    assert done.exit_code == 0, done.output
    return list(json.loads(done.output)["topics"])


@pytest.mark.parametrize("door", ["topics", "files", "table"])
def test_figures_of_known_messages(spark: "SparkSession", broker: Served, tmp_path: Path, door: str) -> None:
    store = str(broker.directory / "store")
    words = {
        "topics": ("--topics", "orders,plain", "-n", broker.name_server),
        "files": ("--store", store, "--topics", "orders,plain"),
        "table": ("--format", "delta", "--location", str(tmp_path / "t"), "--topics", "orders,plain"),
    }[door]
    if door == "table":
        access.append(spark.read.format("rocketmq-store").load(store), LakeTable("delta", str(tmp_path / "t")), "past")

    orders, plain = told(*words)

    assert (plain["topic"], plain["messages"], plain["bytes"]) == ("plain", 1, 7)
    assert [(each["tag"], each["messages"]) for each in plain["tags"]] == [(None, 1)]
    assert "keys" not in plain
    assert orders["topic"] == "orders"
    assert orders["messages"] == COUNT
    assert orders["bytes"] == sum(range(1, COUNT + 1))
    assert orders["size"] == {"p50": 100, "p99": 198, "max": 200}
    assert orders["storedBytes"] > orders["bytes"]
    assert orders["first"] <= orders["last"]
    tags = [(each["tag"], each["messages"], each["bytes"], each["size"]["max"]) for each in orders["tags"]]
    paid = sum(range(4, COUNT + 1, 4))
    assert tags == [("open", 150, orders["bytes"] - paid, 199), ("paid", 50, paid, 200)]
    assert {each["broker"] for each in orders["queues"]} == {"dev" if door == "topics" else "broker-a"}
    queues = [each["queue"] for each in orders["queues"]]
    assert queues == sorted(set(queues))
    for part in ("queues", "hours"):
        assert sum(each["messages"] for each in orders[part]) == COUNT
        assert sum(each["bytes"] for each in orders[part]) == orders["bytes"]
        assert min(each["first"] for each in orders[part]) == orders["first"]
        assert max(each["last"] for each in orders[part]) == orders["last"]
    keys = orders["keys"]
    assert (keys["different"], keys["messages"], keys["skew"]) == (101, 200, 50.5)
    assert keys["top"][:2] == [
        {"key": "k0", "messages": 100, "share": 0.5},
        {"key": "k10", "messages": 1, "share": 0.005},
    ]
    assert len(keys["top"]) == 10


def test_hours_begin_in_utc_and_the_largest_tags_are_shown(spark: "SparkSession", tmp_path: Path) -> None:
    moments = [NOON - timedelta(milliseconds=1), NOON, NOON + timedelta(minutes=59), NOON + timedelta(hours=1)]
    given = [row(n, b"x" * n, store_timestamp=at, tags=f"t{min(n, 2)}", keys="a b") for n, at in enumerate(moments)]
    rows(spark, *given).write.parquet(str(tmp_path / "t"))
    noon = int(NOON.timestamp() * 1000)

    (found,) = told("--format", "parquet", "--location", str(tmp_path / "t"), "--by", "hour,key,tag", "--top", "1")

    assert [(each["hour"] - noon, each["messages"]) for each in found["hours"]] == [
        (-3_600_000, 1), (0, 2), (3_600_000, 1),
    ]  # fmt: skip
    assert (found["first"] - noon, found["last"] - noon) == (-1, 3_600_000)
    assert [(each["tag"], each["messages"]) for each in found["tags"]] == [("t2", 2)]
    assert "queues" not in found
    assert found["keys"] == {
        "different": 2, "messages": 8, "skew": 1.0, "top": [{"key": "a", "messages": 4, "share": 0.5}],
    }  # fmt: skip


def test_tables_for_people_and_a_condition(broker: Served) -> None:
    words = ("--store", str(broker.directory / "store"), "--where", "topic = 'orders' AND octet_length(body) > 198")
    done = CliRunner().invoke(commands.pipeline, ["stats", *words])
    assert done.exit_code == 0, done.output
    lines = [[cell.strip() for cell in line.split("│")[1:-1]] for line in done.output.splitlines() if "│" in line]
    whole = next(line for line in lines if line[0] == "orders")
    assert whole[1:3] == ["2", "399"]
    assert whole[4:7] == ["199", "200", "200"]
    assert ["orders", "k0", "1", "50.00%", "2", "1.0"] in lines
    assert done.output.splitlines()[-1].startswith("stats: 2 messages in ")
