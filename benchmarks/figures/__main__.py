"""`python -m benchmarks.figures`: what RocketMQ's documents claim, measured on our broker here, and a plain answer.

    python -m benchmarks.figures                          all rows, three rounds each
    python -m benchmarks.figures --rows one,workers --rounds 1 --seconds 5

| row | the claim |
|---|---|
| one | 70,000 messages of 10 bytes a second by one broker |
| workers | 120,000 of them by several brokers on one machine: ``firearrow broker --workers 2`` |
| bytes | 300 MB a second: bodies of 64 KiB at one broker, beside what a plain program writes to the same disk |
| bytes-workers | the same with ``--workers 2`` |

Brokers have their own defaults (ASYNC_FLUSH). They are started anew for every round, and the load (`pump`) shares the
machine with them.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from benchmarks.versus.contestants import FireArrowInEarnest, WorkersInEarnest, group_cpu_s
from judges import FireArrowNameServer

TOPIC = "figures"
QUEUES = 8
LEAD_S = 2.0
CHUNK = 1 << 20


class Row(NamedTuple):
    """A claim."""

    what: str
    goal: float
    unit: str
    body_bytes: int
    workers: int


ROWS = {
    "one": Row("10 B, one broker", 70_000, "messages/s", 10, 1),
    "workers": Row("10 B, --workers 2", 120_000, "messages/s", 10, 2),
    "bytes": Row("64 KiB, one broker", 300, "MB/s", 65_536, 1),
    "bytes-workers": Row("64 KiB, --workers 2", 300, "MB/s", 65_536, 2),
}


class Result(NamedTuple):
    """The result of a round."""

    figure: float
    failed: int
    broker_cpu: float
    """Of all cores that brokers had, how many were busy."""
    load_cpu: float


@contextmanager
def brokers(count: int) -> Iterator[FireArrowInEarnest]:
    """A name server and one broker, or a supervisor with workers."""
    with FireArrowNameServer(arguments=["--log-level", "ERROR"]) as names:
        make = WorkersInEarnest(name_servers=[names.address], settings={}, count=count) if count > 1 else None
        with make or FireArrowInEarnest(name_servers=[names.address], settings={}) as broker:
            yield broker


def cpu_s(server: FireArrowInEarnest) -> float:
    """CPU time used so far by all processes of a server."""
    return sum(group_cpu_s(pid) for pid in server.pids)


def measure(row: Row, seconds: float) -> Result:
    """Take a round."""
    with brokers(row.workers) as server:
        server.create_topic(TOPIC, QUEUES)
        ports = [str(port) for port in server.ports]
        words = [sys.executable, "-m", "benchmarks.figures.pump", TOPIC, str(row.body_bytes), str(seconds), str(LEAD_S)]
        before = cpu_s(server)
        began = time.monotonic()
        done = subprocess.run([*words, *ports], check=True, capture_output=True, text=True)
        cpu = (cpu_s(server) - before) / (time.monotonic() - began)
    found = json.loads(done.stdout)
    figure = found["rate"] * row.body_bytes / 1e6 if row.unit == "MB/s" else found["rate"]
    return Result(figure, int(found["failed"]), cpu, found["cpu_s"] / found["seconds"])


def disk_mb_s(seconds: float) -> float:
    """Return the rate at which a plain program writes to the same disk, with a sync twice a second like a broker."""
    block = os.urandom(CHUNK)
    with tempfile.TemporaryDirectory(prefix="firearrow-figures-") as directory:
        file = os.open(Path(directory) / "plain", os.O_CREAT | os.O_WRONLY)
        written, began = 0, time.monotonic()
        synced = began
        while time.monotonic() - began < seconds:
            written += os.write(file, block)
            if time.monotonic() - synced > 0.5:
                os.fdatasync(file)
                synced = time.monotonic()
        os.fdatasync(file)
        took = time.monotonic() - began
        os.close(file)
    return written / took / 1e6


def show(row: Row, results: list[Result], disk: float | None) -> None:
    """Print a line with the answer."""
    figures = sorted(result.figure for result in results)
    middle = figures[len(figures) // 2]
    answer = "reached" if middle >= row.goal else f"not reached: {middle / row.goal:.2f} of it"
    busy = max(results, key=lambda result: result.figure)
    beside = f"; a plain program writes {disk:,.0f} MB/s to this disk" if disk else ""
    failed = sum(result.failed for result in results)
    print(
        f"{row.what}: {middle:,.0f} {row.unit} ({figures[0]:,.0f}-{figures[-1]:,.0f}, {len(figures)} rounds, "
        f"{failed} failed), claimed {row.goal:,.0f}: {answer}. Brokers used {busy.broker_cpu:.2f} cores, the load "
        f"{busy.load_cpu:.2f}{beside}",
        flush=True,
    )


def main() -> None:
    """Read the words of the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", default=",".join(ROWS))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=10.0)
    given = parser.parse_args()
    for name in given.rows.split(","):
        row = ROWS[name]
        results = [measure(row, given.seconds) for _ in range(given.rounds)]
        show(row, results, disk_mb_s(given.seconds) if row.unit == "MB/s" else None)


if __name__ == "__main__":
    main()
