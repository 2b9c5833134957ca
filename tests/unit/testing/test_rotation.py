"""Every test file and every cell comes round, in a full clone within a bound; a changed file runs at once."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from campaigns.rotation import (
    CELLS_WITHIN,
    CHANGED_WITHIN_S,
    FILES_WITHIN,
    Chosen,
    Share,
    changed_files,
    changed_in,
    files_in_turn,
    in_turn,
    this_turn,
    turn,
    turn_of,
)

ROOT = Path(__file__).parents[3]
COMMITS = range(1_000)
STEPS = range(48)


def test_every_file_and_cell_comes_round_within_eight_commits_of_a_thousand() -> None:
    files = [str(path.relative_to(ROOT)) for path in sorted((ROOT / "tests").rglob("test_*.py"))]
    assert len(files) > 100
    lists = [(file, size) for file, size in zip(files, (1, 2, 3, 8, 24, 50) * 4, strict=False)]
    last: dict[object, int] = {}
    for commit in COMMITS:
        cells = {(name, size, cell) for name, size in lists for cell in in_turn(range(size), name, commit)}
        for what in (*files_in_turn(files, commit), *cells):
            limit = FILES_WITHIN if isinstance(what, str) else CELLS_WITHIN
            assert commit - last.get(what, -1) <= limit, f"{what} was not run between {last.get(what)} and {commit}"
            last[what] = commit
    assert len(last) == len(files) + sum(size for _, size in lists), "something never runs"
    assert min(last.values()) >= COMMITS[-CELLS_WITHIN], "something stopped coming round"


@given(size=st.integers(0, 60), name=st.text(), first=st.integers(0, 1 << 48), within=st.integers(1, 8))
def test_consecutive_turns_take_every_cell_once(size: int, name: str, first: int, within: int) -> None:
    turns = [in_turn(range(size), name, first + step, within) for step in range(within)]
    assert sorted(cell for cells in turns for cell in cells) == list(range(size))
    assert max(map(len, turns)) - min(map(len, turns)) <= 1, "a turn takes its share and no more"


@given(size=st.integers(1, 60), name=st.text(), number=st.integers(0, 10_000))
def test_a_turn_takes_at_least_as_many_as_asked(size: int, name: str, number: int) -> None:
    assert len(in_turn(range(size), name, number, least=1)) >= 1
    assert in_turn(range(size), name, None) == list(range(size))


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    turn.cache_clear()
    changed_files.cache_clear()
    yield monkeypatch
    monkeypatch.undo()
    turn.cache_clear()
    changed_files.cache_clear()


def test_the_environment_chooses(told: pytest.MonkeyPatch) -> None:
    told.setattr(Chosen, "share", Share.IN_TURN)
    told.setenv("TEST_TURN", "16")
    assert this_turn(range(16), "tests.a.test_it") == in_turn(range(16), "tests.a.test_it", 16)
    turn.cache_clear()
    told.setenv("TEST_TURN", "all")
    assert this_turn(range(16), "tests.a.test_it") == list(range(16))
    assert files_in_turn(["a", "b"], turn()) == {"a", "b"}


class Repository:
    """A repository whose commits have fixed times, so that their hashes are the same in every run."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.mkdir()
        self.git("init", "-q", "-b", "main")

    def git(self, *words: str, at_s: int = 0) -> str:
        when = f"@{1_700_000_000 + at_s} +0000"
        who = {
            "GIT_AUTHOR_NAME": "a",
            "GIT_AUTHOR_EMAIL": "a@b",
            "GIT_COMMITTER_NAME": "a",
            "GIT_COMMITTER_EMAIL": "a@b",
        }
        # A commit hook runs tests with the repository of its commit in the environment.
        kept = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
        environment = {**kept, **who, "GIT_AUTHOR_DATE": when, "GIT_COMMITTER_DATE": when}
        done = subprocess.run(
            ["git", *words], cwd=self.path, env=environment, capture_output=True, text=True, check=True
        )
        return done.stdout.strip()

    def commit(self, at_s: int, **files: str) -> None:
        for name, text in files.items():
            path = self.path / "tests" / f"{name}.py"
            path.parent.mkdir(exist_ok=True)
            path.write_text(text)
        self.git("add", "-A")
        self.git("commit", "-q", "--allow-empty", "-m", f"Change {at_s}", at_s=at_s)


