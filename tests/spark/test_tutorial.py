"""The tutorial from topic to table does what it says, block by block."""

from pathlib import Path

import pytest

from tests.scenario.blocks import ROOT, Reader


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
