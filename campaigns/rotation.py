"""Which cells of a large matrix this run takes.

A run with ``pytest --slice`` takes one of ``FILE_SLICES`` slices of the test files, and the next commit takes the next.
A test with more cells than fit into one run takes a part of them, and other cells once all files have had their turn.
So every cell comes round. The number of commits on the checked-out branch chooses, or ``TEST_TURN``;
``TEST_TURN=all`` takes every file and every cell. (Commands warn of variables with our prefix that they do not know.)
"""

import os
import subprocess
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import TypeVar

_Cell = TypeVar("_Cell")
FILE_SLICES = 4


@cache
def commits() -> int | None:
    """The number of commits up to this one, or what ``TEST_TURN`` says; None when everything is to run."""
    told = os.environ.get("TEST_TURN")
    if told == "all":
        return None
    if told:
        return int(told)
    counted = subprocess.run(
        ["git", "rev-list", "--count", "HEAD"], cwd=Path(__file__).parent, capture_output=True, text=True, check=False
    )
    return int(counted.stdout) if counted.returncode == 0 else 0


def turn() -> int | None:
    """The number that picks the cells of this run; None when everything is to run."""
    count = commits()
    return None if count is None else count // FILE_SLICES


def files_in_turn(files: Iterable[str]) -> set[str]:
    """The test files of this run's slice."""
    count, ordered = commits(), sorted(set(files))
    return set(ordered if count is None else ordered[count % FILE_SLICES :: FILE_SLICES])


def in_turn(cells: Sequence[_Cell], count: int, turn: int | None) -> list[_Cell]:
    """``count`` of the cells for this turn, going round so that consecutive turns cover all of them."""
    if turn is None or count >= len(cells):
        return list(cells)
    first = turn * count % len(cells)
    return [cells[(first + step) % len(cells)] for step in range(count)]


def this_turn(cells: Sequence[_Cell], count: int) -> list[_Cell]:
    """``count`` of the cells for the commit that is checked out."""
    return in_turn(cells, count, turn())
