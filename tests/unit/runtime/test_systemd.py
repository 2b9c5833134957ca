"""The messages to systemd, read from its socket."""

import logging
import socket
from pathlib import Path

import pytest

from firearrow.runtime.systemd import notify


def test_a_state_arrives_as_one_datagram(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd:
        systemd.bind(str(tmp_path / "notify"))
        monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
        notify("READY=1")
        assert systemd.recv(100) == b"READY=1"


def test_a_name_that_is_in_no_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd:
        systemd.bind(f"\0{tmp_path}")
        monkeypatch.setenv("NOTIFY_SOCKET", f"@{tmp_path}")
        notify("STOPPING=1")
        assert systemd.recv(100) == b"STOPPING=1"


def test_nobody_who_listens_is_a_line_of_the_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.delenv("NOTIFY_SOCKET", raising=False)
    notify("READY=1")
    assert not caplog.records
    monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "nobody"))
    with caplog.at_level(logging.WARNING):
        notify("READY=1")
    assert "systemd is not told READY=1" in caplog.text
