"""A child process in a group of its own, with its log in a file and its whole life in verbs.

Invariants: standard input is a pipe held open, and every program of ours ends when it closes, so none
outlives this process however it dies; whatever still runs when the interpreter ends is killed; a stopped
(SIGSTOP) group is killed like a running one.
"""

import atexit
import os
import signal
import subprocess
import time
import weakref
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from firearrow.errors import FireArrowError
from firearrow.testing.apache.toolchain import tail

POLL_SECONDS = 0.02

_running: weakref.WeakSet["Child"] = weakref.WeakSet()


class ChildFailed(FireArrowError):
    """A child process ended, or did not become ready; the message carries the end of its log."""


class Child:
    """One running program."""

    def __init__(
        self,
        words: Sequence[str],
        log: Path,
        environment: Mapping[str, str] | None = None,
        piped_output: bool = False,
    ) -> None:
        self.words = tuple(words)
        self.log = log
        with log.open("ab") as output:
            self.popen = subprocess.Popen(
                self.words,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE if piped_output else output,
                stderr=output,
                env={**os.environ, **(environment or {})},
                process_group=0,
            )
        _running.add(self)

    @property
    def pid(self) -> int:
        """The process id, also that of the group."""
        return self.popen.pid

    @property
    def alive(self) -> bool:
        """Whether the program still runs (a stopped one does)."""
        return self.popen.poll() is None

    def signal(self, number: signal.Signals) -> None:
        """Signal the whole group; nothing happens when it is gone."""
        with suppress(ProcessLookupError):
            os.killpg(self.pid, number)

    def terminate(self, timeout_seconds: float) -> int:
        """Ask the program to end (SIGTERM) and wait until it has."""
        self.signal(signal.SIGTERM)
        try:
            return self.popen.wait(timeout_seconds)
        except subprocess.TimeoutExpired:
            raise ChildFailed(
                f"{self.words[0]} (pid {self.pid}) did not end within {timeout_seconds} s of SIGTERM; "
                f"the end of its log:\n{tail(self.log)}"
            ) from None

    def kill(self) -> None:
        """End the whole group at once (SIGKILL) and reap it."""
        self.signal(signal.SIGKILL)
        self.popen.wait()
        for pipe in (self.popen.stdin, self.popen.stdout):
            if pipe is not None:
                with suppress(OSError):
                    pipe.close()
        _running.discard(self)

    def wait_until(self, ready: Callable[[], bool], what: str, timeout_seconds: float) -> None:
        """Poll until `ready`; fails with the end of the log when the program ends or the time is up."""
        deadline = time.monotonic() + timeout_seconds
        while not ready():
            if not self.alive:
                why = f"it ended with {self.popen.returncode}"
            elif time.monotonic() > deadline:
                why = f"{timeout_seconds} s are over"
            else:
                time.sleep(POLL_SECONDS)
                continue
            raise ChildFailed(f"waiting for {what}: {why}; the end of {self.log}:\n{tail(self.log)}")


@atexit.register
def _kill_all() -> None:
    for child in list(_running):
        child.kill()
