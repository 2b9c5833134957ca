import subprocess
import sys
from pathlib import Path

import pytest

from judges.install.cache import Artifact, cache_root


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FIREARROW_CACHE", str(tmp_path))


def artifact(made: list[str], inputs: tuple[str, ...] = ("one",), *, fails: bool = False) -> Artifact:
    def build(directory: Path, _log: Path) -> None:
        made.append(directory.name)
        (directory / "half").write_text("x")
        if fails:
            raise RuntimeError("no network")

    return Artifact("thing", inputs, build)


def test_made_once() -> None:
    made: list[str] = []
    first = artifact(made).install()
    assert artifact(made).install() == first
    assert len(made) == 1
    assert (first / "half").exists()


def test_other_inputs_make_another() -> None:
    made: list[str] = []
    assert artifact(made).install() != artifact(made, ("two",)).install()
    assert len(made) == 2


def test_inputs_cannot_be_confused_by_joining() -> None:
    assert artifact([], ("ab", "c")).path != artifact([], ("a", "bc")).path


def test_a_failed_build_leaves_nothing_and_can_be_tried_again() -> None:
    made: list[str] = []
    with pytest.raises(RuntimeError, match="no network"):
        artifact(made, fails=True).install()
    assert not artifact(made).installed
    assert [path.name for path in cache_root().iterdir() if path.is_dir()] == []
    artifact(made).install()


RACE = """
import sys, pathlib
from judges.install.cache import Artifact
def build(directory, log):
    with open(sys.argv[1], "a") as record:
        record.write("made\\n")
    for n in range(200):
        (directory / str(n)).write_text("x")
path = Artifact("race", ("x",), build).install()
assert len(list(path.iterdir())) == 200
"""


def test_processes_that_race_make_it_once(tmp_path: Path) -> None:
    record = tmp_path / "record"
    racers = [subprocess.Popen([sys.executable, "-c", RACE, str(record)]) for _ in range(3)]
    assert [racer.wait(30) for racer in racers] == [0, 0, 0]
    assert record.read_text() == "made\n"
