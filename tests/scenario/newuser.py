"""The first steps of a new user: an empty virtual environment, then README's blocks, from ``pip install`` to a consumed
message.

    python -m tests.scenario.newuser dist/firearrow-*.whl [python3.12 python3.13 ...]

Once with every interpreter that is named, else with the one that runs this. Fails above ``LIMIT_SECONDS``, or when a
block does not do what it says. Afterwards a user's project is held to ``mypy --strict`` against what was installed
there, by the mypy of whoever runs this.
"""

import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.scenario.blocks import ROOT, SAID, Reader

LIMIT_SECONDS = 300.0
NAMED = "'firearrow[server]'"


def walk(wheel: Path, directory: Path, python: str) -> float:
    """Do it; return the seconds from the first command to the last."""
    environment = directory / "environment"
    begun = time.monotonic()
    subprocess.run([python, "-m", "venv", str(environment)], check=True)
    desk = directory / "desk"
    desk.mkdir()

    def install(command: str) -> str:
        assert NAMED in command, "README does not say how to install"
        return command.replace(NAMED, f"'{wheel}[server]'")

    pinned = {"PIP_CONSTRAINT": str(ROOT / "constraints.txt"), "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    with Reader(desk, environment / "bin", install, pinned) as reader:
        output = reader.read(ROOT / "README.md")
    for line in SAID:
        assert line in output, f"nobody said {line!r}:\n{output}"
    return time.monotonic() - begun


def check_types(directory: Path) -> None:
    """A project written against the installed wheel is typed."""
    python, cache = directory / "environment" / "bin" / "python", directory / "cache"
    words = ["--strict", "--explicit-package-bases", "--config-file", ""]
    where = ["--python-executable", str(python), "--cache-dir", str(cache)]
    modules = ["tests/scenario/user_project/shop.py"]
    subprocess.run([sys.executable, "-m", "mypy", *words, *where, *modules], cwd=ROOT, check=True)


def main() -> None:
    """Walk, and print the time."""
    wheel = Path(sys.argv[1]).resolve()
    for word in sys.argv[2:] or [sys.executable]:
        python = f"python{word}" if word[0].isdigit() else word
        with tempfile.TemporaryDirectory(prefix="firearrow-new-user-") as directory:
            seconds = walk(wheel, Path(directory), python)
            check_types(Path(directory))
        what = "a new user, from an empty environment to consumed messages"
        print(f"{Path(python).name}: {what}: {seconds:.1f} s (limit {LIMIT_SECONDS:g} s)")
        assert seconds < LIMIT_SECONDS, "the first five minutes take longer than that"


if __name__ == "__main__":
    main()
