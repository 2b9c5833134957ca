"""The cost of a stretch of work: seconds by the clock, CPU of this process and all below it, CPU of another's."""

import os
import time
from pathlib import Path
from typing import Self

from benchmarks.spark.processes import processes_below

TICKS = os.sysconf("SC_CLK_TCK")


def cpu_s(pids: list[int]) -> float:
    """CPU seconds of processes so far, and of children that they waited for."""
    total = 0
    for pid in pids:
        try:
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        total += sum(int(each) for each in fields[11:15])
    return total / TICKS


class Meter:
    """Measures a ``with`` block."""

    def __init__(self, broker: int | None = None) -> None:
        self._broker = broker

    def __enter__(self) -> Self:
        """Begin."""
        self._mine, self._theirs = self._cpu()
        self._began = time.perf_counter()
        return self

    def __exit__(self, *_: object) -> None:
        """End."""
        self._took = time.perf_counter() - self._began
        mine, theirs = self._cpu()
        self._mine, self._theirs = mine - self._mine, theirs - self._theirs

    def _cpu(self) -> tuple[float, float]:
        theirs = cpu_s(processes_below(self._broker)) if self._broker else 0.0
        return cpu_s(processes_below(os.getpid())), theirs

    def figures(self) -> dict[str, float]:
        """Return the cost of the work."""
        return {"s": self._took, "spark_cpu_s": self._mine, "broker_cpu_s": self._theirs}
