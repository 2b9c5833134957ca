"""A server that logs to a file, changes its level by signals, and tells systemd how far it is."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from firearrow.testing.ports import free_broker_port
from tests.interop.cli.commands import MAIN

pytestmark = pytest.mark.real
SECONDS = 60


def until_logged(file: Path, event: str) -> None:
    """Wait for an event in a log of JSON lines."""
    ends = time.monotonic() + SECONDS
    while time.monotonic() < ends:
        lines = file.read_text().splitlines() if file.exists() else []
        if any(json.loads(line)["event"] == event for line in lines):
            return
        time.sleep(0.02)
    raise AssertionError(f"{event!r} is not in the log")


def test_logs_signals_and_systemd(tmp_path: Path) -> None:
    log = tmp_path / "log"
    words = ["nameserver", "--port", "0", "--directory", str(tmp_path), "--log-format", "json", "--log-file", str(log)]
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd:
        systemd.settimeout(SECONDS)
        systemd.bind(str(tmp_path / "notify"))
        with subprocess.Popen(
            [sys.executable, "-c", MAIN, *words],
            env={**os.environ, "NOTIFY_SOCKET": str(tmp_path / "notify")},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        ) as server:
            assert systemd.recv(100) == b"READY=1"
            server.send_signal(signal.SIGUSR1)
            until_logged(log, "the log level is DEBUG now")
            server.send_signal(signal.SIGUSR2)
            until_logged(log, "the log level is INFO now")
            server.send_signal(signal.SIGTERM)
            assert systemd.recv(100) == b"STOPPING=1"
            server.communicate(timeout=SECONDS)


def test_every_line_of_a_json_log_is_json_also_what_the_command_tells(tmp_path: Path) -> None:
    settings = tmp_path / "broker.conf"
    settings.write_text("drainWaitSeconds=0\nnosuchsetting=1\n")
    words = ["broker", "-c", str(settings), "--store", str(tmp_path / "store"), "--port", str(free_broker_port())]
    words += ["--bind", "127.0.0.1", "--drain", "--log-format", "json"]
    with subprocess.Popen(
        [sys.executable, "-c", MAIN, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as server:
        assert server.stdout is not None
        assert " serves on " in server.stdout.readline()
        server.send_signal(signal.SIGTERM)
        _, told = server.communicate(timeout=SECONDS)
    events = [json.loads(line)["event"] for line in told.splitlines()]
    assert "broker stopped" in events
    assert any(event.startswith("broker drains") for event in events)
    assert any("nosuchsetting" in event for event in events)
