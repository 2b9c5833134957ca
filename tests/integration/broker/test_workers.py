"""``firearrow broker --workers 2``: one cluster of two processes.

A killed one comes back, both restart one by one, and a second signal ends those that drain.
"""

import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from firearrow.testing.ports import free_broker_port, free_port
from judges.wire import ask

pytestmark = [pytest.mark.real, pytest.mark.timeout(900)]

MAIN = "import sys; from firearrow.cli import main; sys.exit(main())"
SEND, ROUTE = 310, 105
PATIENCE_S = 240.0
DRAIN_S = 30.0
"""Less than a drain takes by default."""


def until(wanted: Callable[[], bool], what: str) -> None:
    ends = time.monotonic() + PATIENCE_S
    while not wanted():
        assert time.monotonic() < ends, f"waited for {what}"
        time.sleep(0.1)


def sends(port: int) -> bool:
    fields = {"a": "P", "b": "orders", "c": "TBW102", "d": "4", **dict.fromkeys("efgh", "0")}
    try:
        return ask(f"127.0.0.1:{port}", SEND, fields, b"hello").code == 0
    except OSError:
        return False


def children(process: subprocess.Popen[str]) -> list[int]:
    found = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text()
    return [int(number) for number in found.split()]


def listener(process: subprocess.Popen[str], store: str) -> int | None:
    for child in children(process):
        words = Path(f"/proc/{child}/cmdline").read_text().split("\0")
        if store in words:
            return child
    return None


def kill(process: subprocess.Popen[str], store: str) -> None:
    worker = listener(process, store)
    assert worker is not None
    os.kill(worker, signal.SIGKILL)


@contextmanager
def two_workers(directory: Path, names: int, port: int, *more: str) -> Iterator[subprocess.Popen[str]]:
    """A name server and the supervisor of two workers, which log to ``directory/log``."""
    commands = [
        ["nameserver", "--port", str(names), "--bind", "127.0.0.1", "--directory", f"{directory}/names"],
        ["broker", "--workers", "2", "-n", f"127.0.0.1:{names}", "--port", str(port), "--bind", "127.0.0.1",
         "--advertise", "127.0.0.1", "--store", f"{directory}/store", *more],
    ]  # fmt: skip
    with (directory / "log").open("w") as output:
        running = [
            subprocess.Popen([sys.executable, "-c", MAIN, *words], stdout=output, stderr=output, text=True)
            for words in commands
        ]
    try:
        yield running[1]
    finally:
        for process in running:
            process.terminate()
            process.wait()


def test_a_second_signal_ends_workers_that_drain(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names, port = free_port(), free_broker_port()
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd:
        systemd.bind(str(tmp_path / "notify"))
        systemd.settimeout(PATIENCE_S)
        monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
        with two_workers(tmp_path, names, port, "--drain") as supervisor:
            told = [systemd.recv(100) for _ in range(2)]
            assert told == [b"READY=1"] * 2, "the name server and the supervisor, and no worker"
            assert sends(port)
            assert sends(port + 10)
            until(lambda: _brokers(names) == 2, "a route over both workers")
            supervisor.send_signal(signal.SIGTERM)
            assert systemd.recv(100) == b"STOPPING=1"
            until(lambda: _permissions(names) == {"4"}, "a route without writes")
            assert sends(port), "a worker that drains still answers"
            began = time.monotonic()
            supervisor.send_signal(signal.SIGTERM)
            assert supervisor.wait(PATIENCE_S) == 0
            assert time.monotonic() - began < DRAIN_S, "the workers have drained to the end"
            assert (tmp_path / "log").read_text().count("broker stopped") == 2, "they have not stopped in order"
            assert _brokers(names) == 0, "a worker has not left the name server"


def test_two_workers_are_one_cluster_and_come_back(tmp_path: Path) -> None:
    names, port, log = free_port(), free_broker_port(), tmp_path / "log"
    settings = tmp_path / "broker.conf"
    settings.write_text(f"metricsExporterType=PROM\nmetricsPromExporterPort={free_port()}\n")
    with two_workers(tmp_path, names, port, "-c", str(settings)) as supervisor:
        until(lambda: sends(port) and sends(port + 10), "both workers, with metrics ports of their own")
        assert "has ended" not in log.read_text()
        supervisor.send_signal(signal.SIGUSR1)
        until(
            lambda: log.read_text().count("the log level is DEBUG now") == 2, "the word of both workers on their level"
        )
        until(lambda: _brokers(names) == 2, "a route over both workers")
        kill(supervisor, f"{tmp_path}/store/0")
        until(lambda: "worker 0 has ended with -9" in log.read_text(), "the word on the dead worker")
        until(lambda: sends(port), "the worker that was killed")

        before = set(children(supervisor))
        supervisor.send_signal(signal.SIGHUP)
        until(lambda: "all 2 workers were restarted" in log.read_text(), "both restarts")
        assert not before & set(children(supervisor))
        assert sends(port)
        assert sends(port + 10)

        kill(supervisor, f"{tmp_path}/store/0")
        until(lambda: log.read_text().count("worker 0 has ended with -9") == 2, "the word on the second death")
        supervisor.send_signal(signal.SIGHUP)
        until(lambda: log.read_text().count("all 2 workers were restarted") == 2, "restarts, one of which was due")
        kill(supervisor, f"{tmp_path}/store/0")
        until(lambda: log.read_text().count("worker 0 has ended with -9") == 3, "the word on the third death")
        until(lambda: sends(port), "the worker that was killed")

        supervisor.send_signal(signal.SIGHUP)
        until(lambda: not sends(port), "a restart that has begun")
        supervisor.send_signal(signal.SIGTERM)
        assert supervisor.wait(PATIENCE_S) == 0, "a stop ends a restart that is under way"
        assert "all 2 workers have stopped" in log.read_text()
        assert not sends(port)


def _brokers(names: int) -> int:
    return len(set(re.findall(r'"brokerName":"([^"]+)"', _route(names))))


def _permissions(names: int) -> set[str]:
    return set(re.findall(r'"perm":(\d+)', _route(names)))


def _route(names: int) -> str:
    try:
        return ask(f"127.0.0.1:{names}", ROUTE, {"topic": "orders"}).body.decode()
    except OSError:
        return ""
