"""The same seed tells the same story, in every process and on every Python at hand."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.simulation.doors.story import tell

ROOT = Path(__file__).parents[3]


def pythons() -> list[str]:
    """Return this Python and those of the other supported versions that can be found."""
    found = {f"{sys.version_info.major}.{sys.version_info.minor}": sys.executable}
    versions = Path(os.environ.get("PYENV_ROOT", str(Path.home() / ".pyenv"))) / "versions"
    for minor in (11, 12, 13):
        name = f"3.{minor}"
        built = sorted(versions.glob(f"{name}.*/bin/python"))
        candidate = str(built[-1]) if built else shutil.which(f"python{name}")
        if candidate is not None:
            found.setdefault(name, candidate)
    return list(found.values())


def told_by(python: str, hash_seed: str) -> str:
    environment = {"PYTHONHASHSEED": hash_seed, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}", "PATH": os.environ["PATH"]}
    command = [python, "-m", "tests.simulation.doors.story", "3", "4"]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    if "No module named" in done.stderr:
        pytest.skip(f"{python}: {done.stderr.splitlines()[-1]}")
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_same_seed_tells_the_same_story() -> None:
    assert tell(5) == tell(5)


def test_other_seeds_tell_other_stories() -> None:
    assert len({tell(seed) for seed in range(10)}) == 10


@pytest.mark.parametrize("hash_seed", ["0", "1", "4242"])
def test_hash_seeds_change_nothing(hash_seed: str) -> None:
    assert told_by(sys.executable, hash_seed) == f"{tell(3)}\n{tell(4)}\n"


@pytest.mark.parametrize("python", pythons())
def test_every_python_tells_the_same_story(python: str) -> None:
    assert told_by(python, "7") == f"{tell(3)}\n{tell(4)}\n"
