"""The time that one append holds the loop while another process writes to the same disk as fast as it can.

A write to the page cache can be made to wait by the kernel: when too much of it is dirty, whoever dirties more is
stopped. So the store takes 10 MB a second, ten messages of 1 KiB every millisecond, alone and beside the other process;
the time from an append to the end of its write, dispatch included, is what holds the loop. Time in which the machine
had no CPU for the loop is taken out of it, and shown beside. "Anything" is the longest turn of the loop, whoever held
it, taken likewise.
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from benchmarks.store.bench import Bench
from benchmarks.store.messages import drafts_of
from benchmarks.store.pacing import Latencies, paced
from benchmarks.store.report import Goal, Report, percentile
from benchmarks.store.stores import config_of, on_loop, running

LIMIT_MS = 50.0
EVERY = 0.001
A_TURN = 10
SECONDS = 60.0
QUICK_SECONDS = 2.0
OTHER_BYTES = 4 << 30


def measure(bench: Bench) -> Report:
    """Alone first, then beside the other process."""
    report = Report(f"milliseconds that one append held the loop, {A_TURN} KiB every {EVERY * 1e3:.0f} ms")
    seconds = QUICK_SECONDS if bench.quick else SECONDS
    titles = ("p50", "p99", "p99.9", "maximum", "clock p99", "maximum", "due to written p99", "maximum", "anything")
    report.say(f"{'':28} " + " ".join(f"{title:>9}" for title in titles))
    p99 = 0.0
    for name in ("alone", "beside a busy writer"):
        with bench.place() as root:
            if name == "alone":
                latencies = on_loop(_measure(f"{root}/store", seconds))
            else:
                with busy_writer(f"{root}/other") as written:
                    latencies = on_loop(_measure(f"{root}/store", seconds))
                    name = f"beside {written() / seconds / 1e6:,.0f} MB/s"
        held, clock, due = latencies.held, latencies.clock, latencies.written
        p99 = percentile(held, 0.99)
        report.say(
            f"{name:28} {percentile(held, 0.5):9.3f} {p99:9.3f} {percentile(held, 0.999):9.3f} {max(held):9.2f} "
            f"{percentile(clock, 0.99):9.3f} {max(clock):9.2f} {percentile(due, 0.99):18.2f} {max(due):9.2f} "
            f"{max(latencies.turns, default=0.0):9.2f}"
        )
        report.figures[name] = {
            "p50_ms": round(percentile(held, 0.5), 4),
            "p99_ms": round(p99, 3),
            "p999_ms": round(percentile(held, 0.999), 3),
            "max_ms": round(max(held), 2),
            "by_clock_p99_ms": round(percentile(clock, 0.99), 3),
            "by_clock_max_ms": round(max(clock), 2),
            "due_to_written_p99_ms": round(percentile(due, 0.99), 2),
            "longest_turn_ms": round(max(latencies.turns, default=0.0), 2),
            "seconds": seconds,
        }
    report.goals.append(Goal("append beside a busy writer holds the loop, p99 ms", p99, LIMIT_MS, at_least=False))
    if p99 > LIMIT_MS:
        report.say(f"!!! p99 of {p99:.0f} ms is over {LIMIT_MS:.0f}: writes must leave the loop")
    return report


async def _measure(root: str, seconds: float) -> Latencies:
    async with running(root, config_of(segment_bytes=256 << 20)) as store:
        messages = drafts_of(1024, A_TURN * 64)
        groups = [messages[at : at + A_TURN] for at in range(0, len(messages), A_TURN)]
        return await paced(store, lambda number: groups[number % len(groups)], EVERY, seconds)


@contextmanager
def busy_writer(path: str) -> Iterator["WrittenSoFar"]:
    """Another process that writes, over and over, into one file on the same disk."""
    words = [sys.executable, "-m", "benchmarks.store.busydisk", path]
    writer = subprocess.Popen(words, stdout=subprocess.DEVNULL)
    try:
        while not os.path.exists(path) or os.path.getsize(path) < 1 << 20:
            time.sleep(0.01)
        yield WrittenSoFar(writer.pid)
    finally:
        writer.send_signal(signal.SIGKILL)
        writer.wait()


class WrittenSoFar:
    """Bytes that a process has written since this was made."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._before = self._now()

    def _now(self) -> int:
        with open(f"/proc/{self._pid}/io", encoding="ascii") as numbers:
            return next(int(line.split()[1]) for line in numbers if line.startswith("wchar"))

    def __call__(self) -> int:
        return self._now() - self._before


def write_for_ever(path: str) -> None:
    """Write as fast as the kernel takes it."""
    piece = os.urandom(1 << 20)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    position = 0
    while True:
        position = (position + os.pwrite(descriptor, piece, position)) % OTHER_BYTES


if __name__ == "__main__":
    write_for_ever(sys.argv[1])
