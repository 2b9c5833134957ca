"""The page that walks one message through the tree counts as the command counts."""

import re
from pathlib import Path

import pytest

from benchmarks.versus.walk import walks

PAGE = Path(__file__).parents[3] / "docs" / "internals" / "life-of-a-message.md"
ROWS = {"send": "a send inside the broker", "consume": "a message inside the client, to the handler"}
NEAR = 3
"""Calls and files by which a walk may differ: what a timer does meanwhile cannot always be told apart."""


@pytest.mark.parametrize("what", ROWS)
def test_the_page_counts_as_the_command(what: str) -> None:
    steps = min(filter(None, walks(what)), key=len)
    row = next(line for line in PAGE.read_text().splitlines() if line.startswith(f"| {ROWS[what]}"))
    calls, files = map(int, re.findall(r"(\d+) calls in (\d+) files", row)[-1])
    assert abs(len(steps) - calls) <= NEAR, f"the walk has {len(steps)} calls now; write it into {PAGE.name}"
    assert abs(len({step.file for step in steps}) - files) <= NEAR
