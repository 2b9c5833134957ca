"""The number of runs that archive everything, on versions of Spark that run one batch at a time and on those that run
all."""

from collections.abc import Mapping, Sequence
from typing import Any, cast

import pytest

from firearrow.client import MessageQueue
from firearrow.spark.pipelines import body_schemas, draining

QUEUE = MessageQueue("orders", "a", 0)


class Checkpoints:
    """Two queries of which each run plans, and commits, what is told."""

    def __init__(self, version: str, runs: Sequence[tuple[int, int]]) -> None:
        self.version = version
        self._runs = runs
        self.count = 0

    def begin(self) -> list[Any]:
        self.count += 1
        return []

    def planned(self, _spark: object, place: str) -> Mapping[MessageQueue, int]:
        at = self._runs[min(self.count, len(self._runs)) - 1]
        return {QUEUE: at[0 if place == "typed" else 1]}


@pytest.mark.parametrize(
    ("version", "runs", "count"),
    [
        ("4.2.1", [(20, 20)], 1),
        ("4.1.4", [(50, 50)], 1),
        ("4.1.4", [(6, 6), (26, 26), (46, 46), (50, 50)], 4),  # an unfinished batch, then batches of 20
        ("4.1.4", [(6, 50), (26, 50), (50, 50)], 3),
        ("4.1.4", [(6, 6), (6, 6)], 2),  # nothing comes any more, as from a broker that is away
    ],
)
def test_runs_follow_each_other_until_the_wanted_ends_are_reached(
    version: str, runs: list[tuple[int, int]], count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = Checkpoints(version, runs)
    monkeypatch.setattr(body_schemas, "planned_end", made.planned)

    for _ in draining.runs(cast("Any", made), ["typed", "quarantine"], lambda: {QUEUE: 50}, made.begin):
        pass

    assert made.count == count
