"""Sizes of records, counted together, give what counting each alone gives."""

from typing import Any

import pytest

from firearrow.broker.metrics.traffic import SIZES, RecordSizes
from firearrow.telemetry.metrics import Histogram


@pytest.mark.parametrize(
    "sizes",
    [[], [1], [1024, 1024], [1024, 1025], [1025, 4096], [4096, 4097], [5 << 20, 6 << 20], [1, 5 << 20]],
    ids=str,
)
def test_sizes_lie_between_the_same_bounds_as_one_by_one(sizes: list[int]) -> None:
    rows: Any = [(None, 0, size) for size in sizes]
    together, alone = RecordSizes(), Histogram(SIZES)
    together.arrived(rows)
    for size in sizes:
        alone.observe(size)
    assert (together.histogram.counts, together.histogram.total) == (alone.counts, alone.total)
