"""The rows that every codec benchmark returns, and the one way they all measure.

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
    """Microseconds for one message; a spread is half the distance of the quartiles as a part of the median."""

    name: str
    ours_us: float
    bare_us: float
    ours_spread: float = 0.0
    bare_spread: float = 0.0

    @property
    def ratio(self) -> float:
        return self.ours_us / self.bare_us


def compare(name: str, ours: Callable[[], object], bare: Callable[[], object], *, messages: int = 1) -> Row:
    """Time two functions that make the same thing in turn; each call handles ``messages`` messages."""
    assert ours() == bare(), f"{name}: the two do not make the same thing"
    return compare_unlike(name, ours, bare, messages=messages)


def compare_unlike(name: str, ours: Callable[[], object], bare: Callable[[], object], *, messages: int = 1) -> Row:
    """Time two functions whose results differ in type; the caller has made sure that they mean the same."""
    calls = max(1, CALLS // messages)
    ours_us, bare_us = [], []
    for _ in range(REPEATS):
        ours_us.append(_microseconds(ours, calls) / messages)
        bare_us.append(_microseconds(bare, calls) / messages)
    return Row(name, statistics.median(ours_us), statistics.median(bare_us), _spread(ours_us), _spread(bare_us))


def _spread(values: list[float]) -> float:
    low, middle, high = statistics.quantiles(values, n=4)
    return (high - low) / 2 / middle


def _microseconds(function: Callable[[], object], calls: int) -> float:
    began = time.thread_time()
    for _ in range(calls):
        function()
    return (time.thread_time() - began) / calls * 1e6
