"""A slice of ``benchmarks.size``: what costs the same on a large broker as on a small one.

Bytes and the broker's CPU are compared, never time: other work on the machine hardly changes them.
"""

from collections.abc import Callable, Iterator

import pytest

from benchmarks.size.herd import of_pulls
from benchmarks.size.state import of_offsets, of_topics
from benchmarks.size.table import Row

TOPICS = 1_500
OFFSETS = 4_000
PULLS = 150
WATCH_S = 1.2
ATTEMPTS = 3


def _robust(row: Row) -> bool:
    return row.unit == "KiB" or row.what.endswith("longest hold, CPU")


@pytest.mark.parametrize(
    ("part", "at_least"),
    [
        pytest.param(lambda: of_topics(TOPICS, WATCH_S), 4, id="topics"),
        pytest.param(lambda: of_offsets(OFFSETS, WATCH_S), 2, id="offsets"),
        pytest.param(lambda: of_pulls(PULLS, 0.1), 1, id="pulls"),
    ],
)
def test_a_large_broker_costs_what_a_small_one_does(part: Callable[[], Iterator[Row]], at_least: int) -> None:
    broken = ["nothing was measured"]
    for _ in range(ATTEMPTS):
        rows = [row for row in part() if _robust(row)]
        assert len(rows) >= at_least
        broken = [row.line() for row in rows if not row.holds]
        if not broken:
            return
    raise AssertionError("\n".join(broken))
