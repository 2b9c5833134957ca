"""Running the build tools of other languages: found or explained, their output kept, its end shown on failure."""

import os
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from firearrow.errors import FireArrowError

TAIL_LINES = 30

# Pages of these come from the log library of every Java program as it configures itself.
_LOGBACK_STATUS = re.compile(r"^[\d:,]+ \|-(INFO|WARN) in ")

ADVICE = {
    "java": "install a JDK, 17 or newer",
    "javac": "install a JDK, 17 or newer",
    "jcmd": "install a JDK, 17 or newer",
    "mvn": "install Apache Maven",
    "cargo": "install Rust with Cargo, 1.95 or newer",
    "go": "install Go, 1.21 or newer",
    "node": "install Node.js, 18 or newer",
    "npm": "install Node.js with npm",
}


class ToolMissing(FireArrowError):
    """A program that the judges need is not on the path."""


class ToolFailed(FireArrowError):
    """A build tool ended with an error."""


def tool(name: str) -> str:
    """The whole path of a program, or an error that says what to install."""
    found = shutil.which(name)
    if found is None:
        raise ToolMissing(f"{name!r} is not on the path; {ADVICE.get(name, 'install it')}")
    return found


def run_tool(words: Sequence[str], directory: Path, log: Path, environment: Mapping[str, str] | None = None) -> None:
    """Run a program to its end at low priority, its output appended to `log`."""
    command = ["nice", tool(words[0]), *words[1:]]
    with log.open("ab") as output:
        output.write(f"$ {' '.join(words)}\n".encode())
        output.flush()
        done = subprocess.run(
            command,
            cwd=directory,
            env={**os.environ, **(environment or {})},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            check=False,
        )
    if done.returncode != 0:
        raise ToolFailed(f"{' '.join(words)} ended with {done.returncode}; the end of {log}:\n{tail(log)}")


def tail(log: Path, lines: int = TAIL_LINES) -> str:
    """The last lines of a file, for an error message."""
    if not log.exists():
        return f"({log} does not exist)"
    kept = [line for line in log.read_text(errors="replace").splitlines() if not _LOGBACK_STATUS.search(line)]
    return "\n".join(kept[-lines:])
