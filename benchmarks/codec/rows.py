"""What every codec benchmark returns, and the one way they all measure.

Each module of this directory offers ``measure() -> list[Row]``: our codec beside a bare hand-written loop that makes
the same bytes with nothing checked and nothing named. Both run in turn in one process, in many short slices of CPU
time, and the medians count, so that whatever else the machine does falls on both.
"""

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

REPEATS = 401
CALLS = 200


@dataclass(frozen=True, slots=True)
class Row:
    """Microseconds for one message."""

    name: str
    ours_us: float
    bare_us: float

    @property
    def ratio(self) -> float:
        return self.ours_us / self.bare_us


def compare(name: str, ours: Callable[[], object], bare: Callable[[], object]) -> Row:
    """Time two functions in turn; each call handles one message."""
    assert ours() == bare(), f"{name}: the two do not make the same thing"
    ours_us, bare_us = [], []
    for _ in range(REPEATS):
        ours_us.append(_microseconds(ours))
        bare_us.append(_microseconds(bare))
    return Row(name, statistics.median(ours_us), statistics.median(bare_us))


def _microseconds(function: Callable[[], object]) -> float:
    calls = range(CALLS)
    began = time.thread_time()
    for _ in calls:
        function()
    return (time.thread_time() - began) / CALLS * 1e6
