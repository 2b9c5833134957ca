"""A slice of ``benchmarks.size``: what costs the same on a large broker as on a small one.

Bytes and the broker's CPU are compared, never time: other work on the machine hardly changes them.
"""

import json
import subprocess
import sys
from pathlib import Path

import pytest

SLICE = ["--scale", "0.02", "--patience", "0.03"]
ATTEMPTS = 2
ROWS = {"topics": 4, "offsets": 2}
LEAST = {"KiB": 64.0, "ms": 30.0}
"""Below this nothing is wrong, whatever the small broker's figure."""
TIMES = 3.0

Figure = tuple[float, float, str]


def _is_robust(what: str) -> bool:
    return "written" in what or what.endswith("longest hold, CPU")


def _is_too_much(figure: Figure) -> bool:
    small, large, unit = figure
    return large > max(TIMES * small, LEAST[unit])


@pytest.mark.parametrize("part", ROWS)
def test_a_large_broker_costs_what_a_small_one_does(part: str, tmp_path: Path) -> None:
    broken, said = ["nothing was measured"], ""
    for number in range(ATTEMPTS):
        ledger = tmp_path / f"{number}.jsonl"
        words = [sys.executable, "-m", "benchmarks.size", part, *SLICE, "--ledger", str(ledger)]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        said = done.stdout
        assert ledger.exists(), done.stderr
        figures = json.loads(ledger.read_text())["figures"]
        robust = {what: tuple(figure) for what, figure in figures.items() if _is_robust(what)}
        assert len(robust) == ROWS[part], said
        broken = [what for what, figure in robust.items() if _is_too_much(figure)]
        if not broken:
            return
    raise AssertionError(f"{broken}\n{said}")