def test_a_shallow_clone_has_another_turn_at_another_commit(tmp_path: Path) -> None:
    made = Repository(tmp_path / "made")
    turns = []
    for step in STEPS:
        made.commit(step, test_it=str(step))
        assert turn_of(made.path) == step + 1, "a full clone counts its commits"
        shallow = tmp_path / f"shallow-{step}"
        made.git("clone", "-q", "--depth", "1", made.path.as_uri(), str(shallow))
        turns.append(turn_of(shallow))
        assert changed_in(shallow) == [], "nobody can say what the only commit of a clone changed"
    assert len(set(turns)) == len(turns)
    assert {number % CELLS_WITHIN for number in turns} == set(range(CELLS_WITHIN)), "some cells never run"


def test_files_of_the_newest_commits_and_of_the_work_tree_are_changed(tmp_path: Path) -> None:
    made = Repository(tmp_path / "made")
    made.commit(0, helper="0")
    made.commit(1, test_old="1", test_again="1", test_gone="1")
    made.commit(CHANGED_WITHIN_S, test_first="1", test_gone="2", helper="1")
    made.commit(CHANGED_WITHIN_S + 60, test_again="2")
    made.git("rm", "-q", "tests/test_gone.py")
    made.commit(CHANGED_WITHIN_S + 61)
    (made.path / "tests" / "test_first.py").write_text("not committed yet")
    assert changed_in(made.path) == ["tests/test_first.py", "tests/test_again.py"]
    assert changed_in(tmp_path) == [], "no repository"


def test_a_new_test_file_that_is_not_added_yet_is_changed(tmp_path: Path) -> None:
    made = Repository(tmp_path / "made")
    made.commit(0, test_old="1")
    made.commit(2 * CHANGED_WITHIN_S)
    (made.path / "tests" / "test_new.py").write_text("1")
    assert changed_in(made.path) == ["tests/test_new.py"]


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ("helper", ["test_near", "test_by_name", "test_far"]),
        ("middle", ["test_far"]),
        ("below/conftest", ["below/test_below"]),
        ("test_near", ["test_near"]),
        ("conftest", ["below/test_below", "test_alone", "test_by_name", "test_far", "test_near"]),
        ("unused", []),
    ],
)
def test_files_that_use_a_changed_module_run_behind_changed_ones(
    tmp_path: Path, changed: str, expected: list[str]
) -> None:
    made = Repository(tmp_path / "made")
    (made.path / "tests" / "below").mkdir(parents=True)
    files = {
        "helper": "",
        "unused": "",
        "conftest": "",
        "middle": "from tests import helper",
        "below/conftest": "",
        "below/test_below": "",
        "test_alone": "import os",
        "test_near": "from tests.helper import it",
        "test_far": "from tests.middle import it",
        "test_by_name": "run('-m', 'tests.helper')",
    }
    made.commit(0, **files)
    made.commit(2 * CHANGED_WITHIN_S, **{changed: "# changed\n" + files[changed]})
    found = changed_in(made.path)
    assert sorted(found) == sorted(f"tests/{name}.py" for name in expected)
    if changed == "helper":
        assert found[-1] == "tests/test_far.py", "the fewest steps first"


@pytest.mark.parametrize("is_changed", [True, False])
def test_a_list_of_a_changed_file_runs_at_least_one_cell_once(told: pytest.MonkeyPatch, is_changed: bool) -> None:
    names = [f"tests.a.test_{number}" for number in range(100)]
    files = [f"tests/a/test_{number}.py" for number in range(100)]
    told.setattr("campaigns.rotation.turn_of", lambda _repository: 5)
    told.setattr("campaigns.rotation.changed_in", lambda _repository: files if is_changed else [])
    told.delenv("TEST_TURN", raising=False)
    taken = {}
    for share in Share:
        told.setattr(Chosen, "share", share)
        taken[share] = [this_turn(["cell"], name) for name in names]
    assert 0 < taken[Share.IN_TURN].count(["cell"]) < 50, "a lone cell has a turn in eight"
    assert taken[Share.AT_LEAST_ONE] == [["cell"]] * 100
    together = [sliced + changed for sliced, changed in zip(taken[Share.IN_TURN], taken[Share.CHANGED], strict=True)]
    assert together == ([["cell"]] * 100 if is_changed else taken[Share.IN_TURN])
