"""The benchmark of a large backlog goes on where it was stopped, by its own limit of time or by a kill."""

import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

from benchmarks.store import backlog

PROJECT = Path(__file__).parents[3]
COUNT = 100_000


def _log_bytes(directory: Path) -> int:
    """Space that the log takes: its files are sparse."""
    return sum(file.stat().st_blocks * 512 for file in directory.glob("store/commitlog/*"))


def _kill_in_the_middle(directory: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "benchmarks.store.backlog",
        "--directory",
        str(directory),
        "--messages",
        "50000000",
    ]
    process = subprocess.Popen(command, cwd=PROJECT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    until = time.monotonic() + 120
    while _log_bytes(directory) < 1 << 20 and process.poll() is None and time.monotonic() < until:
        with suppress(subprocess.TimeoutExpired):
            process.wait(0.01)
    process.send_signal(signal.SIGKILL)
    _, said = process.communicate(timeout=60)
    assert process.returncode == -signal.SIGKILL, said
    assert _log_bytes(directory) >= 1 << 20, said


def test_a_backlog_goes_on_after_its_time_was_over_and_after_a_kill(tmp_path: Path) -> None:
    stopped = backlog.run(str(tmp_path), COUNT, seconds=0.001)
    first = stopped.figures["have"]
    assert 0 < first < COUNT
    assert not stopped.goals
    _kill_in_the_middle(tmp_path)
    found = backlog.run(str(tmp_path), 50_000_000, seconds=0.001).figures["have"]
    assert found > first, "what was there before the kill is there"
    wanted = found + COUNT
    done = backlog.run(str(tmp_path), wanted)
    assert done.figures["messages"] == wanted
    assert set(done.figures["read"]) == {"head", "middle", "tail"}, "every place could be read"
