"""A slice of ``benchmarks.size``: what costs the same on a large broker as on a small one.

Bytes and the broker's CPU are compared, never time: other work on the machine hardly changes them.
"""

import json
import subprocess
import sys
from pathlib import Path

import pytest

SLICE = ["--scale", "0.03", "--patience", "0.05"]
ATTEMPTS = 3
ROWS = {"topics": 4, "offsets": 2, "pulls": 1}


def _is_robust(what: str) -> bool:
    return "written" in what or what.endswith("longest hold, CPU")


@pytest.mark.parametrize("part", ROWS)
def test_a_large_broker_costs_what_a_small_one_does(part: str, tmp_path: Path) -> None:
    broken = ["nothing was measured"]
    for number in range(ATTEMPTS):
        ledger = tmp_path / f"{number}.jsonl"
        words = [sys.executable, "-m", "benchmarks.size", part, *SLICE, "--ledger", str(ledger)]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        assert ledger.exists(), done.stderr
        found = json.loads(ledger.read_text())
        assert sum(map(_is_robust, found["figures"])) == ROWS[part], done.stdout
        broken = [what for what in found["broken"] if _is_robust(what)]
        if not broken:
            return
    raise AssertionError(f"{broken}\n{done.stdout}")
