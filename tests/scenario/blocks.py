"""Code blocks of Markdown pages, run in order as a reader would.

A shell block that starts ``firearrow dev`` runs beside the others, on free ports, and they wait until it answers. A
block that installs is run only where something is to be installed. ``export`` lasts for the blocks after it.
A ``py`` block needs Spark and Java: tests/spark runs it.
"""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

from firearrow.testing.complaints import complaints_in
from firearrow.testing.ports import free_broker_port, free_port

ROOT = Path(__file__).parents[2]
BLOCK = re.compile(r'^```(\w+)(?: title="([^"]+)")?\n(.*?)^```$', re.MULTILINE | re.DOTALL)
RUN = ("bash", "python")
USUAL_PORT = "9876"
USUAL_ADDRESS = f"127.0.0.1:{USUAL_PORT}"
DEV = "firearrow dev"
BLOCK_SECONDS = 240
START_SECONDS = 60

SAID = ("one espresso", "SEND_OK", "asyncio: new two lattes", "blocking: hello")
"""The output of the README's blocks."""


class Block(NamedTuple):
    """One block of a page; a title is the name of a file."""

    language: str
    title: str
    text: str


def blocks(page: Path) -> list[Block]:
    """All blocks of a page, in order."""
    return [Block(*parts) for parts in BLOCK.findall(page.read_text(encoding="utf-8"))]


@dataclass
class Reader:
    """Somebody who does what a page says. Use it in a ``with`` block; it ends the servers that it started."""

    directory: Path
    programs: Path = field(default_factory=lambda: Path(sys.executable).parent)
    install: Callable[[str], str] | None = None
    """Changes the command that installs; None: everything is there."""
    environment: dict[str, str] = field(default_factory=dict)
    address: str = ""
    """A cluster that is there already; without one ``firearrow dev`` is expected among the blocks."""
    output: str = ""
    _ports: tuple[int, int] = field(default_factory=lambda: (free_port(), free_broker_port()))
    _servers: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def __post_init__(self) -> None:
        mine = {"PATH": f"{self.programs}:{os.environ['PATH']}", "PYTHONWARNINGS": "error"}
        self.environment = {**os.environ, **mine, **self.environment}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for server in self._servers:
            server.send_signal(signal.SIGTERM)
            server.wait(START_SECONDS)
        log = self.directory / "dev.log"
        complaints = complaints_in(log.read_text(errors="replace")) if log.exists() else []
        assert not complaints, complaints[0]

    def read(self, page: Path) -> str:
        """Run every block of a page; return all that was printed."""
        for block in blocks(page):
            if block.language in RUN:
                self.run(block)
        return self.output

    def run(self, block: Block) -> None:
        """Run one block; an error carries what it printed."""
        text = block.text.replace(USUAL_ADDRESS, self.address or f"127.0.0.1:{self._ports[0]}")
        if block.language == "python":
            self._run_python(block.title or "block.py", text)
        elif "pip install" in text:
            if self.install is not None:
                self._finish(["bash", "-euo", "pipefail", "-c", self.install(text)], warnings="default")
        elif text.strip() == DEV:
            self._serve()
        else:
            self._export(text)
            self._finish(["bash", "-euo", "pipefail", "-c", text])

    def _run_python(self, name: str, text: str) -> None:
        (self.directory / name).write_text(text, encoding="utf-8")
        python = str(self.programs / "python")
        if name.startswith("test_"):
            self._finish([python, "-m", "pytest", "-q", "-p", "no:cacheprovider", name], warnings="default")
        else:
            self._finish([python, name])

    def _finish(self, words: list[str], warnings: str = "error") -> None:
        ran = subprocess.run(
            words,
            cwd=self.directory,
            env=self.environment | {"PYTHONWARNINGS": warnings},
            capture_output=True,
            text=True,
            timeout=BLOCK_SECONDS,
            check=False,
        )
        if ran.returncode:
            raise AssertionError(f"{words[-1]}\nended with {ran.returncode}:\n{ran.stdout}\n{ran.stderr}")
        self.output += ran.stdout

    def _export(self, text: str) -> None:
        for name, value in re.findall(r"^export (\w+)=(\S+)$", text, re.MULTILINE):
            self.environment[name] = value

    def _serve(self) -> None:
        names, broker = self._ports
        words = [*DEV.split(), "--name-server-port", str(names), "--port", str(broker)]
        words[0] = str(self.programs / words[0])
        log = (self.directory / "dev.log").open("wb")
        with log:
            self._servers.append(
                subprocess.Popen(words, cwd=self.directory, env=self.environment, stdout=log, stderr=log)
            )
        deadline = time.monotonic() + START_SECONDS
        while "data " not in (said := (self.directory / "dev.log").read_text()):
            assert time.monotonic() < deadline, f"firearrow dev does not start: {said}"
            assert self._servers[-1].poll() is None, f"firearrow dev ended: {said}"
            time.sleep(0.05)
