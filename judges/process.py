"""A child process in a group of its own, with its log in a file and its whole life in verbs.

Invariant: no child outlives this process, however it dies. A guard, a small process in a session of its own, gets the
id of every group and holds the reading end of a pipe; when that pipe closes, by a clean end or by SIGKILL, it kills the
remaining groups, stopped (SIGSTOP) ones too.
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import IO

from firearrow.errors import FireArrowError
from judges.install.toolchain import tail

POLL_SECONDS = 0.02

_GUARD = """
import os, signal, sys
groups = set()
for line in sys.stdin:
    verb, group = line.split()
    getattr(groups, verb)(int(group))
for group in groups:
    try:
        os.killpg(group, signal.SIGKILL)
    except ProcessLookupError:
        pass
"""


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
        directory: Path | None = None,
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
                cwd=directory,
                process_group=0,
            )
        _tell_guard("add", self.pid)

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
        _tell_guard("discard", self.pid)

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


@cache
def _guard(_owner: int) -> IO[bytes]:
    """The guard's pipe; a forked process gets a guard of its own."""
    words = [sys.executable, "-I", "-S", "-c", _GUARD]
    guard = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, start_new_session=True)
    guard.returncode = 0  # the guard ends after this process, which does not wait for it: suppress the warning
    assert guard.stdin is not None
    return guard.stdin


def _tell_guard(verb: str, group: int) -> None:
    pipe = _guard(os.getpid())
    pipe.write(f"{verb} {group}\n".encode())
    pipe.flush()
