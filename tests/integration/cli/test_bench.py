"""``firearrow bench`` at a real cluster."""

import json
from typing import Any

import pytest
from typer.testing import CliRunner

from firearrow.cli.app import app
from firearrow.testing.blocking import Cluster

pytestmark = pytest.mark.real
RUNNER = CliRunner()


def found(cluster: Cluster, *words: str) -> dict[str, Any]:
    """Run a bench and return its figures."""
    result = RUNNER.invoke(app, ["bench", *words, "-n", cluster.address, "--json"])
    assert result.exit_code == 0, result.output
    figures: dict[str, Any] = json.loads(result.stdout)
    return figures


def test_what_is_sent_is_read(firearrow_cluster: Cluster, firearrow_topic: str) -> None:
    for words in (["--count", "100"], ["--count", "101", "--batch", "10", "--in-flight", "2"]):
        sent = found(firearrow_cluster, "produce", firearrow_topic, "--size", "50", *words)
        assert sent["messages"] == int(words[1])
        assert sent["messagesPerSecond"] == pytest.approx(sent["messages"] / sent["seconds"], rel=0.1)
        assert 0 < sent["p50Ms"] <= sent["p99Ms"] <= sent["maxMs"] <= sent["seconds"] * 1000 + 1
    read = found(firearrow_cluster, "consume", firearrow_topic)
    assert read["messages"] == 201
    assert read["megabytesPerSecond"] == pytest.approx(201 * 50 / read["seconds"] / 1e6, rel=0.1)


def test_a_message_is_timed_on_its_way(firearrow_cluster: Cluster, firearrow_topic: str) -> None:
    found(firearrow_cluster, "produce", firearrow_topic, "--count", "5")
    seen = found(firearrow_cluster, "latency", firearrow_topic, "--count", "40", "--rate", "200", "--size", "10")
    assert seen["messages"] == 40, "messages of others do not count"
    assert seen["seconds"] >= 39 / 200, "they are sent at the rate"
    assert 0 < seen["p50Ms"] <= seen["p99Ms"] <= seen["maxMs"]


def test_a_table_is_printed_and_failures_are_one_line(firearrow_cluster: Cluster, firearrow_topic: str) -> None:
    names = ["-n", firearrow_cluster.address]
    table = RUNNER.invoke(app, ["bench", "produce", firearrow_topic, "--count", "3", *names]).stdout
    assert "messages/s" in table
    assert "p99 ms" in table
    empty = RUNNER.invoke(app, ["bench", "consume", f"{firearrow_topic}-none", *names])
    assert empty.exit_code == 1
    assert empty.stderr.count("\n") == 1
    assert f"{firearrow_topic}-none" in empty.stderr
