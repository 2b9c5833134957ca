"""The load: Apache's benchmark programs of rocketmq-example 5.5.0, and a small Java program of ours for the rest.

Apache's programs write their headers in the compact encoding, ours leaves the client at its default, which is JSON.
Every client gets a JVM of its own with the same flags, whomever it talks to.
"""

import re
import tempfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Self

from judges.install import artifacts
from judges.install.cache import Artifact
from judges.install.toolchain import run_tool, tool
from judges.process import Child

EXAMPLES_VERSION = "5.5.0"
CLIENT_FLAGS = ("-Xms1g", "-Xmx1g", "-XX:+UseG1GC")
_PACKAGE = "org.apache.rocketmq.example.benchmark"
_SOURCE = Path(__file__).parent / "java" / "Load.java"
_LATENCIES = re.compile(r"^latency_us((?: \d+)*)$")
_FAILED = re.compile(r"Send Failed: (\d+) \| Response Failed: (\d+)|failed (\d+)")


@cache
def example_jars() -> Artifact:
    """The jars of Apache's example programs."""
    return artifacts._jars("examples", ("example",), EXAMPLES_VERSION)


@cache
def load_classes() -> Artifact:
    """Our program, compiled against those."""
    source = _SOURCE.read_bytes()

    def build(directory: Path, log: Path) -> None:
        (directory / "Load.java").write_bytes(source)
        words = ["javac", "--release", artifacts.JAVA_RELEASE, "-nowarn", "-proc:none", "-d", "."]
        run_tool([*words, "-cp", f"{example_jars().install()}/*", "Load.java"], directory, log)

    return artifacts._artifact("load", (source, example_jars().path.name), build)


def words_of(program: str, arguments: Sequence[str], home: Path) -> list[str]:
    """The command of a client: ``Load``, or a benchmark program by its name."""
    main = program if program == "Load" else f"{_PACKAGE}.{program}"
    path = f"{load_classes().install()}:{example_jars().install()}/*"
    return [tool("java"), *CLIENT_FLAGS, f"-Duser.home={home}", "-cp", path, main, *arguments]


class Client:
    """One running client; leaving the block kills it."""

    def __init__(self, program: str, arguments: Sequence[str]) -> None:
        self._home = tempfile.TemporaryDirectory(prefix="firearrow-client-")
        self._log = Path(self._home.name) / "output.log"
        self._child = Child(words_of(program, arguments, Path(self._home.name)), self._log)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._child.kill()
        self._home.cleanup()

    @property
    def pid(self) -> int:
        """For measuring."""
        return self._child.pid

    def check(self) -> None:
        """Raise when it has ended."""
        if not self._child.alive:
            raise RuntimeError(f"the client ended:\n{self.output()[-2000:]}")

    def output(self) -> str:
        """Everything it has printed."""
        return self._log.read_text(errors="replace")

    def failed(self) -> int:
        """Return the number of failed sends that it has reported so far."""
        found = [sum(int(part) for part in match.groups() if part) for match in _FAILED.finditer(self.output())]
        return found[-1] if found else 0

    def latencies_us(self) -> list[int]:
        """Every latency it has printed."""
        found = [match.group(1) for match in map(_LATENCIES.match, self.output().splitlines()) if match]
        return [int(value) for line in found for value in line.split()]
