"""The processes of the load, each with a file of records: a stock Java producer, and members of groups, stock and ours.

A member has one life after the other, each with a file of its own, so that what a killed one had received is kept.
"""

import re
import sys
from functools import cache
from pathlib import Path
from typing import Literal

import numpy as np

from benchmarks.soak.records import DELIVERY, NUMBER, Records, Tail
from judges.install import artifacts
from judges.install.cache import Artifact
from judges.install.toolchain import run_tool, tool
from judges.process import Child

Kind = Literal["java", "ours"]
CLIENT_VERSION = "5.5.0"
JAVA_FLAGS = ("-Xms128m", "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
END_S = 60.0
START_S = 120.0
STARTED = "started\n"
_TOLD = re.compile(r"^numbers \d+ failed (\d+)\n", re.MULTILINE)
_SOURCE = Path(__file__).parent / "java" / "Soak.java"


@cache
def soak_classes() -> Artifact:
    """The Java program, compiled against the stock client."""
    source = _SOURCE.read_bytes()

    def build(directory: Path, log: Path) -> None:
        (directory / "Soak.java").write_bytes(source)
        words = ["javac", "--release", artifacts.JAVA_RELEASE, "-nowarn", "-proc:none", "-d", "."]
        run_tool([*words, "-cp", f"{artifacts.client_jars(CLIENT_VERSION).install()}/*", "Soak.java"], directory, log)

    return artifacts._artifact("soak", (source, artifacts.client_jars(CLIENT_VERSION).path.name), build)


def java_words(directory: Path, *arguments: str) -> list[str]:
    """The command of the Java program."""
    path = f"{soak_classes().install()}:{artifacts.client_jars(CLIENT_VERSION).install()}/*"
    return [tool("java"), *JAVA_FLAGS, f"-Duser.home={directory}", "-cp", path, "Soak", *arguments]


class Producer:
    """The stock producer."""

    def __init__(self, directory: Path, name_server: str, topic: str, rate: int, body_bytes: int) -> None:
        file = directory / "acknowledged"
        words = java_words(directory, "produce", name_server, topic, str(file), str(rate), str(body_bytes))
        self._log = directory / "producer.log"
        self._child = Child(words, self._log)
        self._tail = Tail(file, NUMBER)

    def wait_started(self) -> None:
        """Wait until it sends."""
        _wait_started(self._child, self._log)

    def acknowledged(self) -> "np.ndarray[tuple[int], np.dtype[np.int64]]":
        """The numbers that were acknowledged since the last question."""
        return self._tail.more()["number"].astype(np.int64)

    @property
    def failed(self) -> int:
        """Sends that failed, the client's own attempts over."""
        told = _TOLD.findall(self._log.read_text(errors="replace"))
        return int(told[-1]) if told else 0

    def end(self) -> None:
        """Wait for the answers that are owed, and end."""
        self._child.terminate(END_S)
        self._child.kill()

    def kill(self) -> None:
        """End at once."""
        self._child.kill()


class Member:
    """A member of a group."""

    def __init__(self, kind: Kind, name: str, directory: Path, name_server: str, topic: str, group: str) -> None:
        self.kind = kind
        self.name = name
        self.log = directory / f"{name}.log"
        self._directory = directory
        self._place = (name_server, topic)
        self._group = group
        self._tails: list[Tail] = []
        self._start()

    def _start(self) -> None:
        file = self._directory / f"{self.name}.{len(self._tails)}"
        words = (*self._place, str(file), self._group)
        if self.kind == "java":
            self._child = Child(java_words(self._directory, "consume", *words), self.log)
        else:
            self._child = Child([sys.executable, "-m", "benchmarks.soak.consumer", *words], self.log)
        self._tails.append(Tail(file, DELIVERY))

    def wait_started(self) -> None:
        """Wait until it has joined its group, the first time."""
        _wait_started(self._child, self.log)

    def deliveries(self) -> Records:
        """Return the deliveries to the member since the last call, in all of its lives."""
        return np.concatenate([tail.more() for tail in self._tails])

    @property
    def alive(self) -> bool:
        """Whether its process is there."""
        return self._child.alive

    def end(self) -> None:
        """Leave the group and end."""
        self._child.terminate(END_S)
        self._child.kill()

    def kill(self) -> None:
        """End at once."""
        self._child.kill()

    def restart(self) -> None:
        """End in order and live again."""
        self.end()
        self._start()

    def die(self) -> None:
        """Be killed and live again."""
        self.kill()
        self._start()


def _wait_started(child: Child, log: Path) -> None:
    child.wait_until(lambda: STARTED in log.read_text(errors="replace"), f"{log.stem} to start", START_S)
