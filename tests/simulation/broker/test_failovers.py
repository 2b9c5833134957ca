"""Random groups of three with a coordinator keep their promises: 100 seeds of 1,000 for a commit, others later."""

from collections import Counter

import pytest

from campaigns.rotation import commits, in_turn
from tests.simulation.broker.failovers import DESTRUCTIVE, MACHINES, SHAPES, run_failovers

BATCH = 20
BATCHES = range(0, 1_000, BATCH)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("first", in_turn(BATCHES, 5, commits()))
def test_groups_keep_their_promises_through_failovers(first: int) -> None:
    counts: Counter[str] = Counter()
    for seed in range(first, first + BATCH):
        counts += run_failovers(seed)
    assert counts["acknowledged"] > 2_000, counts
    assert counts["epochs"] > 1.2 * BATCH, counts
    assert sum(kind in counts for kind in (*SHAPES, *MACHINES, *DESTRUCTIVE)) > 8, counts


@pytest.mark.parametrize(
    "seed", [45, 79], ids=["a lost answer to the first election", "a topic that died with its master"]
)
def test_groups_that_broke_a_promise_once(seed: int) -> None:
    run_failovers(seed)


def test_a_seed_repeats_itself() -> None:
    assert run_failovers(12) == run_failovers(12)
