"""A name server and a broker in a process of its own that a test can kill, and what it holds."""

import ctypes
import signal
import subprocess
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from firearrow.blocking import Message, Producer, PullConsumer
from firearrow.model import StoredMessage
from firearrow.testing.complaints import complaints_in

PR_SET_PDEATHSIG = 1


def end_with_parent() -> None:
    """For a child before it starts: it is killed when the thread that started it ends, however that ends."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


class Served:
    """`firearrow dev` on ports that stay the same over restarts."""

    def __init__(self, directory: Path, *, ends_with_parent: bool = False, config: Path | None = None) -> None:
        self.directory = directory
        self._config = ["--config", str(config)] if config else []
        self.log = directory.with_name(f"{directory.name}.log")
        self._before = end_with_parent if ends_with_parent else None
        self.name_server = ""
        self._ports = ("0", "0")
        self._process: subprocess.Popen[str] | None = None

    def start(self) -> None:
        """Serve; return when it does."""
        words = [sys.executable, "-m", "firearrow", "dev", "-d", str(self.directory)]
        words += ["--name-server-port", self._ports[0], "--port", self._ports[1], *self._config]
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                words, stdout=subprocess.PIPE, stderr=log, text=True, preexec_fn=self._before
            )
        assert self._process.stdout is not None
        lines = [self._process.stdout.readline().split() for _ in range(2)]
        assert all(lines), f"the broker did not start: {self.log.read_text()[-2000:]}"
        self.name_server = lines[0][-1]
        self._ports = (lines[0][-1].rpartition(":")[2], lines[1][-1].rpartition(":")[2])

    @property
    def pid(self) -> int:
        """The process."""
        assert self._process is not None
        return self._process.pid

    def kill(self) -> None:
        """End it as a power switch of the process would; an exception in its log is a failure of the test."""
        if self._process is not None:
            self._process.send_signal(signal.SIGKILL)
            self._process.communicate()
            self._process = None
            complaints = complaints_in(self.log.read_text(errors="replace"))
            assert not complaints, complaints[0]


@contextmanager
def served(directory: Path, *, like: Served | None = None, config: Path | None = None) -> Iterator[Served]:
    """Serve within the block, on free ports or on those of another, with settings of the broker from a file."""
    running = Served(directory, config=config)
    if like is not None:
        running._ports = like._ports
    running.start()
    try:
        yield running
    finally:
        running.kill()


def send(name_server: str, messages: Iterable[Message], together: int = 25) -> int:
    """Send messages, some in one request and the next to the next queue; return how many."""
    listed = list(messages)
    with Producer(name_server, group="tests", send_timeout_ms=30_000) as producer:
        for start in range(0, len(listed), together):
            producer.send_batch(listed[start : start + together])
    return len(listed)


def held(name_server: str, topic: str) -> dict[tuple[int, int], StoredMessage]:
    """Messages by queue and offset, read as a client reads them."""
    found: dict[tuple[int, int], StoredMessage] = {}
    with PullConsumer(name_server, group="tests-reading") as consumer:
        for queue, bounds in consumer.bounds(topic).items():
            offset = bounds.first
            while offset < bounds.end:
                pulled = consumer.pull_bytes(queue, offset)
                found.update({(each.queue_id, each.queue_offset): each for each in pulled.messages()})
                offset = pulled.next_offset
    return found
