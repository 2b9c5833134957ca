"""Which cells of a large matrix this run takes.

A suite with more cells than fit into one run takes a slice of them, and the next commit takes the next slice, so that
every cell comes round. The turn is the number of commits on the checked-out branch, or ``FIREARROW_TURN``;
``FIREARROW_TURN=all`` takes every cell.
"""

import os
import subprocess
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import TypeVar

_Cell = TypeVar("_Cell")
LONG_RUNS = ("soak", "hostile", "size")
"""Runs of minutes: each commit takes one of them."""


@cache
def turn() -> int | None:
    """The number that picks the slice of this run; None when everything is to run."""
    told = os.environ.get("FIREARROW_TURN")
    if told == "all":
        return None
    if told:
        return int(told)
    counted = subprocess.run(
        ["git", "rev-list", "--count", "HEAD"], cwd=Path(__file__).parent, capture_output=True, text=True, check=False
    )
    return int(counted.stdout) if counted.returncode == 0 else 0


def in_turn(cells: Sequence[_Cell], count: int, turn: int | None) -> list[_Cell]:
    """``count`` of the cells for this turn, going round so that consecutive turns cover all of them."""
    if turn is None or count >= len(cells):
        return list(cells)
    first = turn * count % len(cells)
    return [cells[(first + step) % len(cells)] for step in range(count)]


def this_turn(cells: Sequence[_Cell], count: int) -> list[_Cell]:
    """``count`` of the cells for the commit that is checked out."""
    return in_turn(cells, count, turn())


def is_in_turn(cell: _Cell, cells: Sequence[_Cell], count: int = 1) -> bool:
    """Whether the commit that is checked out takes this cell."""
    return cell in this_turn(cells, count)
