"""The tutorial from topic to table and the Spark block of the README do what they say."""

from pathlib import Path

import pytest

from tests.scenario.blocks import ROOT, Block, Reader, blocks


@pytest.mark.timeout(600)
def test_from_topic_to_table(tmp_path: Path) -> None:
    environment = {"PYTHONWARNINGS": "default", "SPARK_LOCAL_IP": "127.0.0.1"}
    with Reader(tmp_path) as reader:
        reader.environment.update(environment)
        said = reader.read(ROOT / "docs" / "tutorial" / "topic-to-table.md")
    assert "archive-bronze" in said
    for line in ("cake 66", "espresso 67", "tea 67", "201 messages", "this is no order - the body is not JSON"):
        assert line in said
    assert "dry run: nothing was sent" in said
    assert "FIREARROW_REPLAY" in said


@pytest.mark.timeout(600)
def test_the_readme_shows_the_table_that_spark_prints(tmp_path: Path) -> None:
    parts = blocks(ROOT / "README.md")
    place = next(number for number, block in enumerate(parts) if block.language == "py")
    with Reader(tmp_path) as reader:
        reader.read(ROOT / "README.md")
        reader.environment["SPARK_LOCAL_IP"] = "127.0.0.1"
        reader.run(Block("python", "table.py", parts[place].text))
    assert parts[place + 1].language == "text"
    assert parts[place + 1].text in reader.output
