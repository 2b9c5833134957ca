"""The READMEs' blocks do what they say, one after the other, in an empty directory."""

import re
from pathlib import Path

import pytest

from tests.scenario.blocks import ROOT, SAID, Reader, blocks

PAGES = ("README.md", "README.zh-CN.md")
VARYING = re.compile(
    r"\d{4}-\d\d-\d\dT[\d:.]+Z|\b[0-9A-F]{32}\b|\d+\.\d+ s\b|127\.0\.0\.1:\d+|/\S*firearrow-dev-\w+|dev:\d+@\d+"
)
"""Times, ids, durations, addresses, directories and queues: another run has others."""
OUTPUTS = 3
"""Blocks with the output of the block before them; the fourth is Spark's (tests/spark)."""


@pytest.mark.parametrize("page", PAGES)
def test_the_five_minute_start(page: str, tmp_path: Path) -> None:
    with Reader(tmp_path) as reader:
        output = reader.read(ROOT / page)
    for line in SAID:
        assert line in output
    printed = VARYING.sub("*", (tmp_path / "dev.log").read_text() + output)
    shown = [block.text for block in blocks(ROOT / page) if block.language == "text"][:OUTPUTS]
    assert len(shown) == OUTPUTS
    for line in "".join(shown).splitlines():  # messages of two queues come in any order
        assert VARYING.sub("*", line) in printed
