"""``firearrow pipeline audit`` as it is typed: its table, its page, its plot, its details and how it ends."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from typer.testing import CliRunner

from firearrow.cli import pipeline as commands
from firearrow.cli.jobs import audit_job
from tests.spark.test_transforms import planted

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytest.importorskip("matplotlib")

PNG = b"\x89PNG\r\n\x1a\n"


@pytest.fixture
def words(spark: "SparkSession", tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The command over a set with faults planted; it works in the session of all tests and does not end it."""

    @contextmanager
    def session(*_: object) -> "Iterator[SparkSession]":
        yield spark

    monkeypatch.setattr(audit_job, "session", session)
    receipts, stored = planted(spark)
    receipts.write.parquet(str(tmp_path / "receipts"))
    stored.write.parquet(str(tmp_path / "stored"))
    offsets = tmp_path / "consumerOffset.json"
    offsets.write_text(json.dumps({"offsetTable": {"t@g": {"0": 990}}}))
    return [
        "audit",
        *("--receipts", str(tmp_path / "receipts"), "--format", "parquet", "--location", str(tmp_path / "stored")),
        *("--offsets", str(offsets), "--broker", "b"),
    ]


def test_everything_that_is_asked_for_is_written(words: list[str], spark: "SparkSession", tmp_path: Path) -> None:
    """A picture, a page, every finding; and 1 at the end, since messages were lost."""
    plot, page, details = tmp_path / "audit.png", tmp_path / "audit.html", tmp_path / "details"
    more = ["--plot", str(plot), "--page", str(page), "--details", str(details)]

    done = CliRunner().invoke(commands.pipeline, [*words, *more])

    assert done.exit_code == 1, done.output
    assert done.output.splitlines()[1].split()[-7:] == ["1,000", "1,000", "1", "1", "1", "1", "11"]
    image = plot.read_bytes()
    assert image.startswith(PNG)
    assert len(image) > 10_000
    assert done.output.splitlines()[-1].startswith("audit: 1,000 sent, 1,000 stored, 1 lost, 1 duplicated, 1 late,")
    assert "<svg" in page.read_text()
    assert spark.read.parquet(str(details)).count() == 15


def test_only_the_kinds_that_matter_make_it_fail(words: list[str], tmp_path: Path) -> None:
    """The picture is drawn whatever was found."""
    plot = tmp_path / "audit.png"

    done = CliRunner().invoke(commands.pipeline, [*words, "--fail-on", "", "--plot", str(plot)])

    assert done.exit_code == 0, done.output
    assert plot.read_bytes().startswith(PNG)
