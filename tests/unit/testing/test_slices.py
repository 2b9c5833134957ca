"""The tests that ``--slice`` and ``--changed`` take, by collecting test directories as CI does."""

import os
import re
import subprocess
import sys
from pathlib import Path

from campaigns.rotation import CELLS_WITHIN, FILES_WITHIN, files_in_turn

ROOT = Path(__file__).parents[3]
FOLDER = "tests/integration/store"
TURNS = range(952, 952 + CELLS_WITHIN)
CONFTEST = """
from pathlib import Path
from tests import slices
pytest_plugins = ["tests.slices"]
slices.ROOT = Path(__file__).parent
slices.turn = lambda: {turn}
slices.changed_files = lambda: ("test_b.py", "test_a.py", "test_cells.py", "test_gone.py")
"""
FILE = """
import time
import pytest
def test_first(): time.sleep({takes_s})
def test_second(): pass
"""
CELLS = """
import pytest
@pytest.mark.rotating
def test_cell(): pass
"""


def pytest_at(directory: Path, *words: str, **environment: str) -> str:
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-p",
        "no:cacheprovider",
        "-o",
        "addopts=--import-mode=importlib",
        *words,
    ]
    settings = {**os.environ, "PYTHONPATH": str(ROOT), **environment}
    done = subprocess.run(command, cwd=directory, env=settings, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-2_000:] + done.stderr
    return done.stdout


def collected(turn: int | str) -> set[str]:
    said = pytest_at(ROOT, "--slice", "--collect-only", "-q", FOLDER, TEST_TURN=str(turn))
    return {line for line in said.splitlines() if "::" in line and "NOTSET" not in line}


def test_eight_commits_collect_every_test_and_every_cell() -> None:
    everything = collected("all")
    by_turn = [collected(turn) for turn in TURNS]
    assert set().union(*by_turn) == everything
    assert all(len(taken) < len(everything) for taken in by_turn)


def test_every_module_that_takes_turns_marks_its_tests() -> None:
    texts = {path: path.read_text() for path in (ROOT / "tests").rglob("test_*.py")}
    modules = [path for path, text in texts.items() if "rotation import this_turn" in text]
    assert len(modules) > 20
    unmarked = [str(path.relative_to(ROOT)) for path in modules if "pytest.mark.rotating" not in texts[path]]
    assert unmarked == [], "--slice would choose among these files and their cells: a cell might never run"


def tree(directory: Path, turn: int, takes_s: float = 0.0) -> Path:
    (directory / "conftest.py").write_text(CONFTEST.format(turn=turn))
    (directory / "pytest.ini").write_text("[pytest]\nmarkers =\n    rotating: has its own turns\n")
    for name in "abcdefgh":
        (directory / f"test_{name}.py").write_text(FILE.format(takes_s=takes_s))
    (directory / "test_cells.py").write_text(CELLS)
    return directory


def test_changed_files_run_that_are_not_in_turn_the_newest_change_first(tmp_path: Path) -> None:
    turn = next(turn for turn in range(4) if not files_in_turn(["test_a.py", "test_b.py"], turn))
    taken = pytest_at(tree(tmp_path, turn), "--changed", "60", "--collect-only", "-q", ".")
    plain = [f"test_{name}.py::test_{number}" for name in "ba" for number in ("first", "second")]
    assert re.findall(r"test_\w+\.py::\w+", taken) == [*plain, "test_cells.py::test_cell"]
    assert "test_cells.py::test_cell" in pytest_at(tmp_path, "--slice", "--collect-only", "-q", ".")


def test_changed_files_that_are_in_turn_are_not_run_twice(tmp_path: Path) -> None:
    turn = next(
        turn
        for turn in range(FILES_WITHIN)
        if files_in_turn(["test_a.py"], turn) and not files_in_turn(["test_b.py"], turn)
    )
    taken = pytest_at(tree(tmp_path, turn), "--changed", "60", "--collect-only", "-q", ".")
    assert "test_b.py" in taken
    assert "test_a.py" not in taken


def test_changed_tests_beyond_the_time_are_named_as_not_run(tmp_path: Path) -> None:
    turn = next(turn for turn in range(4) if not files_in_turn(["test_a.py", "test_b.py"], turn))
    said = pytest_at(tree(tmp_path, turn, takes_s=0.2), "--changed", "0.1", "-rs", ".")
    assert "1 passed, 4 skipped" in said
    _, _, named = said.partition("changed, but not run: the time for changed test files is over")
    assert "test_b.py::test_second" in named
    assert "test_b.py::test_first" not in named


def test_nothing_changed_is_no_failure(tmp_path: Path) -> None:
    pytest_at(tree(tmp_path, 0), "--changed", "60", "test_h.py")
