"""The speed of a core at a time, whatever else the machine and its host do: the time that a fixed piece of work takes.

On a machine that others share, the same work may cost 1.7 times the processor time from one second to the next, and
nothing says so: no time is stolen, no run queue is long. So a small piece of work is done on the core every few
milliseconds beside what is measured, and figures of different seconds can be brought to the same speed.

`python -m benchmarks.overload.speed CORE` prints, for each line on standard input, the mean since the last one.
"""

import os
import subprocess
import sys
import threading
import time

EVERY_S = 0.02
ROUNDS = 1_000


class Speed:
    """The probe's process, on the core it looks at."""

    def __init__(self, core: int) -> None:
        words = [sys.executable, "-m", "benchmarks.overload.speed", str(core)]
        self._process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.since_last()

    def since_last(self) -> float:
        """Microseconds of processor time that the piece of work has taken on average since this was last asked."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        return float(self._process.stdout.readline())

    def close(self) -> None:
        """End it."""
        self._process.kill()
        self._process.wait()


def work(table: dict[int, str]) -> float:
    """Do the piece of work; return the processor time it took."""
    began, total = time.thread_time(), 0
    for number in range(ROUNDS):
        total += len(table[number])
    return time.thread_time() - began


def watch(core: int) -> None:
    """Do the work at intervals; answer every line with its mean cost."""
    os.sched_setaffinity(0, {core})
    table = {number: str(number) for number in range(ROUNDS)}
    taken: list[float] = [work(table)]

    def repeat() -> None:
        while True:
            time.sleep(EVERY_S)
            taken.append(work(table))

    threading.Thread(target=repeat, daemon=True).start()
    for _ in sys.stdin:
        some = taken[:]
        del taken[: len(some) - 1]
        print(f"{sum(some) / len(some) * 1e6:.2f}", flush=True)


if __name__ == "__main__":
    watch(int(sys.argv[1]))
