"""``mqbroker``, ``mqnamesrv``, ``mqshutdown`` and ``mqfiltersrv`` without a server: options, settings, processes."""

import os
from pathlib import Path

import pytest

from firearrow.cli.mqadmin import server_scripts


def run(script: str, words: list[str], monkeypatch: pytest.MonkeyPatch) -> int:
    """Call a script as its console script does; return its status."""
    monkeypatch.setattr("sys.argv", [script, *words])
    try:
        getattr(server_scripts, script)()
    except SystemExit as ended:
        return int(ended.code or 0)
    return 0


def test_settings_are_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "broker.conf").write_text("brokerName=b7\nfileReservedTime=48\n")
    assert run("mqbroker", ["-c", str(tmp_path / "broker.conf"), "-n", "127.0.0.1:1", "-p"], monkeypatch) == 0
    printed = capsys.readouterr().out.splitlines()
    assert {"brokerName=b7", "fileReservedTime=48", "namesrvAddr=127.0.0.1:1", "flushDiskType=ASYNC_FLUSH"} <= set(
        printed
    )
    assert run("mqbroker", ["-c", str(tmp_path / "broker.conf"), "-m"], monkeypatch) == 0
    important = capsys.readouterr().out.splitlines()
    assert "fileReservedTime=48" in important
    assert "brokerName=b7" not in important, "Apache does not mark the name as important"
    assert run("mqnamesrv", ["-p"], monkeypatch) == 0
    assert "listenPort=9876" in capsys.readouterr().out.splitlines()


@pytest.mark.parametrize("script", ["mqbroker", "mqnamesrv"])
def test_usage_and_wrong_options(
    script: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(script, ["-h"], monkeypatch) == 0
    assert capsys.readouterr().out.startswith(f"usage: {script} [-c <arg>] [-h] ")
    assert run(script, ["-z"], monkeypatch) == 1
    assert "Unrecognized option: -z" in capsys.readouterr().err
    assert run(script, ["-c", "/nowhere/at/all.conf"], monkeypatch) == 1
    assert "check the path after -c" in capsys.readouterr().err


def test_nothing_to_shut_down(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(server_scripts, "running", lambda _script: [])
    assert run("mqshutdown", ["broker"], monkeypatch) == 1
    assert capsys.readouterr().out == "No mqbroker running.\n"
    assert run("mqshutdown", [], monkeypatch) == 1
    assert "mqshutdown broker | namesrv" in capsys.readouterr().out
    assert run("mqshutdown", ["controller"], monkeypatch) == 1
    assert "etcd" in capsys.readouterr().err


def test_a_filter_server_says_why_there_is_none(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("mqfiltersrv", [], monkeypatch) == 1
    assert "SQL92" in capsys.readouterr().err


def test_processes_are_found_by_their_script_alone(tmp_path: Path) -> None:
    lines = {
        "self": ["x"],
        "11": ["/usr/bin/python3", "/opt/bin/mqbroker", "-c", "x"],
        "12": ["/opt/bin/mqbroker"],
        "13": ["/usr/bin/grep", "-r", "mqbroker"],
        "14": ["/usr/bin/python3", "/opt/bin/mqnamesrv"],
        "15": ["/usr/bin/python3", "/opt/bin/firearrow", "broker"],
    }
    for name, words in lines.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "cmdline").write_bytes(b"\0".join(word.encode() for word in words) + b"\0")
    (tmp_path / "16").mkdir()
    assert server_scripts.running("mqbroker", tmp_path) == [11, 12]
    assert server_scripts.running("mqnamesrv", tmp_path) == [14]
    assert os.getpid() not in server_scripts.running("mqbroker")
