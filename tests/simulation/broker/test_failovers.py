"""Random groups of three with a coordinator keep their promises: 160 seeds in eight commits, more by command."""

from collections import Counter

import pytest

from campaigns.rotation import this_turn
from tests.simulation.broker.failovers import SHAPES, run_failovers
from tests.simulation.broker.strikes import DESTRUCTIVE, MACHINES

BATCH = 20
BATCHES = range(0, 160, BATCH)
LOOKED_FOR = (
    "given_back", "dead_letters", "timed", "recalled", "read", "commits_ended", "rollbacks_ended", "asked_about",
    "topics_kept", "topics_deleted", "groups_kept", "groups_deleted", "offsets_kept", "offsets_deleted",
)  # fmt: skip
"""The kinds of answers that the acts look for at the last master."""


@pytest.mark.timeout(600)
@pytest.mark.rotating
@pytest.mark.parametrize("first", this_turn(BATCHES, __name__))
def test_groups_keep_their_promises_through_failovers(first: int) -> None:
    counts: Counter[str] = Counter()
    for seed in range(first, first + BATCH):
        counts += run_failovers(seed)
    assert counts["acknowledged"] > 2_000, counts
    assert counts["changes refused by slaves"] > BATCH, counts
    assert counts["commits looked for"] > BATCH / 4, counts
    thin = {kind: counts[f"{kind} looked for"] for kind in LOOKED_FOR if counts[f"{kind} looked for"] < BATCH / 4}
    assert not thin, f"too few answers were looked for: {thin}"
    assert counts["epochs"] > 1.2 * BATCH, counts
    assert sum(kind in counts for kind in (*SHAPES, *MACHINES, *DESTRUCTIVE)) > 8, counts


def test_a_torn_record_of_a_slave_is_cut_off() -> None:
    assert run_failovers(239)["power of two, crash of the third"] == 1, "the seed has lost its fault: find another"


def test_a_seed_repeats_itself() -> None:
    assert run_failovers(12) == run_failovers(12)
