"""Servers and the signals that a terminal or an operator sends."""

import signal
import subprocess
import sys

import pytest

from tests.interop.cli.commands import MAIN

pytestmark = pytest.mark.real


def test_a_server_outlives_a_hang_up_and_stops_at_sigterm() -> None:
    words = ["dev", "--name-server-port", "0", "--port", "0"]
    with subprocess.Popen(
        [sys.executable, "-c", MAIN, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as server:
        assert server.stdout is not None
        assert server.stderr is not None
        try:
            while not server.stdout.readline().startswith("data"):
                assert server.poll() is None
            server.send_signal(signal.SIGHUP)
            while "SIGHUP is ignored" not in (line := server.stderr.readline()):
                assert line, "the server ended"
            server.send_signal(signal.SIGTERM)
            assert server.wait(30) == 0
        finally:
            server.kill()
