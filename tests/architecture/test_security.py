"""Every promise of SECURITY.md has a test that is there, and every fault of the table of CVEs can be planted."""

import re
from pathlib import Path

from tests.integration.security import plants, test_planted

ROOT = Path(__file__).parents[2]
ATTACKS = 15
"""Rows that the table has at least."""
_NAMED = re.compile(r"tests/[\w/]+\.py(?:::\w+)?")


def attacks() -> list[str]:
    table = (ROOT / "SECURITY.md").read_text().partition("| attack | defence | test |\n|---|---|---|\n")[2]
    return table.partition("\n\n")[0].splitlines()


def test_every_attack_has_a_test_that_is_there() -> None:
    rows = attacks()
    assert len(rows) >= ATTACKS
    for row in rows:
        named = _NAMED.findall(row)
        assert named or "docs/ledger.jsonl" in row, f"no test stands behind: {row}"
        for test in named:
            path, _, name = test.partition("::")
            assert f"def {name}" in (ROOT / path).read_text(), test


def test_every_fault_of_the_table_is_planted_and_named() -> None:
    page = (ROOT / "docs" / "internals" / "cve-replays.md").read_text()
    planted = {plant.__name__ for plant, *_ in test_planted.PLANTED} | {"shows_secret_keys", "restores_any_name"}
    assert planted == {name for name in planted if f"`{name}`" in page and hasattr(plants, name)}
    for file in re.findall(r"`(test_\w+\.py)`", page):
        assert (ROOT / "tests" / "integration" / "security" / file).exists()
