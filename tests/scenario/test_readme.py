"""The READMEs' blocks do what they say, one after the other, in an empty directory."""

from pathlib import Path

import pytest

from tests.scenario.blocks import ROOT, SAID, Reader

PAGES = ("README.md", "README.zh-CN.md")


@pytest.mark.parametrize("page", PAGES)
def test_the_five_minute_start(page: str, tmp_path: Path) -> None:
    with Reader(tmp_path) as reader:
        output = reader.read(ROOT / page)
    for line in SAID:
        assert line in output
