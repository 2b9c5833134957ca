"""The choice of the test files and cells that a run takes.

A run with ``pytest --slice`` takes a part of the test files, and a test with many cells takes a part of its cells.
Every file and every list of cells has an index of its own, made from its name, and the turn of a commit chooses by that
index alone: no list goes round inside another. In a full clone the turn is the number of commits, so each file comes
round within ``FILES_WITHIN`` consecutive commits and each cell within ``CELLS_WITHIN``, if every commit is run. Commits
that are submitted together are run once, at the newest, and the turns of the others are passed over: runs that always
come after 8 commits take the same files each time. No run knows which commits were run before it, so only
``TEST_TURN=all`` is sure to take everything. A shallow clone does not know the number of commits: there the turn is of
the commit's hash, changes with every commit, and takes each cell with a chance of 1 in ``CELLS_WITHIN``: no bound.

``TEST_TURN=7`` names the turn, ``TEST_TURN=all`` takes every file and every cell. (Commands warn of variables with our
prefix that they do not know.) ``python -m campaigns.rotation`` prints the turn.
"""

import os
import subprocess
from collections.abc import Iterable, Sequence
from enum import Enum
from functools import cache
from pathlib import Path
from typing import TypeVar
from zlib import crc32

from campaigns.importers import files_that_use, is_test_file

_Cell = TypeVar("_Cell")
ROOT = Path(__file__).parent.parent
FILES_WITHIN = 8
"""Consecutive commits in which every test file has its turn."""
CELLS_WITHIN = 8
"""Consecutive commits in which every cell has its turn."""
CHANGED_WITHIN_S = 12 * 3600
"""Changes of test files count as new for this long: a run judges all commits that were submitted together."""


@cache
def turn() -> int | None:
    """The turn of the commit that is checked out, or what ``TEST_TURN`` says; None when everything is to run."""
    told = os.environ.get("TEST_TURN")
    if told == "all":
        return None
    return int(told) if told else turn_of(ROOT)


def turn_of(repository: Path) -> int:
    """The turn of the commit that is checked out in a repository: 0 where there is no repository."""
    if _git(repository, "rev-parse", "--is-shallow-repository") == "true":
        return int(_git(repository, "rev-parse", "HEAD")[:12], 16)
    return int(_git(repository, "rev-list", "--count", "HEAD") or 0)


@cache
def changed_files() -> tuple[str, ...]:
    """Test files that are new or changed in this tree; none when ``TEST_TURN`` names the turn."""
    return () if os.environ.get("TEST_TURN") else tuple(changed_in(ROOT))


def changed_in(repository: Path) -> list[str]:
    """Test files of a repository that its newest commits or its work tree changed, the newest change first.

    Files that were not added to the repository yet count as changed. Behind the changed test files come those that use
    a changed module of the tests, a helper or a ``conftest.py``: see `importers`.

    A commit of a shallow clone whose parent is missing counts as unchanged: nobody can say what it changed.
    """
    newest_s = int(_git(repository, "log", "-1", "--format=%ct") or 0)
    since = ("--no-merges", f"--since={newest_s - CHANGED_WITHIN_S}", "--name-only", "--format=")
    paths = [
        *_git(repository, "diff", "--name-only", "HEAD", "--", "tests").splitlines(),
        *_git(repository, "ls-files", "--others", "--exclude-standard", "--", "tests").splitlines(),
        *_git(repository, "-c", "log.showRoot=false", "log", *since, "--", "tests").splitlines(),
    ]
    modules = [path for path in dict.fromkeys(paths) if path.endswith(".py")]
    tests = [path for path in modules if is_test_file(path) and (repository / path).exists()]
    return list(dict.fromkeys([*tests, *files_that_use(repository, modules)])) if modules else []


def _git(repository: Path, *words: str) -> str:
    ran = subprocess.run(["git", *words], cwd=repository, capture_output=True, text=True, check=False)
    return ran.stdout.strip() if ran.returncode == 0 else ""


def files_in_turn(files: Iterable[str], number: int | None) -> set[str]:
    """The test files whose turn it is, by their paths in the tree."""
    return {file for file in files if number is None or (crc32(file.encode()) + number) % FILES_WITHIN == 0}


def in_turn(
    cells: Sequence[_Cell], name: str, number: int | None, within: int = CELLS_WITHIN, *, least: int = 0
) -> list[_Cell]:
    """The cells of the list ``name`` whose turn it is: each once in ``within`` turns, and ``least`` in every turn."""
    if number is None:
        return list(cells)
    first = (crc32(name.encode()) + number) % within
    wait = [(position - first) % within for position in range(len(cells))]
    soonest = sorted(range(len(cells)), key=lambda position: (wait[position], position))
    taken = soonest[: max(least, wait.count(0))]
    return [cells[position] for position in sorted(taken)]


class Share(Enum):
    """The cells that a run takes of each list."""

    IN_TURN = "in turn"
    """Those in turn, maybe none: ``--slice``."""
    AT_LEAST_ONE = "at least one"
    """Those in turn, or the next one: a run that names its files."""
    CHANGED = "changed"
    """The next one of a list in a changed file that has none in turn: ``--changed``."""


class Chosen:
    """The share that this process takes; the test runner sets it before it imports test modules."""

    share = Share.AT_LEAST_ONE


def this_turn(cells: Sequence[_Cell], module: str, within: int = CELLS_WITHIN) -> list[_Cell]:
    """The cells of a test module (``__name__``) for the checked-out commit.

    Tests of these cells are marked ``rotating``, so that ``--slice`` does not choose among their files as well.
    """
    regular = in_turn(cells, module, turn(), within)
    if Chosen.share is Share.IN_TURN:
        return regular
    if Chosen.share is Share.CHANGED and (regular or f"{module.replace('.', '/')}.py" not in changed_files()):
        return []
    return in_turn(cells, module, turn(), within, least=1)


if __name__ == "__main__":
    number = turn()
    print("all" if number is None else number)  # noqa: T201
