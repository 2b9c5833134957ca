"""Commands run as users run them, as processes."""

import os
import subprocess
import sys
from typing import Any

import msgspec

MAIN = "import sys; from firearrow.cli import main; sys.exit(main())"
SECONDS = 120


class CommandFailed(AssertionError):
    """A command ended with another status than 0."""


class Commands:
    """``firearrow`` at one cluster."""

    def __init__(self, name_server: str) -> None:
        self.environment = {**os.environ, "FIREARROW_NAMESRV": name_server, "COLUMNS": "200"}

    def process(self, *words: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        """Run one to its end, whatever comes of it."""
        return subprocess.run(
            [sys.executable, "-c", MAIN, *words],
            env=self.environment,
            input=stdin,
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )

    def __call__(self, *words: str, stdin: str = "") -> str:
        """Return the output of a command; it must succeed."""
        ran = self.process(*words, stdin=stdin)
        if ran.returncode:
            raise CommandFailed(f"firearrow {' '.join(words)}: {ran.returncode}\n{ran.stdout}\n{ran.stderr}")
        return ran.stdout

    def fails(self, *words: str, stdin: str = "") -> str:
        """Return the error text of a command that must not succeed."""
        ran = self.process(*words, stdin=stdin)
        assert ran.returncode == 1, f"{ran.returncode}\n{ran.stdout}\n{ran.stderr}"
        assert "Traceback" not in ran.stderr
        return ran.stderr

    def json(self, *words: str) -> Any:
        """Return the decoded output of a command with ``--json``."""
        return msgspec.json.decode(self(*words, "--json"))

    def json_lines(self, *words: str, stdin: str = "") -> list[Any]:
        """The same for commands that print a line each."""
        return [msgspec.json.decode(line) for line in self(*words, "--json", stdin=stdin).splitlines()]
