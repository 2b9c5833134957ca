"""Every example runs, and prints what it is about."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.scenario.blocks import ROOT

EXAMPLES = ROOT / "examples"
SAID = {
    "delayed.py": "in order: the one at once, the later one",
    "dead_letters.py": "given up: two\nparsed: [1, 2, 3]",
    "broadcast.py": "first drops price-list\nsecond drops price-list\nthird drops price-list",
    "many_sends.py": "linger 2 ms: 1000 stored",
    "replay.py": "again: after 0, after 1, after 2, after 3, after 4",
    "blocking_worker.py": "handled 10 and left in order",
    "order_and_payment.py": "orders 7 8 9 payments 7 8 9",
}


def test_every_example_is_listed() -> None:
    assert {file.name for file in EXAMPLES.glob("*.py")} == set(SAID)
    text = (EXAMPLES / "README.md").read_text()
    assert all(f"]({name})" in text for name in SAID)


@pytest.mark.parametrize("name", SAID)
def test_an_example_runs(name: str, firearrow_address: str, tmp_path: Path) -> None:
    environment = {**os.environ, "FIREARROW_NAMESRV": firearrow_address, "HOME": str(tmp_path)}
    environment["SHOP_DATABASE"] = str(tmp_path / "shop.db")
    ran = subprocess.run(
        [sys.executable, "-W", "error", str(EXAMPLES / name)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert SAID[name] in ran.stdout


def test_the_tutorial_shows_the_example() -> None:
    page = (ROOT / "docs" / "tutorial" / "order-and-payment.md").read_text()
    assert (EXAMPLES / "order_and_payment.py").read_text() in page
