"""Every example runs, and prints what it is about."""

import difflib
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.scenario.blocks import ROOT
from tests.scenario.postgresql import postgresql

EXAMPLES = ROOT / "examples"
TUTORIAL = ROOT / "docs" / "tutorial" / "order-and-payment.md"
SAID = {
    "delayed.py": "in order: the one at once, the later one",
    "dead_letters.py": "given up: two\nparsed: [1, 2, 3]",
    "broadcast.py": "first drops price-list\nsecond drops price-list\nthird drops price-list",
    "many_sends.py": "linger 2 ms: 1000 stored",
    "replay.py": "again: after 0, after 1, after 2, after 3, after 4",
    "blocking_worker.py": "handled 10 and left in order",
    "order_and_payment.py": "orders 7 8 9 payments 7 8 9",
    "order_and_payment_postgresql.py": "orders 7 8 9 payments 7 8 9",
}


def test_every_example_is_listed() -> None:
    assert {file.name for file in EXAMPLES.glob("*.py")} == set(SAID)
    text = (EXAMPLES / "README.md").read_text()
    assert all(f"]({name})" in text for name in SAID)


@pytest.fixture
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The database that an example gets, if it needs one: a server for PostgreSQL, a file for SQLite."""
    if "postgresql" not in request.node.name:
        yield str(tmp_path / "shop.db")
        return
    with postgresql() as where:
        yield where


@pytest.mark.parametrize("name", SAID)
def test_an_example_runs(name: str, firearrow_address: str, database: str, tmp_path: Path) -> None:
    environment = {**os.environ, "FIREARROW_NAMESRV": firearrow_address, "HOME": str(tmp_path)}
    environment["SHOP_DATABASE"] = database
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
    assert (EXAMPLES / "order_and_payment.py").read_text() in TUTORIAL.read_text()


def test_the_tutorial_shows_what_differs_with_postgresql() -> None:
    sqlite, other = (
        (EXAMPLES / f"{name}.py").read_text().splitlines()
        for name in ("order_and_payment", "order_and_payment_postgresql")
    )
    lines = difflib.unified_diff(sqlite, other, n=0, lineterm="")
    changes = [line for line in lines if line[:3] not in ("---", "+++", "@@ ") and line[1:].strip()]
    shown = re.findall(r"```diff\n(.*?)```", TUTORIAL.read_text(), re.DOTALL)
    assert [line for line in shown[0].splitlines() if line[:1] in ("+", "-")] == changes
