"""The pipeline commands, as far as they go without a JVM."""

import json
from pathlib import Path
from types import SimpleNamespace

import pytest
from typer.testing import CliRunner

from firearrow.cli.pipeline import _pairs, _print_report, _watch, pipeline
from firearrow.errors import SettingsError


def said(*words: str) -> tuple[int, str]:
    done = CliRunner().invoke(pipeline, list(words))
    return done.exit_code, done.output


def test_wrong_words_are_explained_before_spark_starts() -> None:
    where = ("-n", "h:9876", "--topics", "t", "--location", "x", "--checkpoint", "c")
    assert said("archive", *where, "--format", "orc") == (
        2,
        "firearrow pipeline archive: --format is one of parquet, iceberg, delta, not 'orc'\n",
    )
    code, text = said("archive", *where, "--table", "orders")
    assert code == 2
    assert "like shop.orders" in text
    code, text = said("replay", "-n", "h:9876", "--job", "j")
    assert code == 2
    assert "say where to" in text
    code, text = said("archive", *where, "--option", "tags")
    assert code == 2
    assert "'tags' is not key=value" in text


def test_pairs() -> None:
    assert _pairs(None) == {}
    assert _pairs(["a=1", "b=x=y"]) == {"a": "1", "b": "x=y"}
    with pytest.raises(SettingsError, match="'c' is not key=value"):
        _pairs(["c"])


class Query:
    """Two batches, then the end."""

    id = "q"

    def __init__(self) -> None:
        self.recentProgress: list[object] = []

    def awaitTermination(self, _seconds: int) -> bool:  # noqa: N802 - Spark's name
        number = len(self.recentProgress)
        report = {"name": "archive-bronze", "batchId": number, "numInputRows": 10, "batchDuration": 100, "sources": []}
        self.recentProgress.append(report if number else SimpleNamespace(json=json.dumps(report)))
        return number == 1


def test_every_batch_is_printed_once_and_metrics_are_kept(tmp_path: Path) -> None:
    lines: list[str] = []
    metrics = tmp_path / "metrics.prom"
    _watch([Query()], metrics, lines.append)  # type: ignore[list-item]
    assert [line.split()[2] for line in lines] == ["0", "1"]
    assert 'firearrow_archive_batch{query="archive-bronze"} 1' in metrics.read_text()


def test_the_report_is_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    counts = dict.fromkeys(("sent", "stored", "lost", "duplicated", "late", "reordered", "unread"), 7)
    _print_report([{"topic": "orders", "hour": "2026-01-01 00:00:00", **counts}])
    assert capsys.readouterr().out.splitlines()[1].split() == ["orders", "2026-01-01", "00:00:00", *["7"] * 7]
