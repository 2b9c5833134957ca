"""What a new user does: an empty virtual environment, then README's blocks, from ``pip install`` to a consumed message.

    python -m tests.scenario.newuser dist/firearrow-*.whl

Fails above ``LIMIT_SECONDS``, or when a block does not do what it says.
"""

import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.scenario.blocks import ROOT, SAID, Reader

LIMIT_SECONDS = 300.0
NAMED = "'firearrow[server]'"


def walk(wheel: Path, directory: Path) -> float:
    """Do it; return the seconds from the first command to the last."""
    environment = directory / "environment"
    begun = time.monotonic()
    subprocess.run([sys.executable, "-m", "venv", str(environment)], check=True)
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


def main() -> None:
    """Walk, and print the time."""
    wheel = Path(sys.argv[1]).resolve()
    with tempfile.TemporaryDirectory(prefix="firearrow-new-user-") as directory:
        seconds = walk(wheel, Path(directory))
    print(f"a new user, from an empty environment to consumed messages: {seconds:.1f} s (limit {LIMIT_SECONDS:g} s)")
    assert seconds < LIMIT_SECONDS, "the first five minutes take longer than that"


if __name__ == "__main__":
    main()
