"""A server as a process with a home directory, a port and a life: start, stop, kill, pause, resume, restart.

What every server here shares, Apache's and ours. A server keeps its port and its home until `close`, so that
it can be killed and started again over the same files. Leaving a `with` block kills it: Apache's broker takes
17 s to end politely, and a test that wants that calls `stop`. In a coroutine use `async with`, which does the
same in a thread, so that a server in this very process can answer meanwhile.
"""

import asyncio
import os
import shutil
import signal
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Self

from firearrow.testing.complaints import Complained, complaints_in
from judges.process import Child, ChildFailed
from judges.wire import SUCCESS, ask

START_SECONDS = 90.0
STOP_SECONDS = 60.0
PROBE_SECONDS = 2.0
WAIT_POLL_SECONDS = 0.02


class Server(ABC):
    """One server process."""

    def __init__(self, role: str, port: int) -> None:
        self.role = role
        self.port = port
        self.address = f"127.0.0.1:{port}"
        self.home = Path(tempfile.mkdtemp(prefix=f"firearrow-{role}-"))
        self.log = self.home / "output.log"
        self.forgives: tuple[str, ...] = ()
        """Texts of exceptions that a test provokes; complaints with one of them are ignored."""
        self._child: Child | None = None

    def complaints(self) -> list[str]:
        """Unexpected exceptions in its log; only for our own servers, because Apache's log exceptions normally."""
        return []

    @abstractmethod
    def _launch(self) -> Child:
        """Start the program."""

    @abstractmethod
    def _ready(self) -> bool:
        """Whether it does its work, found out by asking it."""

    @property
    def child(self) -> Child:
        """The running process."""
        if self._child is None:
            raise ChildFailed(f"{self.role} at {self.address} is not running; call start()")
        return self._child

    @property
    def pid(self) -> int:
        """The process id, for measuring."""
        return self.child.pid

    @property
    def running(self) -> bool:
        """Whether the process is there."""
        return self._child is not None and self._child.alive

    def start(self, wait: bool = True) -> Self:
        """Start the program and wait until it does its work."""
        if self.running:
            raise ChildFailed(f"{self.role} at {self.address} runs already")
        self._child = self._launch()
        if wait:
            self.wait_ready()
        return self

    def wait_ready(self, timeout_seconds: float = START_SECONDS) -> Self:
        """Wait until it does its work; after `start(wait=False)`, which lets several start side by side."""
        self.child.wait_until(self._ready, f"{self.role} at {self.address}", timeout_seconds)
        return self

    def stop(self, timeout_seconds: float = STOP_SECONDS) -> None:
        """End it politely (SIGTERM) and wait."""
        child = self.child
        child.terminate(timeout_seconds)
        child.kill()
        self._child = None

    def kill(self) -> None:
        """End it at once (SIGKILL)."""
        self.child.kill()
        self._child = None

    def pause(self) -> None:
        """Let it hang (SIGSTOP): its connections stay open and nothing answers."""
        self.child.signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Let it go on (SIGCONT)."""
        self.child.signal(signal.SIGCONT)

    def restart(self) -> Self:
        """Kill it and start it again over the same files."""
        self.kill()
        return self.start()

    def close(self) -> None:
        """Kill it, if it runs, and remove its home; raise `Complained` when its log holds an exception."""
        if self._child is not None:
            self.kill()
        complaints = self.complaints()
        shutil.rmtree(self.home, ignore_errors=True)
        if complaints:
            raise Complained(f"{self.role} at {self.address} logged {len(complaints)} exceptions:\n{complaints[0]}")

    def cpu_seconds(self) -> float:
        """CPU time used so far, of all threads, user and system."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def memory_bytes(self, what: str = "VmRSS") -> int:
        """A line of /proc/PID/status: VmRSS, RssAnon, VmHWM."""
        for line in Path(f"/proc/{self.pid}/status").read_text().splitlines():
            if line.startswith(f"{what}:"):
                return int(line.split()[1]) * 1024
        raise KeyError(what)

    def __enter__(self) -> Self:
        try:
            return self.start()
        except BaseException as error:
            self._close_after(error)
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._close_after(error)

    def _close_after(self, error: BaseException | None) -> None:
        """Close; a complaint is a note to the error that was on its way."""
        try:
            self.close()
        except Complained as complaint:
            if error is None:
                raise
            error.add_note(str(complaint))

    async def __aenter__(self) -> Self:
        return await asyncio.to_thread(self.__enter__)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await asyncio.to_thread(self._close_after, error)


class OwnServer(Server):
    """A server of ours: an unexpected exception in its log fails the test."""

    def complaints(self) -> list[str]:
        """Unexpected exceptions in its log."""
        log = self.log.read_text(errors="replace") if self.log.exists() else ""
        return complaints_in(log, self.forgives)


def answers(address: str, code: int, fields: dict[str, str] | None = None) -> bytes | None:
    """The body of a successful answer, or None while there is none: a condition to poll."""
    try:
        answer = ask(address, code, fields, timeout_seconds=PROBE_SECONDS)
    except OSError:
        return None
    return answer.body if answer.code == SUCCESS else None


def wait_for(condition: Callable[[], bool], what: str, timeout_seconds: float = 10.0) -> None:
    """Poll a condition; a plain error names what did not come."""
    deadline = time.monotonic() + timeout_seconds
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"waited {timeout_seconds} s for {what}")
        time.sleep(WAIT_POLL_SECONDS)
